//! Quarantines tasks, and retries quarantined and ended ones.

use windlass_statemachine::{Fence, TaskId, TaskState};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros},
    errors::Stop,
    rows, submit,
    texts::to_json,
};
use crate::store::{
    Error,
    rules::{
        self,
        retry::{Counted, Record},
    },
};

/// Quarantines a task whose record cannot be read, with the reason. The record stays until an operator
/// retries the task. Its claim ends.
pub(super) fn quarantine(batch: &mut Batch<'_>, n: i64, last: i64, reason: &str) -> Sql<()> {
    let seq = batch.change(n, last, Log::quarantined())?;
    batch.run(
        "UPDATE states SET quarantine = ?2, owner = NULL, lost_by = NULL, last = ?3 WHERE n = ?1",
        (n, reason, seq),
    )?;
    Ok(())
}

pub(super) fn retry(batch: &mut Batch<'_>, id: &TaskId) -> Result<(), Stop> {
    let found = batch.first(
        "SELECT t.id, t.kind, t.priority, t.labels, t.start_at, t.retry, t.props,
                s.n, s.state, s.quarantine IS NOT NULL, s.last, s.fence, s.version
         FROM tasks t JOIN states s ON s.n = t.n WHERE t.id = ?1",
        [id.as_str()],
        |row| {
            let record = Record {
                id,
                state: rows::state(row, 8)?,
                envelope: rows::task(row, 0)?.and_then(|(_, wrong)| wrong),
                is_quarantined: row.get(9)?,
                last: Counted {
                    version: row.get::<_, i64>(12)? as u64,
                    fence: Fence(row.get::<_, i64>(11)? as u64),
                },
            };
            Ok((row.get(7)?, row.get(10)?, record))
        },
    )?;
    let (n, last, record) = found.ok_or_else(|| Error::no_task(id))?;
    let is_whole = record.envelope.is_none();
    let state = rules::retry::state(record, batch.now)?;
    write(batch, (n, last), &state, is_whole)
}

/// Gives task `n`, whose newest change is `last`, the state of a retry. `is_whole` is whether its envelope
/// can be read.
pub(super) fn write(
    batch: &mut Batch<'_>,
    (n, last): (i64, i64),
    state: &TaskState,
    is_whole: bool,
) -> Result<(), Stop> {
    if !is_whole {
        repair(batch, n)?;
    }
    let seq = batch.change(n, last, Log::retried())?;
    batch.run(
        "UPDATE states SET code = ?2, due = ?3, owner = NULL, last = ?4, lost_by = NULL,
                ended_at = NULL, quarantine = NULL, version = ?5, state = ?6,
                data_version = ?7,
                pending = (SELECT count(*) FROM commands c WHERE c.n = ?1 AND outcome IS NULL)
         WHERE n = ?1",
        (
            n,
            from_code(state.code()),
            state.due().map(micros),
            seq,
            state.version as i64,
            to_json(state)?,
            state.data_version,
        ),
    )?;
    Ok(())
}

/// Replaces unreadable fields of a task with their defaults. Its error log has the reason.
fn repair(batch: &Batch<'_>, n: i64) -> Result<(), Stop> {
    let read = batch.first(
        "SELECT id, kind, priority, labels, start_at, retry, props FROM tasks WHERE n = ?1",
        [n],
        |row| rows::task(row, 0),
    )?;
    let Some((task, _)) = read.flatten() else {
        return Ok(());
    };
    let optional = submit::optional(&task)?;
    batch.run(
        "UPDATE tasks SET kind = ?2, labels = ?3, start_at = ?4, retry = ?5, props = ?6
         WHERE n = ?1",
        (
            n,
            task.kind.as_str(),
            optional.labels,
            optional.start_at,
            optional.retry,
            task.props.as_str(),
        ),
    )?;
    Ok(())
}
