//! Submits tasks.

use jiff::Timestamp;
use windlass_statemachine::{StateKind, Task, TaskState, state::FIRST_DATA_VERSION};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros, to_code},
    columns,
    counts::{Group, Move, NOT_FAILED},
    delete::forget,
    errors::Stop,
    json, limits, rows,
    texts::to_json,
    waits,
};
use crate::store::{
    Error, Submit, Submitted,
    rules::{
        self,
        submit::{Taken, Verdict},
    },
};

/// The task that has the id.
struct Existing {
    n: i64,
    /// `false` for a task with an unknown code.
    has_ended: bool,
    fence: i64,
}

pub(super) fn submit(batch: &mut Batch<'_>, submit: &Submit) -> Result<Submitted, Stop> {
    let task = &submit.task;
    rules::submit::check(submit, batch.limits.max_bytes)?;
    let existing = batch.first(
        "SELECT t.n, s.code, s.fence FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.id = ?1",
        [task.id.as_str()],
        |row| {
            Ok(Existing {
                n: row.get(0)?,
                has_ended: to_code(row.get(1)?).is_some_and(StateKind::is_terminal),
                fence: row.get(2)?,
            })
        },
    )?;
    let mut fence = 0;
    if let Some(existing) = existing {
        match decide(batch, submit, &existing)? {
            Verdict::Existing(code) => return Ok(Submitted::Existing(code)),
            Verdict::Update => return Err(rules::submit::refused(&task.id, false).into()),
            Verdict::Replace => {
                forget(batch, existing.n, &task.id, batch.next())?;
                fence = existing.fence;
            }
        }
    }
    write(batch, task, fence)?;
    Ok(Submitted::New)
}

/// Adds a checked task whose id is free, and returns its order. `fence` is that of the last claim of the task
/// that it replaces, or 0.
pub(super) fn write(batch: &mut Batch<'_>, task: &Task, fence: i64) -> Result<i64, Stop> {
    let state = TaskState::first(task, batch.now);
    let text = to_json(&state)?;
    let optional = optional(task)?;
    let n = batch.change(batch.next(), 0, Log::submitted(state.code()))?;
    insert(batch, n, task, &optional, batch.at)?;
    let waits = waits::column(&state);
    let group = Group {
        kind: batch.kind(task.kind.as_str())?,
        code: from_code(state.code()),
        version: FIRST_DATA_VERSION.into(),
        claimed: false,
        waits: waits.min(1),
        quarantined: false,
        failure: NOT_FAILED,
    };
    batch.write_state(
        "INSERT INTO windlass_states (n, code, due, fence, last, size, version, state, limited, deadline, waits, kind)
         VALUES (?1, ?2, ?3, ?4, ?1, ?5, 0, ?6, ?7, ?8, ?9, ?10)",
        (
            n,
            group.code,
            state.due().map(micros),
            fence,
            task.props.len() as i64,
            text,
            limits::limited(task),
            state.deadline().map(micros),
            waits,
            group.kind,
        ),
        Move::new(group),
    )?;
    if task.unique.is_some() {
        // The key is free, or belongs to an ended task.
        take_key(batch, n, task, batch.now)?;
    }
    if state.is_waiting() {
        waits::add(batch, n, waits::waited_for(&state))?;
    }
    Ok(n)
}

/// Notes the unique key of a task, if it has one, in place of an earlier holder.
pub(super) fn take_key(batch: &Batch<'_>, n: i64, task: &Task, submitted_at: Timestamp) -> Sql<()> {
    let Some(unique) = &task.unique else {
        return Ok(());
    };
    let until = rules::unique::until(unique, submitted_at);
    batch.run(
        "INSERT INTO windlass_unique (key, n, until) VALUES (?1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET n = excluded.n, until = excluded.until",
        (unique.key(), n, micros(until)),
    )?;
    Ok(())
}

/// The fields of a task that may be NULL, as its row stores them.
pub(super) struct Optional {
    pub(super) labels: Option<String>,
    pub(super) start_at: Option<String>,
    pub(super) retry: Option<String>,
    pub(super) terms: Option<String>,
}

pub(super) fn optional(task: &Task) -> Result<Optional, Error> {
    let labels = (!task.labels.is_empty()).then(|| json("labels", &task.labels));
    let retry = task.retry.as_ref().map(|retry| json("retry", retry));
    let terms = task.terms().map(|terms| json("terms", &terms));
    Ok(Optional {
        labels: labels.transpose()?,
        start_at: task.start_at.map(|at| at.to_string()),
        retry: retry.transpose()?,
        terms: terms.transpose()?,
    })
}

/// Inserts the row of a task as it was submitted.
pub(super) fn insert(
    batch: &Batch<'_>,
    n: i64,
    task: &Task,
    optional: &Optional,
    submitted_at: i64,
) -> Sql<usize> {
    batch.run(
        "INSERT INTO windlass_tasks (n, id, kind, priority, submitted_at, labels, start_at, retry, props, terms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (
            n,
            task.id.as_str(),
            task.kind.as_str(),
            task.priority,
            submitted_at,
            &optional.labels,
            &optional.start_at,
            &optional.retry,
            task.props.as_str(),
            &optional.terms,
        ),
    )
}

/// Decides a submit whose id exists. Reads the other task only for a rule that compares tasks.
fn decide(batch: &Batch<'_>, submit: &Submit, existing: &Existing) -> Result<Verdict, Stop> {
    let id = &submit.task.id;
    let mut there = None;
    if rules::submit::compares(submit.if_exists, existing.has_ended) {
        there = batch.first(
            concat!(
                "SELECT s.state, s.quarantine, ",
                rows::task_columns!(),
                " FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.n = ?1"
            ),
            [existing.n],
            |row| {
                let quarantine = columns::quarantine(row, 1)?;
                Ok((rows::task(row, 2)?, columns::state(row, 0)?, quarantine))
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
        // A submit that replaces a waiting task is decided with all that it names.
        is_waiting: false,
    };
    Ok(rules::submit::decide(submit, taken)?)
}
