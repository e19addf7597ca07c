//! Submitting, deleting and retrying tasks.

use windlass_statemachine::{Code, Json, State, Status, TaskId};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros, to_code},
    errors::Stop,
    rows,
};
use crate::store::{Error, IfExists, Submit, Submitted};

/// About as many bytes as a state has beside its data.
const FRAME: usize = 192;

/// A state as its row holds it.
pub(super) fn to_json(state: &State) -> Result<String, Stop> {
    let invalid = |e: &dyn std::fmt::Display| {
        let reason = format!("cannot be written as JSON: {e}");
        windlass_statemachine::Invalid::new("state", reason)
    };
    // Most of the length is known beforehand; growing a text step by step costs more than making it.
    let mut text = Vec::with_capacity(FRAME + size(state).0);
    serde_json::to_writer(&mut text, state).map_err(|e| invalid(&e))?;
    Ok(String::from_utf8(text).map_err(|e| invalid(&e))?)
}

/// How many bytes of a state count against the limit, and the field that has most of them.
pub(super) fn size(state: &State) -> (usize, &'static str) {
    let data = state.data.as_ref().map_or(0, |d| d.len());
    let result = match &state.status {
        Status::Completed { result } => result.as_ref().map_or(0, |r| r.len()),
        _ => 0,
    };
    (data + result, if result > data { "result" } else { "data" })
}

/// What is known of the task that has an id.
struct Existing {
    n: i64,
    code: Code,
    same: bool,
    fence: i64,
}

pub(super) fn submit(batch: &mut Batch<'_>, submit: &Submit) -> Result<Submitted, Stop> {
    let (task, limit) = (&submit.task, batch.limits.max_bytes);
    if task.props.len() > limit {
        return Err(Stop::Told(Error::TooLarge {
            field: "props",
            bytes: task.props.len(),
            limit,
        }));
    }
    task.check(limit)?;
    let existing = batch.first(
        "SELECT t.n, s.code, CASE WHEN t.kind = ?2 AND ?3 THEN t.props END, s.fence
         FROM tasks t JOIN states s ON s.n = t.n WHERE t.id = ?1",
        (
            task.id.as_str(),
            task.kind.as_str(),
            submit.if_exists == IfExists::Same,
        ),
        |row| {
            // Bytes that are no JSON text are nobody's props.
            let props = row.get_ref(2)?.as_str_or_null().ok().flatten();
            let props = props.and_then(|text| Json::parse("props", text).ok());
            Ok(Existing {
                n: row.get(0)?,
                // A code that nobody knows is no reason to throw the record away.
                code: to_code(row.get(1)?).unwrap_or(Code::Fault),
                same: props.is_some_and(|props| props.same_value(&task.props)),
                fence: row.get(3)?,
            })
        },
    )?;
    let mut fence = 0;
    if let Some(existing) = existing {
        let ended = existing.code.is_terminal();
        match submit.if_exists {
            IfExists::Same if existing.same => return Ok(Submitted::Existing(existing.code)),
            IfExists::ReplaceFinished if ended => {
                forget(batch, existing.n, &task.id, batch.next())?;
                fence = existing.fence;
            }
            _ if ended => {
                return Err(Stop::Told(Error::AlreadyFinished(task.id.clone())));
            }
            _ => {
                return Err(Stop::Told(Error::AlreadyExists {
                    what: "task",
                    name: task.id.to_string(),
                }));
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
                s.n, s.state, s.quarantine, s.last, s.fence
         FROM tasks t JOIN states s ON s.n = t.n WHERE t.id = ?1",
        [id.as_str()],
        |row| {
            let wrong = rows::task(row, 0)?.and_then(|(_, wrong)| wrong);
            let quarantine: Option<String> = row.get(9)?;
            Ok((
                row.get::<_, i64>(7)?,
                rows::state(row, 8)?,
                quarantine.or_else(|| wrong.clone()),
                wrong,
                row.get::<_, i64>(10)?,
                row.get::<_, i64>(11)?,
            ))
        },
    )?;
    let (n, state, set_aside, wrong, last, fence) = found.ok_or_else(|| Error::no_task(id))?;
    let now = batch.now;
    let state = match (state, set_aside) {
        (Ok(state), _) if state.code().is_terminal() => state.retried(now),
        (Ok(state), Some(_)) if wrong.is_none() => state,
        (Ok(state), None) => {
            return Err(Error::not_retried(state.code()).into());
        }
        (Ok(mut state), Some(reason)) => {
            state.errors.push(now, reason, usize::MAX);
            state.retried(now)
        }
        (Err(why), set_aside) => {
            let mut state = State::new(now);
            let reason = set_aside.unwrap_or(why);
            let text = format!("its state could not be read and was begun anew: {reason}");
            state.errors.push(now, text, usize::MAX);
            state.fence = windlass_statemachine::Fence(fence as u64);
            state.retried(now)
        }
    };
    if wrong.is_some() {
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
