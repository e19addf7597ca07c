//! Claiming tasks.

use std::sync::{Arc, LazyLock};

use rusqlite::{Row, params_from_iter, types::ToSqlOutput};
use windlass_statemachine::{Fence, Task, TaskId, TaskState};

use super::{
    batch::{Batch, Sql},
    claim_cache::CachedClaim,
    codes::{Log, from_code, micros},
    columns, command,
    counts::{Group, Move, NOT_FAILED},
    dependencies,
    errors::{Stop, item},
    limits::{self, Admission},
    retry::quarantine,
    rows,
    texts::{Text, to_json},
};
use crate::hash::{HashSet, State};
use crate::store::{
    Claim, Claimed, Error, Lease,
    rules::{self, dependencies::LookedAt},
};

// Most claims change neither the code, which an index contains, nor the rare columns.
const CLAIMS: &str =
    "UPDATE windlass_states SET due = ?2, owner = ?3, fence = ?4, last = ?5, version = ?6, state = ?7
     WHERE n = ?1";
const CHANGES: &str =
    "UPDATE windlass_states SET due = ?2, owner = ?3, fence = ?4, last = ?5, version = ?6, state = ?7,
        code = ?8, limited = ?9, deadline = ?10, waits = iif(?11, 0, waits) WHERE n = ?1";

/// A task, as its claim reads it.
struct Found {
    n: i64,
    last: i64,
    pending: i64,
    lost_by: Option<Text>,
    fence: i64,
    limited: i64,
    group: Group,
    record: Result<(Task, TaskState), String>,
}

/// Reads a task of this id from the columns of [`select`].
fn found(row: &Row<'_>, id: &TaskId) -> Sql<Found> {
    let record = match (
        rows::named_task(row, 13, id.clone())?,
        columns::state(row, 5)?,
    ) {
        (Some((_, Some(wrong))), _) | (_, Err(wrong)) => Err(wrong),
        (Some((task, None)), Ok(state)) => Ok((task, state)),
        (None, _) => Err("its kind cannot be read".to_owned()),
    };
    Ok(Found {
        n: row.get(1)?,
        last: row.get(2)?,
        pending: row.get(3)?,
        lost_by: row.get(4)?,
        fence: row.get(7)?,
        limited: row.get(8)?,
        group: Group {
            kind: row.get(9)?,
            code: row.get(10)?,
            version: row.get(11)?,
            claimed: row.get(6)?,
            waits: row.get(12)?,
            quarantined: false,
            // Only an ended task has failed.
            failure: NOT_FAILED,
        },
        record,
    })
}

/// The most tasks that one statement reads.
const MANY: usize = 16;
const FEW: usize = 4;

static SELECTS: LazyLock<[String; 3]> = LazyLock::new(|| [MANY, FEW, 1].map(select));

/// Returns the statement that reads this many tasks. Its parameters are their ids and the lease.
fn select(count: usize) -> String {
    let ids: Vec<_> = (0..count).map(|place| format!("({place}, ?)")).collect();
    format!(
        "WITH wanted (place, id) AS (VALUES {ids})
         SELECT w.place, s.n, s.last, s.pending, s.lost_by, s.state, s.owner IS NOT NULL, s.fence, s.limited,
            s.kind, s.code, s.data_version, min(s.waits, 1), {columns}
         FROM wanted w CROSS JOIN windlass_tasks t ON t.id = w.id CROSS JOIN windlass_states s ON s.n = t.n
         WHERE s.ended_at IS NULL AND s.quarantine IS NULL AND (s.owner = ?{lease} OR s.owner IS NULL)",
        ids = ids.join(", "),
        columns = rows::named_task_columns!(),
        lease = count + 1,
    )
}

/// Returns a statement for the first tasks, and how many it reads. It never reads a task twice, because the claim
/// of a task changes what the next one finds.
fn next(ids: &[TaskId]) -> (&'static str, usize) {
    let are_different = |ids: &[TaskId]| {
        let mut seen = HashSet::with_capacity_and_hasher(ids.len(), State::default());
        ids.iter().all(|id| seen.insert(id))
    };
    let fits = |count: usize| ids.get(..count).is_some_and(are_different);
    let [many, few, one] = &*SELECTS;
    if fits(MANY) {
        (many, MANY)
    } else if fits(FEW) {
        (few, FEW)
    } else {
        (one, 1)
    }
}

/// Reads tasks with the statement for this many. `None` is a task that cannot be claimed.
fn find(
    batch: &Batch<'_>,
    select: &'static str,
    ids: &[TaskId],
    lease: &Lease,
) -> Sql<Vec<Option<Found>>> {
    let mut all: Vec<Option<Found>> = Vec::new();
    all.resize_with(ids.len(), || None);
    let lease = ToSqlOutput::from(lease.id as i64);
    let params = ids.iter().map(|id| ToSqlOutput::from(id.as_str()));
    batch.each(select, params_from_iter(params.chain([lease])), |row| {
        let place = row.get::<_, u32>(0)? as usize;
        if let (Some(id), Some(to)) = (ids.get(place), all.get_mut(place)) {
            *to = Some(found(row, id)?);
        }
        Ok(())
    })?;
    Ok(all)
}

