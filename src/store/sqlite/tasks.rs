//! Submitting, deleting and retrying tasks.

use windlass_statemachine::{Code, Fence, State, TaskId, size::Size};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros, to_code},
    errors::Stop,
    rows,
};
use crate::store::{
    Error, Submit, Submitted,
    rules::{
        self,
        retry::{Counted, Record},
        submit::{Taken, Verdict},
    },
};

/// About as many bytes as a state has beside its data.
const FRAME: usize = 192;

/// A state as its row holds it.
pub(super) fn to_json(state: &State) -> Result<String, Stop> {
    let invalid = |e: &dyn std::fmt::Display| {
        let reason = format!("cannot be written as JSON: {e}");
        windlass_statemachine::Invalid::new("state", reason)
    };
    // Most of the length is known beforehand; growing a text step by step costs more than making it.
    let mut text = Vec::with_capacity(FRAME + Size::of(state).bytes());
    serde_json::to_writer(&mut text, state).map_err(|e| invalid(&e))?;
    Ok(String::from_utf8(text).map_err(|e| invalid(&e))?)
}

/// What is known of the task that has an id.
struct Existing {
    n: i64,
    /// Of a task without a code that anybody knows, no end is known.
    has_ended: bool,
    fence: i64,
}

pub(super) fn submit(batch: &mut Batch<'_>, submit: &Submit) -> Result<Submitted, Stop> {
    let task = &submit.task;
    rules::size::check_task(task, batch.limits.max_bytes)?;
    let existing = batch.first(
        "SELECT t.n, s.code, s.fence FROM tasks t JOIN states s ON s.n = t.n WHERE t.id = ?1",
        [task.id.as_str()],
        |row| {
            Ok(Existing {
                n: row.get(0)?,
                has_ended: to_code(row.get(1)?).is_some_and(Code::is_terminal),
                fence: row.get(2)?,
            })
        },
    )?;
    let mut fence = 0;
    if let Some(existing) = existing {
        match decide(batch, submit, &existing)? {
            Verdict::Existing(code) => return Ok(Submitted::Existing(code)),
            Verdict::Replace => {
                forget(batch, existing.n, &task.id, batch.next())?;
                fence = existing.fence;
            }
        }
    }
    let state = State::submitted(task.start_at, batch.now);
    let text = to_json(&state)?;
    let labels = (!task.labels.is_empty()).then(|| json("labels", &task.labels));
    let retry = task.retry.as_ref().map(|retry| json("retry", retry));
    let (labels, retry) = (labels.transpose()?, retry.transpose()?);
    let n = batch.change(batch.next(), 0, Log::submitted(state.code()))?;
    batch.run(
        "INSERT INTO tasks (n, id, kind, priority, submitted_at, labels, start_at, retry, props)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        (
            n,
            task.id.as_str(),
            task.kind.as_str(),
            task.priority,
            batch.at,
            labels,
            task.start_at.map(|at| at.to_string()),
            retry,
            task.props.as_str(),
        ),
    )?;
    batch.run(
        "INSERT INTO states (n, code, due, fence, last, size, version, state)
         VALUES (?1, ?2, ?3, ?4, ?1, ?5, 0, ?6)",
        (
            n,
            from_code(state.code()),
            state.due().map(micros),
            fence,
            task.props.len() as i64,
            text,
        ),
    )?;
    Ok(Submitted::New)
}

/// Decides a submit whose id is taken. Only a rule that compares the tasks has the other one read.
fn decide(batch: &Batch<'_>, submit: &Submit, existing: &Existing) -> Result<Verdict, Stop> {
    let id = &submit.task.id;
    let mut there = None;
    if rules::submit::compares(submit.if_exists) {
        there = batch.first(
            "SELECT t.id, t.kind, t.priority, t.labels, t.start_at, t.retry, t.props,
                        s.state, s.quarantine
                 FROM tasks t JOIN states s ON s.n = t.n WHERE t.n = ?1",
            [existing.n],
            |row| {
                let quarantine: Option<String> = row.get(8)?;
                Ok((rows::task(row, 0)?, rows::state(row, 7)?, quarantine))
            },
        )?;
    }
    let (task, state, quarantine) = there.unwrap_or((None, Err(String::new()), None));
    let whole = task.as_ref().filter(|(_, wrong)| wrong.is_none());
    let code = match (quarantine, state) {
        (None, Ok(state)) => Ok(state.code()),
        (Some(reason), _) | (None, Err(reason)) => Err(Error::corrupt_task(id, reason)),
    };
    let taken = Taken {
        has_ended: existing.has_ended,
        task: whole.map(|(task, _)| task),
        code,
    };
    Ok(rules::submit::decide(submit, taken)?)
}

