//! Remote workers: leases of no process, and the servers that speak for them.
//!
//! The row of a worker's lease has [`NO_PROCESS`] as its process. What only workers have is in the text of its
//! description ([`Stored`]).

use std::sync::Arc;

use rusqlite::{Connection, Row};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::value::RawValue;
use windlass_statemachine::{Fence, NodeName, TaskId};

use super::{
    batch::{Batch, Sql},
    boot::LeaseClock,
    columns,
    errors::Stop,
    json, lease,
    limits::{self, Admission},
    process::NO_PROCESS,
    rows,
    texts::Text,
    views,
};
use crate::hash::HashSet;
use crate::store::{
    Claim, Claimed, Error, Lease, NewWorker, NodeSpec, NodeStatus, Speaker, WorkerRecord,
    rules::worker::{self, Holder, Registration},
};

/// The description of a worker, as the column `spec` has it. A list of nodes reads only the description.
#[derive(Clone, Serialize)]
struct Stored {
    #[serde(flatten)]
    spec: NodeSpec,
    #[serde(flatten)]
    of_worker: WorkerFields,
}

/// What the text of a description has only for a worker.
#[derive(Clone, Default, Serialize, Deserialize)]
struct WorkerFields {
    /// The hash of its secret.
    #[serde(default)]
    secret: String,
    #[serde(default)]
    speaker: Speaker,
}

/// Reads the text twice: that takes less time than to keep the fields of which serde does not know yet whose they are. Each
/// exchange of a worker reads it.
impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(from)?.get();
        let spec = serde_json::from_str(text).map_err(D::Error::custom)?;
        let of_worker = serde_json::from_str(text).map_err(D::Error::custom)?;
        Ok(Self { spec, of_worker })
    }
}

impl Stored {
    fn text(&self) -> Result<String, Error> {
        json("node", self)
    }
}

/// The live lease of a node or a worker.
struct Live {
    lease: Lease,
    status: NodeStatus,
    /// `None` for a node. The reason if the text of a worker cannot be read.
    worker: Option<Result<Stored, String>>,
}

/// The condition for a lease that has not ended; `?1` and `?2` are the present start of the machine and its time.
pub(super) const IS_LIVE: &str = "ended_at IS NULL
     AND (boot = ?1 AND expires > ?2 OR boot <> ?1 AND ifnull(process = 'none', 0))";

/// Reads a lease from the columns `id`, `ttl`, `status`, `process` and `spec`.
fn live(row: &Row<'_>, name: &NodeName) -> Sql<Live> {
    let ttl = row.get::<_, i64>(1)?.unsigned_abs();
    let process: Option<Text> = row.get(3)?;
    let is_worker = process.is_some_and(|process| process.0 == NO_PROCESS);
    let stored = columns::json::<Stored>(row, 4, "spec")?;
    let stored = stored.and_then(|stored| stored.ok_or_else(|| "spec: is missing".to_owned()));
    let status = columns::json::<NodeStatus>(row, 2, "status")?;
    let id = row.get::<_, i64>(0)? as u64;
    Ok(Live {
        lease: Lease::new(id, name.clone(), std::time::Duration::from_millis(ttl)),
        status: status.ok().flatten().unwrap_or_default(),
        worker: is_worker.then_some(stored),
    })
}

/// Returns the live lease of this name. The transaction has already ended expired leases.
fn named(batch: &Batch<'_>, name: &NodeName) -> Sql<Option<Live>> {
    batch.first(
        "SELECT id, ttl, status, process, spec FROM windlass_leases WHERE node = ?1 AND ended_at IS NULL",
        [name.as_str()],
        |row| live(row, name),
    )
}

/// Returns the live lease with this number. The transaction has already ended expired leases.
fn numbered(batch: &Batch<'_>, lease: &Lease) -> Result<Live, Stop> {
    let found = batch.first(
        "SELECT id, ttl, status, process, spec FROM windlass_leases WHERE id = ?1 AND ended_at IS NULL",
        [lease.id as i64],
        |row| live(row, &lease.node),
    )?;
    found.ok_or_else(|| Error::lease_fenced(&lease.node).into())
}

fn unreadable(name: &NodeName, reason: impl Into<String>) -> Error {
    let (what, reason) = (format!("worker '{name}'"), reason.into());
    Error::Corrupt { what, reason }
}

fn write(batch: &Batch<'_>, lease: u64, stored: &Stored) -> Result<(), Stop> {
    let text = stored.text()?;
    batch.run(
        "UPDATE windlass_leases SET spec = ?2 WHERE id = ?1",
        (lease as i64, text),
    )?;
    Ok(())
}