/// Claims tasks for a live lease; returns `None` for a task that cannot be claimed.
pub(super) fn all(
    batch: &mut Batch<'_>,
    lease: &Lease,
    mut ids: &[TaskId],
) -> Sql<Vec<Result<Option<Claimed>, Error>>> {
    let mut claimed = Vec::with_capacity(ids.len());
    while !ids.is_empty() {
        let (select, count) = next(ids);
        let (group, others) = ids.split_at(count);
        let found = find(batch, select, group, lease)?;
        for (id, found) in group.iter().zip(found) {
            claimed.push(item(claim(batch, lease, id, found))?);
        }
        ids = others;
    }
    Ok(claimed)
}

/// Claims a task for a live lease; returns `None` when the task cannot be claimed.
fn claim(
    batch: &mut Batch<'_>,
    lease: &Lease,
    id: &TaskId,
    found: Option<Found>,
) -> Result<Option<Claimed>, Stop> {
    let owner = lease.id as i64;
    let Some(found) = found else {
        return Ok(None);
    };
    let n = found.n;
    if found.group.claimed {
        rules::worker::check_claims_once(lease, id)?;
    }
    let (task, state) = match found.record {
        Ok(record) => record,
        Err(reason) => {
            tracing::error!(task = %id, reason, "quarantined a task whose record cannot be read");
            quarantine(batch, n, found.last, &reason)?;
            return Err(Stop::Refused(Error::corrupt_task(id, reason)));
        }
    };
    let was_waiting = dependencies::column(&state) != 0;
    let before = (state.code(), state.deadline());
    let LookedAt { state, ready } = dependencies::looked_at(batch, state)?;
    let is_commanded = found.pending > 0;
    if !found.group.claimed && !rules::claim::is_claimable(&state, is_commanded, batch.now) {
        return Ok(None);
    }
    let admission = match found.group.claimed {
        true => limits::as_claimed(found.limited),
        false => {
            let due = state.due();
            let candidate = limits::Candidate {
                n,
                task: &task,
                due,
                is_late: rules::claim::is_late(&state, batch.now),
            };
            limits::admit(batch, &candidate, is_commanded)?
        }
    };
    let over_limit = match admission {
        Admission::Refused => return Ok(None),
        Admission::OverLimit => true,
        Admission::Slots => false,
    };
    let abandoned = found.lost_by.is_some();
    // Greater than the last fence of the task, whichever program wrote that.
    let fence = batch.next_fence()?.max(found.fence.saturating_add(1));
    // A lease claims its own task again when it got no answer. Its first claim has already counted
    // the lost claim before it, in the state and in the history; only `abandoned` is returned again.
    let lost_by = found
        .lost_by
        .as_ref()
        .map(|node| node.0.as_str())
        .filter(|_| !found.group.claimed);
    let state = state.claimed(Fence(fence as u64), lost_by, batch.now);
    let text = to_json(&state)?;
    let has_waited = was_waiting && dependencies::column(&state) == 0;
    let seq = batch.change(n, found.last, Log::claimed(owner, fence, lost_by.is_some()))?;
    let (due, version) = (state.due().map(micros), state.version as i64);
    let (code, deadline, limited) = (state.code(), state.deadline(), admission.limited(&task));
    let group = Group {
        code: from_code(code),
        claimed: true,
        waits: if has_waited { 0 } else { found.group.waits },
        ..found.group
    };
    let step = Move::between(found.group, group);
    if before == (code, deadline) && limited == found.limited && !has_waited {
        batch.write_state(CLAIMS, (n, due, owner, fence, seq, version, text), step)?;
    } else {
        let (code, deadline) = (group.code, deadline.map(micros));
        let row = (
            n, due, owner, fence, seq, version, text, code, limited, deadline, has_waited,
        );
        batch.write_state(CHANGES, row, step)?;
    }
    batch.claim_cache.set(n, CachedClaim { last: seq, group });
    if has_waited {
        dependencies::clear(batch, n)?;
    }
    let mut waiting = Vec::new();
    if found.pending > 0 {
        for command in command::waiting(batch.connection(), n)? {
            match command {
                Ok(command) => waiting.push(command),
                Err((order, reason)) => {
                    command::reject_unreadable(batch, n, order, &reason)?;
                }
            }
        }
    }
    Ok(Some(Claimed {
        claim: Claim {
            task: id.clone(),
            fence: Fence(fence as u64),
            lease: lease.id,
            token: n as u64,
        },
        task: Arc::new(task),
        order: n as u64,
        state,
        commands: waiting,
        ready: ready.filter(|_| !found.group.claimed),
        abandoned,
        over_limit,
    }))
}
