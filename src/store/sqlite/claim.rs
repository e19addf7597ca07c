//! Claiming tasks.

use std::sync::Arc;

use rusqlite::Row;
use windlass_statemachine::{Fence, Task, TaskId, TaskState};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros},
    command,
    errors::Stop,
    limits::{self, Admission},
    retry::quarantine,
    rows,
    texts::to_json,
    waits,
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
    limited: i64,
    record: Result<(Task, TaskState), String>,
}

fn found(row: &Row<'_>) -> Sql<Found> {
    let record = match (rows::task(row, 8)?, rows::state(row, 4)?) {
        (Some((_, Some(wrong))), _) | (_, Err(wrong)) => Err(wrong),
        (Some((task, None)), Ok(state)) => Ok((task, state)),
        (None, _) => Err("its id cannot be read".to_owned()),
    };
    Ok(Found {
        n: row.get(0)?,
        last: row.get(1)?,
        pending: row.get(2)?,
        lost_by: row.get(3)?,
        claimed: row.get(5)?,
        fence: row.get(6)?,
        limited: row.get(7)?,
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
        concat!(
            "SELECT s.n, s.last, s.pending, s.lost_by, s.state, s.owner IS NOT NULL, s.fence, s.limited, ",
            rows::task_columns!(),
            " FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n
         WHERE t.id = ?1 AND s.ended_at IS NULL AND s.quarantine IS NULL
           AND (s.owner = ?2 OR s.owner IS NULL)"
        ),
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
    let was_waiting = state.is_waiting();
    let state = waits::looked_at(batch, state)?;
    let is_commanded = found.pending > 0;
    if !found.claimed && !rules::claim::is_claimable(&state, is_commanded, batch.now) {
        return Ok(None);
    }
    let admission = match found.claimed {
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
    // A file of an earlier version may hold a fence that is greater than its number.
    let fence = batch.next_fence()?.max(found.fence.saturating_add(1));
    // A lease claims its own task again when it got no answer. Its first claim has counted the lost
    // claim before it; only `abandoned` is returned again.
    let lost_by = found.lost_by.as_deref().filter(|_| !found.claimed);
    let state = state.claimed(Fence(fence as u64), lost_by, batch.now);
    let text = to_json(&state)?;
    let has_waited = was_waiting && !state.is_waiting();
    let seq = batch.change(n, found.last, Log::claimed(owner, fence, abandoned))?;
    batch.run(
        "UPDATE windlass_states SET code = ?2, due = ?3, owner = ?4, fence = ?5, last = ?8, version = ?6,
                state = ?7, limited = ?9, deadline = ?10, waits = iif(?11, 0, waits) WHERE n = ?1",
        (
            n,
            from_code(state.code()),
            state.due().map(micros),
            owner,
            fence,
            state.version as i64,
            text,
            seq,
            admission.limited(&task),
            state.deadline().map(micros),
            has_waited,
        ),
    )?;
    if has_waited {
        waits::clear(batch, n)?;
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
        abandoned,
        over_limit,
    }))
}