fn json<T: serde::Serialize>(field: &'static str, value: &T) -> Result<String, Stop> {
    serde_json::to_string(value).map_err(|e| {
        let reason = format!("cannot be written as JSON: {e}");
        windlass_statemachine::Invalid::new(field, reason).into()
    })
}

/// Deletes a task with all that belongs to it but its history, which is pruned by age.
pub(super) fn remove(batch: &mut Batch<'_>, n: i64, id: &TaskId, last: i64) -> Sql<()> {
    let seq = batch.change(n, last, Log::deleted())?;
    forget(batch, n, id, seq)
}

/// Deletes the rows of a task, whose last change is at most `seq`.
fn forget(batch: &Batch<'_>, n: i64, id: &TaskId, seq: i64) -> Sql<()> {
    batch.run(
        "INSERT INTO gone (n, id, seq) VALUES (?1, ?2, ?3)",
        (n, id.as_str(), seq),
    )?;
    batch.run("DELETE FROM commands WHERE n = ?1", [n])?;
    let delete = "DELETE FROM states WHERE n = ?1 RETURNING fence";
    for fence in batch.all(delete, [n], |row| row.get(0))? {
        batch.raise_fences(fence)?;
    }
    batch.run("DELETE FROM tasks WHERE n = ?1", [n])?;
    Ok(())
}

pub(super) fn delete(batch: &mut Batch<'_>, id: &TaskId) -> Result<(), Stop> {
    let found = batch.first(
        "SELECT t.n, s.last FROM tasks t JOIN states s ON s.n = t.n WHERE t.id = ?1",
        [id.as_str()],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (n, last) = found.ok_or_else(|| Error::no_task(id))?;
    Ok(remove(batch, n, id, last)?)
}

/// The record of a task cannot be read: it stays, set aside with the reason, until an operator
/// asks for a retry. Its claim, if it has one, ends.
pub(super) fn set_aside(batch: &mut Batch<'_>, n: i64, last: i64, reason: &str) -> Sql<()> {
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
    if !is_whole {
        repair(batch, n)?;
    }
    let seq = batch.change(n, last, Log::retried())?;
    batch.run(
        "UPDATE states SET code = ?2, due = ?3, owner = NULL, last = ?4, lost_by = NULL,
                ended_at = NULL, quarantine = NULL, version = ?5, state = ?6,
                pending = (SELECT count(*) FROM commands c WHERE c.n = ?1 AND outcome IS NULL)
         WHERE n = ?1",
        (
            n,
            from_code(state.code()),
            state.due().map(micros),
            seq,
            state.version as i64,
            to_json(&state)?,
        ),
    )?;
    Ok(())
}

/// Replaces what cannot be read of a task with its default. The reason is in its error log.
fn repair(batch: &Batch<'_>, n: i64) -> Result<(), Stop> {
    let read = batch.first(
        "SELECT id, kind, priority, labels, start_at, retry, props FROM tasks WHERE n = ?1",
        [n],
        |row| rows::task(row, 0),
    )?;
    let Some((task, _)) = read.flatten() else {
        return Ok(());
    };
    let labels = (!task.labels.is_empty()).then(|| json("labels", &task.labels));
    let retry = task.retry.as_ref().map(|retry| json("retry", retry));
    batch.run(
        "UPDATE tasks SET kind = ?2, labels = ?3, start_at = ?4, retry = ?5, props = ?6
         WHERE n = ?1",
        (
            n,
            task.kind.as_str(),
            labels.transpose()?,
            task.start_at.map(|at| at.to_string()),
            retry.transpose()?,
            task.props.as_str(),
        ),
    )?;
    Ok(())
}
