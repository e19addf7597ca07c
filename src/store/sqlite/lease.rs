//! Leases: join, renew, leave, and ending expired leases.

use std::time::Duration;

use rusqlite::{Connection, Row};
use windlass_statemachine::{NodeName, StateKind};

use super::{
    batch::{Batch, Lost, Sql},
    boot::LeaseClock,
    codes::{Log, to_code},
    columns,
    counts::{Group, Move, group_columns},
    errors::Stop,
    limits, open,
    process::{self, NO_PROCESS},
    texts::Text,
};
use crate::store::{Error, Lease, NodeSpec, rules};

// A worker runs on another machine perhaps: a restart of this one does not end its lease.
const ENDED: &str =
    "SELECT id, node, boot <> ?1 AND ifnull(process = 'none', 0) FROM windlass_leases
     WHERE ended_at IS NULL AND (boot <> ?1 OR expires <= ?2)";

const OF_PROCESSES: &str = "SELECT id, node, process FROM windlass_leases
     WHERE ended_at IS NULL AND boot = ?1 AND process IS NOT NULL AND process <> 'none'";

const NEXT_END: &str = "SELECT min(expires) FROM windlass_leases WHERE ended_at IS NULL";

const LIVE: &str = "SELECT node, boot, expires, process, id FROM windlass_leases WHERE ended_at IS NULL ORDER BY node";

/// A lease that was not ended explicitly.
pub(super) struct Standing {
    pub(super) id: i64,
    pub(super) node: String,
    /// Whether the next write ends it.
    pub(super) is_over: bool,
}

/// Returns the leases that were not ended explicitly.
pub(super) fn standing(conn: &Connection, clock: &LeaseClock) -> Sql<Vec<Standing>> {
    let now = clock.now();
    let mut live = conn.prepare(LIVE)?;
    let found = live.query_map((), |row| {
        let process: Option<Text> = row.get(3)?;
        let is_worker = process.as_ref().is_some_and(|one| one.0 == NO_PROCESS);
        let is_over = match row.get::<_, Text>(1)?.0 == clock.boot() {
            true => row.get::<_, i64>(2)? <= now,
            false => !is_worker,
        };
        Ok(Standing {
            id: row.get(4)?,
            node: row.get::<_, Text>(0)?.0,
            is_over: is_over || process.is_some_and(|process| process::has_ended(&process.0)),
        })
    })?;
    found.collect()
}

/// Returns whether there is a lease to [`reap`].
pub(super) fn any_ended(conn: &Connection, clock: &LeaseClock) -> Sql<bool> {
    let mut ended = conn.prepare_cached(ENDED)?;
    if ended.exists((clock.boot(), clock.now()))? {
        return Ok(true);
    }
    let mut of_processes = conn.prepare_cached(OF_PROCESSES)?;
    let mut rows = of_processes.query([clock.boot()])?;
    while let Some(row) = rows.next()? {
        if clock.have_ended(&row.get::<_, Text>(2)?.0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends expired leases and, every 400 ms, those of processes that have ended. Gives workers their whole TTL after a
/// restart of the machine. Every transaction begins with this, so that no write of a lease comes after its end.
pub(super) fn reap(batch: &mut Batch<'_>) -> Sql<()> {
    let (boot, now) = (batch.clock.boot(), batch.clock.now());
    let version = open::data_version(batch.connection())?;
    let looks = !batch.clock.none_has_ended(version);
    let mut found: Vec<(i64, String, bool)> = Vec::new();
    if looks {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1).map(Text::of)?, row.get(2)?));
        found = batch.all(ENDED, (boot, now), read)?;
    }
    let mut ended = Vec::new();
    for (lease, node, is_prolonged) in found {
        match is_prolonged {
            true => drop(batch.run(
                "UPDATE windlass_leases SET boot = ?2, expires = ?3 + ttl WHERE id = ?1",
                (lease, boot, now),
            )?),
            false => ended.push((lease, node)),
        }
    }
    if batch.clock.looks_at_processes() {
        let text = |row: &Row<'_>, column| row.get(column).map(Text::of);
        let read = |row: &Row<'_>| Ok((row.get(0)?, text(row, 1)?, text(row, 2)?));
        for (lease, node, process) in batch.all(OF_PROCESSES, [boot], read)? {
            if !ended.iter().any(|(id, _)| *id == lease) && batch.clock.have_ended(&process) {
                ended.push((lease, node));
            }
        }
    }
    for (lease, node) in ended {
        let claims = end(batch, lease, Some(&node))?;
        batch.lost.push(Lost {
            node,
            lease,
            claims,
        });
    }
    if looks {
        let next = batch.first(NEXT_END, (), |row| row.get::<_, Option<i64>>(0))?;
        let next = next.flatten().unwrap_or(i64::MAX);
        batch.clock.ends_next(version, next);
    }
    Ok(())
}

