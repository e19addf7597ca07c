//! Claiming tasks.

use std::sync::Arc;

use rusqlite::Row;
use windlass_statemachine::{Fence, Task, TaskId, TaskState};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros},
    command,
    errors::Stop,
    retry::quarantine,
    rows,
    texts::to_json,
};
use crate::store::{Claim, Claimed, Error, Lease, rules};

/// A task as its claim finds it.
struct Found {
    n: i64,
    last: i64,
    pending: i64,
    lost_by: Option<String>,
    claimed: bool,
    fence: i64,
    record: Result<(Task, TaskState), String>,
}

fn found(row: &Row<'_>) -> Sql<Found> {
    let record = match (rows::task(row, 0)?, rows::state(row, 11)?) {
        (Some((_, Some(wrong))), _) | (_, Err(wrong)) => Err(wrong),
        (Some((task, None)), Ok(state)) => Ok((task, state)),
        (None, _) => Err("its id cannot be read".to_owned()),
    };
    Ok(Found {
        n: row.get(7)?,
        last: row.get(8)?,
        pending: row.get(9)?,
        lost_by: row.get(10)?,
        claimed: row.get(12)?,
        fence: row.get(13)?,
        record,
    })
}

/// Claims a task for a live lease; returns `None` when the task cannot be claimed.
pub(super) fn claim(
    batch: &mut Batch<'_>,
    lease: &Lease,
    id: &TaskId,
) -> Result<Option<Claimed>, Stop> {
    let owner = lease.id as i64;
    let found = batch.first(
        "SELECT t.id, t.kind, t.priority, t.labels, t.start_at, t.retry, t.props,
                s.n, s.last, s.pending, s.lost_by, s.state, s.owner IS NOT NULL, s.fence
         FROM tasks t JOIN states s ON s.n = t.n
         WHERE t.id = ?1 AND s.ended_at IS NULL AND s.quarantine IS NULL
           AND (s.owner = ?2 OR s.owner IS NULL)",
        (id.as_str(), owner),
        found,
    )?;
    let Some(found) = found else {
        return Ok(None);
    };
    let n = found.n;
    let (task, state) = match found.record {
        Ok(record) => record,
        Err(reason) => {
            tracing::error!(task = %id, reason, "quarantined a task whose record cannot be read");
            quarantine(batch, n, found.last, &reason)?;
            return Err(Stop::Refused(Error::corrupt_task(id, reason)));
        }
    };
    let is_commanded = found.pending > 0;
    if !found.claimed && !rules::claim::is_claimable(&state, is_commanded, batch.now) {
        return Ok(None);
    }
    let abandoned = found.lost_by.is_some();
    // A file of an earlier version may hold a fence that is greater than its number.
    let fence = batch.next_fence()?.max(found.fence.saturating_add(1));
    // A lease claims its own task again when it got no answer. Its first claim has counted the lost
    // claim before it; only `abandoned` is returned again.
    let lost_by = found.lost_by.as_deref().filter(|_| !found.claimed);
    let state = state.claimed(Fence(fence as u64), lost_by, batch.now);
    let text = to_json(&state)?;
    let seq = batch.change(n, found.last, Log::claimed(owner, fence, abandoned))?;
    batch.run(
        "UPDATE states SET code = ?2, due = ?3, owner = ?4, fence = ?5, last = ?8, version = ?6,
                state = ?7 WHERE n = ?1",
        (
            n,
            from_code(state.code()),
            state.due().map(micros),
            owner,
            fence,
            state.version as i64,
            text,
            seq,
        ),
    )?;
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
        abandoned,
    }))
}
