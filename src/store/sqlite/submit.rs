//! Submits tasks.

use jiff::Timestamp;
use windlass_statemachine::{Task, TaskState, state::FIRST_DATA_VERSION};

use super::{
    batch::{Batch, Sql},
    codes::{Log, from_code, micros},
    counts::{Group, Move, NOT_FAILED},
    dependencies,
    errors::Stop,
    json, limits,
    texts::to_json,
};
use crate::store::{
    Error,
    rules::{self},
};

/// Adds a checked task whose id is free, and returns its order. `fence` is that of the last claim of the task
/// that it replaces, or 0.
pub(super) fn write(batch: &mut Batch<'_>, task: &Task, fence: i64) -> Result<i64, Stop> {
    let state = TaskState::first(task, batch.now);
    let text = to_json(&state)?;
    let optional = optional(task)?;
    let n = batch.change(batch.next(), 0, Log::submitted(state.code()))?;
    insert(batch, n, task, &optional, batch.at)?;
    let waits = dependencies::column(&state);
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
        dependencies::add(batch, n, dependencies::waited_for(&state))?;
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