/// Ends a lease. With `lost_by` its claims are lost by that node, otherwise they are released. Returns
/// the number of claims.
fn end(batch: &mut Batch<'_>, lease: i64, lost_by: Option<&str>) -> Sql<usize> {
    let claims = end_claims(batch, lease, lost_by)?;
    batch.run(
        "UPDATE windlass_leases SET ended_at = ?2 WHERE id = ?1",
        (lease, batch.at),
    )?;
    batch.run(
        "DELETE FROM windlass_node_commands WHERE lease = ?1 AND outcome IS NULL",
        [lease],
    )?;
    Ok(claims)
}

/// Ends every lease, as that of a node that has ended without leaving: its claims are lost.
pub(super) fn end_all(batch: &mut Batch<'_>) -> Sql<()> {
    let live = "SELECT id, node FROM windlass_leases WHERE ended_at IS NULL";
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1).map(Text::of)?));
    for (lease, node) in batch.all(live, (), read)? {
        end(batch, lease, Some(&node))?;
    }
    Ok(())
}

/// Ends the claims of a lease, like [`end`], and returns their number.
pub(super) fn end_claims(batch: &mut Batch<'_>, lease: i64, lost_by: Option<&str>) -> Sql<usize> {
    let claims = batch.all(
        concat!(
            "SELECT s.n, s.last, s.fence, s.limited, s.state, ",
            group_columns!(),
            " FROM windlass_states s WHERE s.owner = ?1 ORDER BY s.n"
        ),
        [lease],
        |row| {
            let group = Group::read(row, 5)?;
            let could_run = to_code(group.code) == Some(StateKind::Runnable);
            // What cannot be read stays as it is: the next claim quarantines it.
            let state = match could_run {
                true => columns::state(row, 4)?.ok(),
                false => None,
            };
            Ok((
                (row.get(0)?, row.get(1)?, row.get(2)?),
                (row.get(3)?, group),
                (could_run, state),
            ))
        },
    )?;
    let count = claims.len();
    for ((n, last, fence), (limited, group), (could_run, state)) in claims {
        let state = state.map(|state| state.unclaimed(batch.now));
        let state = state.and_then(|state| serde_json::to_string(&state).ok());
        let claimed = false;
        let log = match lost_by {
            Some(_) => Log::lost(fence),
            None => Log::dropped(fence),
        };
        let seq = batch.change(n, last, log)?;
        batch.write_state(
            "UPDATE windlass_states SET owner = NULL, lost_by = ?2, last = ?3, state = ifnull(?4, state) WHERE n = ?1",
            (n, lost_by, seq, state),
            Move::between(group, Group { claimed, ..group }),
        )?;
        limits::claim_ended(batch, n, limited, could_run)?;
    }
    Ok(count)
}

/// Returns whether the lease is live. The transaction has already ended expired leases.
pub(super) fn lives(conn: &Connection, lease: i64) -> Sql<bool> {
    let mut lives =
        conn.prepare_cached("SELECT 1 FROM windlass_leases WHERE id = ?1 AND ended_at IS NULL")?;
    lives.exists([lease])
}

pub(super) fn join(
    batch: &mut Batch<'_>,
    node: &NodeSpec,
    spec: &str,
    status: &str,
    ttl: Duration,
) -> Result<Lease, Stop> {
    let name = node.name.as_str();
    rules::worker::check_description(false, node).map_err(Error::from)?;
    let live = "SELECT 1 FROM windlass_leases WHERE node = ?1 AND ended_at IS NULL";
    if batch.first(live, [name], |_| Ok(()))?.is_some() {
        return Err(Stop::Refused(Error::node_exists(&node.name)));
    }
    let process = batch.clock.process();
    grant(batch, &node.name, (spec, status), ttl, process)
}

/// Grants a lease to a node with this description and status.
pub(super) fn grant(
    batch: &Batch<'_>,
    node: &NodeName,
    (spec, status): (&str, &str),
    ttl: Duration,
    process: Option<&str>,
) -> Result<Lease, Stop> {
    // SQLite must be able to store the end of the longest lease.
    let ms = i64::try_from(ttl.as_millis())
        .unwrap_or(i64::MAX)
        .min(1 << 61);
    let clock = batch.clock;
    clock.forget_next_end();
    let joined = batch.all(
        "INSERT INTO windlass_leases (node, spec, status, ttl, boot, expires, joined_at, process)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id",
        (
            node.as_str(),
            spec,
            status,
            ms,
            clock.boot(),
            clock.now() + ms,
            batch.at,
            process,
        ),
        |row| row.get::<_, i64>(0),
    )?;
    let id = joined
        .first()
        .copied()
        .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(Lease::new(id as u64, node.clone(), ttl))
}

/// Ends a live lease. With `lost_by` its claims are lost by that node, otherwise they are released.
pub(super) fn leave(batch: &mut Batch<'_>, lease: u64, lost_by: Option<&str>) -> Sql<()> {
    let live = "SELECT 1 FROM windlass_leases WHERE id = ?1 AND ended_at IS NULL";
    if batch.first(live, [lease as i64], |_| Ok(()))?.is_some() {
        end(batch, lease as i64, lost_by)?;
    }
    Ok(())
}
