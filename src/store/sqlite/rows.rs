//! Reads records from rows. For a record that cannot be read it returns the reason, and the query does
//! not fail.

use rusqlite::Row;
use windlass_statemachine::{CommandId, Fence, Json, Kind, Task, TaskId, command::NotedCommand};

use super::{
    batch::Sql,
    codes::time,
    columns::{self, id, json, name, quarantine, state, text},
    limits::{self, limited_by_columns},
};
use crate::store::{CommandRecord, Error, TaskRecord};

/// The columns for [`task`].
macro_rules! task_columns {
    () => {
        concat!("t.id, ", $crate::store::sqlite::rows::named_task_columns!())
    };
}
pub(super) use task_columns;

/// The columns for [`named_task`].
macro_rules! named_task_columns {
    () => {
        "t.kind, t.priority, t.labels, t.start_at, t.retry, t.props, t.terms"
    };
}
pub(super) use named_task_columns;

/// The columns for [`record`]; `l` is the lease of the claim.
pub(super) const RECORD: &str = concat!(
    "t.n, t.submitted_at, s.state, s.quarantine, s.fence, s.pending, l.node, ",
    task_columns!(),
    ", ",
    limited_by_columns!()
);

/// The tables of [`RECORD`].
pub(super) const RECORD_TABLES: &str = "windlass_tasks t JOIN windlass_states s ON s.n = t.n LEFT JOIN windlass_leases l ON l.id = s.owner
     LEFT JOIN windlass_held h ON s.limited AND h.n = s.n";

/// The tables of [`RECORD`], read in the order of ids.
pub(super) const RECORD_TABLES_BY_ID: &str =
    "windlass_tasks t INDEXED BY sqlite_autoindex_windlass_tasks_1
     CROSS JOIN windlass_states s ON s.n = t.n LEFT JOIN windlass_leases l ON l.id = s.owner
     LEFT JOIN windlass_held h ON s.limited AND h.n = s.n";

/// The tables of [`RECORD`] after `states s`, for a query by an index of `states`.
pub(super) const RECORD_BY_STATE: &str =
    "CROSS JOIN windlass_tasks t ON t.n = s.n LEFT JOIN windlass_leases l ON l.id = s.owner
     LEFT JOIN windlass_held h ON s.limited AND h.n = s.n";

/// Returns a task from the columns [`task_columns`], starting at `first`, like [`named_task`]. `None` when the
/// id cannot be read.
pub(super) fn task(row: &Row<'_>, first: usize) -> Sql<Option<(Task, Option<String>)>> {
    match id(row, first)? {
        Some(id) => named_task(row, first + 1, id),
        None => Ok(None),
    }
}

/// Returns the task of this id from the columns [`named_task_columns`], starting at `first`, and the first reason
/// why a field cannot be read. An unreadable field has its default.
pub(super) fn named_task(
    row: &Row<'_>,
    first: usize,
    id: TaskId,
) -> Sql<Option<(Task, Option<String>)>> {
    let mut wrong = None;
    let kind = match text(row, first)?.map(|text| Kind::new(text.unwrap_or_default())) {
        Ok(Ok(kind)) => Some(kind),
        Ok(Err(e)) => keep(&mut wrong, e),
        Err(e) => keep(&mut wrong, format!("kind: {e}")),
    };
    let Some(kind) = kind.or_else(unreadable) else {
        return Ok(None);
    };
    let mut task = Task::new(id, kind);
    let priority: i64 = row.get(first + 1)?;
    task.priority = match i32::try_from(priority) {
        Ok(priority) => Some(priority),
        Err(_) => keep(&mut wrong, format!("priority: {priority} is out of range")),
    }
    .unwrap_or_default();
    task.labels = json(row, first + 2, "labels")?
        .unwrap_or_else(|e| keep(&mut wrong, e))
        .unwrap_or_default();
    task.start_at = match text(row, first + 3)? {
        Ok(Some(text)) => windlass_statemachine::time::parse("start_at", text)
            .map_or_else(|e| keep(&mut wrong, e), Some),
        Ok(None) => None,
        Err(e) => keep(&mut wrong, format!("start_at: {e}")),
    };
    task.retry = json(row, first + 4, "retry")?.unwrap_or_else(|e| keep(&mut wrong, e));
    let props = text(row, first + 5)?.map(|text| Json::parse("props", text.unwrap_or("null")));
    task.props = match props {
        Ok(Ok(props)) => Some(props),
        Ok(Err(e)) => keep(&mut wrong, e),
        Err(e) => keep(&mut wrong, format!("props: {e}")),
    }
    .unwrap_or_default();
    let terms = json(row, first + 6, "terms")?.unwrap_or_else(|e| keep(&mut wrong, e));
    if let Some(terms) = terms {
        task.set_terms(terms);
    }
    Ok(Some((task, wrong)))
}

/// Returns the stand-in for a kind that cannot be read.
pub(super) fn unreadable() -> Option<Kind> {
    Kind::new("unreadable").ok()
}

/// Keeps the first reason.
fn keep<T>(wrong: &mut Option<String>, reason: impl ToString) -> Option<T> {
    wrong.get_or_insert_with(|| reason.to_string());
    None
}

/// Returns a record from the columns [`RECORD`]; `None` when the id cannot be read.
pub(super) fn record(row: &Row<'_>) -> Sql<Option<TaskRecord>> {
    let Some((task, wrong)) = task(row, 7)? else {
        return Ok(None);
    };
    let quarantine = quarantine(row, 3)?.or(wrong);
    let state = match (quarantine, state(row, 2)?) {
        (None, Ok(state)) => Ok(state),
        (Some(reason), _) | (None, Err(reason)) => Err(Error::corrupt_task(&task.id, reason)),
    };
    Ok(Some(TaskRecord {
        state,
        order: row.get::<_, i64>(0)? as u64,
        submitted_at: time(row.get(1)?),
        node: name(row, 6)?,
        fence: Fence(row.get::<_, i64>(4)? as u64),
        commands: row.get::<_, i64>(5)? as u64,
        limited_by: limits::limited_by(row, 15, &task.limits)?,
        task,
    }))
}

/// The columns for [`command`].
pub(super) const COMMAND: &str = "c.id, t.id, c.ord, c.command, c.sent_at, c.outcome, c.by";

/// Returns a command with its outcome.
pub(super) fn command(row: &Row<'_>) -> Sql<Result<CommandRecord, Error>> {
    let order: i64 = row.get(2)?;
    let id = text(row, 0)?.map(|id| CommandId::new(id.unwrap_or_default()));
    let command = json::<NotedCommand>(row, 3, "command")?;
    let outcome = json(row, 5, "outcome")?;
    let task = columns::id(row, 1)?;
    let by = columns::author(row, 6)?;
    let unreadable = |reason: String| Error::Corrupt {
        what: format!("command {order}"),
        reason,
    };
    let sent_at = time(row.get(4)?);
    let read = || {
        let NotedCommand { command, note } = command?.ok_or("it is empty")?;
        Ok(CommandRecord {
            id: id?.map_err(|e| e.to_string())?,
            task: task.ok_or("its task has no id that can be read")?,
            order: order as u64,
            command,
            sent_at,
            by,
            note,
            outcome: outcome?,
        })
    };
    Ok(read().map_err(unreadable))
}