pub(super) fn join(batch: &Batch<'_>, new: &NewWorker, status: &str) -> Result<WorkerRecord, Stop> {
    let name = &new.spec.name;
    let live = named(batch, name)?;
    let stored = live.as_ref().map(|live| match &live.worker {
        // Only the same worker may repair a text that cannot be read, and its secret is in that text.
        Some(Ok(stored)) => Holder::Worker(&stored.of_worker.secret),
        Some(Err(_)) | None => Holder::Node,
    });
    if let (Registration::Again, Some(live)) = (worker::register(new, stored)?, &live)
        && let Some(Ok(stored)) = &live.worker
    {
        let spec = new.spec.clone();
        let stored = Stored {
            spec,
            ..stored.clone()
        };
        write(batch, live.lease.id, &stored)?;
        batch.run(
            "UPDATE windlass_leases SET expires = ?2 + ttl WHERE id = ?1",
            (live.lease.id as i64, batch.clock.now()),
        )?;
        return Ok(record(live.lease.clone(), live.status.clone(), stored));
    }
    let stored = Stored {
        spec: new.spec.clone(),
        of_worker: WorkerFields {
            secret: new.secret.clone(),
            speaker: Speaker::default(),
        },
    };
    let (text, process) = (stored.text()?, Some(NO_PROCESS));
    let lease = lease::grant(batch, name, (&text, status), new.ttl, process)?;
    Ok(record(lease, NodeStatus::default(), stored))
}

fn record(lease: Lease, status: NodeStatus, stored: Stored) -> WorkerRecord {
    WorkerRecord {
        status,
        speaker: stored.of_worker.speaker,
        ..WorkerRecord::new(lease, stored.spec, stored.of_worker.secret)
    }
}

/// Returns the live worker with this name.
pub(super) fn read(
    conn: &Connection,
    clock: &LeaseClock,
    name: &NodeName,
) -> Result<Option<WorkerRecord>, Stop> {
    let mut found = conn.prepare_cached(&format!(
        "SELECT id, ttl, status, process, spec FROM windlass_leases WHERE node = ?3 AND {IS_LIVE}"
    ))?;
    let params = (clock.boot(), clock.now(), name.as_str());
    let found = super::batch::first(&mut found, params, |row| live(row, name))?;
    let Some(Live {
        lease,
        status,
        worker: Some(stored),
    }) = found
    else {
        return Ok(None);
    };
    let stored = stored.map_err(|reason| unreadable(name, reason))?;
    Ok(Some(record(lease, status, stored)))
}

/// Returns whether this is the lease of a live worker.
pub(super) fn is_worker(conn: &Connection, lease: i64) -> Sql<bool> {
    let mut found = conn.prepare_cached(
        "SELECT 1 FROM windlass_leases WHERE id = ?1 AND ended_at IS NULL AND process = 'none'",
    )?;
    found.exists([lease])
}

/// Returns the leases of the live workers.
pub(super) fn all(conn: &Connection) -> Sql<Vec<i64>> {
    let mut found = conn.prepare_cached(
        "SELECT id FROM windlass_leases WHERE ended_at IS NULL AND process = 'none' ORDER BY id",
    )?;
    let ids = found.query_map((), |row| row.get(0))?;
    ids.collect()
}

/// Replaces the description of a node or a worker.
pub(super) fn describe(batch: &Batch<'_>, lease: &Lease, spec: &NodeSpec) -> Result<(), Stop> {
    let live = numbered(batch, lease)?;
    worker::check_description(live.worker.is_some(), spec).map_err(Error::from)?;
    let text = match live.worker {
        None => json("node", spec)?,
        Some(stored) => {
            let stored = stored.map_err(|reason| unreadable(&lease.node, reason))?;
            let spec = spec.clone();
            Stored { spec, ..stored }.text()?
        }
    };
    batch.run(
        "UPDATE windlass_leases SET spec = ?2 WHERE id = ?1",
        (lease.id as i64, text),
    )?;
    Ok(())
}

fn stored(live: Live, lease: &Lease) -> Result<Stored, Error> {
    let stored = live
        .worker
        .ok_or_else(|| worker::not_a_worker(&lease.node))?;
    stored.map_err(|reason| unreadable(&lease.node, reason))
}

pub(super) fn speak(batch: &Batch<'_>, lease: &Lease, speaker: &Speaker) -> Result<Lease, Stop> {
    let live = numbered(batch, lease)?;
    let mut granted = live.lease.clone();
    let mut stored = stored(live, lease)?;
    if worker::speaks(&lease.node, &stored.of_worker.speaker, speaker)? {
        stored.of_worker.speaker.clone_from(speaker);
        write(batch, lease.id, &stored)?;
    }
    granted.speaker = Some(speaker.clone());
    Ok(granted)
}

/// Renews a lease, of a node or of a worker.
pub(super) fn renew(batch: &mut Batch<'_>, lease: &Lease, status: &str) -> Result<(), Stop> {
    let now = batch.clock.now();
    // The server that spoke for a worker before may know an older status.
    let is_late = lease.speaker.is_some()
        && matches!(
            claims_nothing(batch, lease)?,
            Some(Error::OtherSpeaker { .. })
        );
    let renewed = batch.run(
        "UPDATE windlass_leases SET expires = ?2 + ttl, status = ifnull(?3, status) WHERE id = ?1 AND ended_at IS NULL",
        (lease.id as i64, now, Some(status).filter(|_| !is_late)),
    )?;
    if renewed == 0 {
        return Err(Stop::Refused(Error::lease_fenced(&lease.node)));
    }
    Ok(())
}

/// Returns why this lease claims nothing; `None` when it may claim. The transaction has already ended expired leases.
pub(super) fn claims_nothing(batch: &Batch<'_>, lease: &Lease) -> Sql<Option<Error>> {
    if lease.speaker.is_none() {
        let lives = lease::lives(batch.connection(), lease.id as i64)?;
        return Ok((!lives).then(|| Error::lease_fenced(&lease.node)));
    }
    match numbered(batch, lease) {
        Ok(live) => {
            let stored = stored(live, lease);
            let checked =
                stored.and_then(|stored| worker::check_speaker(lease, &stored.of_worker.speaker));
            Ok(checked.err())
        }
        Err(Stop::Refused(error)) => Ok(Some(error)),
        Err(Stop::Sql(error)) => Err(error),
    }
}

/// Returns the claims of a live lease: all of them, or those of these tasks.
pub(super) fn held(
    conn: &Connection,
    clock: &LeaseClock,
    lease: &Lease,
    tasks: Option<&[TaskId]>,
) -> Result<Vec<Claimed>, Stop> {
    let mut lives = conn.prepare_cached(&format!(
        "SELECT 1 FROM windlass_leases WHERE id = ?3 AND {IS_LIVE}"
    ))?;
    if !lives.exists((clock.boot(), clock.now(), lease.id as i64))? {
        return Err(Error::lease_fenced(&lease.node).into());
    }
    let asked: Option<HashSet<&str>> =
        tasks.map(|tasks| tasks.iter().map(TaskId::as_str).collect());
    let mut claims = conn.prepare_cached(concat!(
        "SELECT s.n, s.state, s.fence, s.limited, s.lost_by IS NOT NULL, ",
        rows::task_columns!(),
        " FROM windlass_states s CROSS JOIN windlass_tasks t ON t.n = s.n WHERE s.owner = ?1 ORDER BY s.n"
    ))?;
    let mut rows = claims.query([lease.id as i64])?;
    let mut held = Vec::new();
    while let Some(row) = rows.next()? {
        let id = columns::text(row, 5)?.unwrap_or_default();
        if (asked.as_ref()).is_none_or(|asked| id.is_some_and(|id| asked.contains(id))) {
            held.extend(claimed(conn, row, lease)?);
        }
    }
    Ok(held)
}

/// Returns a claim from the columns of [`held`]; `None` for a task that cannot be read.
fn claimed(conn: &Connection, row: &Row<'_>, lease: &Lease) -> Sql<Option<Claimed>> {
    let n: i64 = row.get(0)?;
    let read = match (rows::task(row, 5)?, columns::state(row, 1)?) {
        (Some((task, None)), Ok(state)) => Ok((task, state)),
        (Some((_, Some(wrong))), _) | (_, Err(wrong)) => Err(wrong),
        (None, _) => Err("its id cannot be read".to_owned()),
    };
    let (task, state) = match read {
        Ok(read) => read,
        Err(reason) => {
            tracing::error!(row = n, reason, "could not read a claimed task");
            return Ok(None);
        }
    };
    let over_limit = matches!(limits::as_claimed(row.get(3)?), Admission::OverLimit);
    Ok(Some(Claimed {
        claim: Claim {
            task: task.id.clone(),
            fence: Fence(row.get::<_, i64>(2)? as u64),
            lease: lease.id,
            token: n as u64,
        },
        task: Arc::new(task),
        order: n as u64,
        state,
        commands: views::commands(conn, n)?,
        ready: None,
        abandoned: row.get(4)?,
        over_limit,
    }))
}
