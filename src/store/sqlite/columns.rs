//! Reads single columns. For a value that cannot be read it returns the reason, and the query does
//! not fail.

use rusqlite::{Row, types::ValueRef};
use serde::de::DeserializeOwned;
use windlass_statemachine::{Author, NodeName, TaskId, TaskState};

use super::{batch::Sql, texts::Text};

/// Returns the text in a column, or why it is not text.
pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> Sql<Result<Option<&'r str>, String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|e| e.to_string()),
        other => Err(format!("{} instead of text", other.data_type())),
    })
}

/// Returns the JSON in a column; `None` for NULL.
pub(super) fn json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    name: &str,
) -> Sql<Result<Option<T>, String>> {
    Ok(text(row, column)?.and_then(|text| {
        let value = text.map(serde_json::from_str).transpose();
        value.map_err(|e| format!("{name}: {e}"))
    }))
}

/// Returns the author in a column. One that cannot be read is left out.
pub(super) fn author(row: &Row<'_>, column: usize) -> Sql<Option<Author>> {
    let by = row.get::<_, Option<Text>>(column)?;
    Ok(by.and_then(|by| Author::new(by.0).ok()))
}

/// Returns the state in a column, or why it cannot be read.
pub(super) fn state(row: &Row<'_>, column: usize) -> Sql<Result<TaskState, String>> {
    let state = json(row, column, "state")?;
    Ok(state.and_then(|state| state.ok_or_else(|| "state: is missing".to_owned())))
}

/// Returns why a task is quarantined; `None` when it is not.
pub(super) fn quarantine(row: &Row<'_>, column: usize) -> Sql<Option<String>> {
    Ok(row.get::<_, Option<Text>>(column)?.map(Text::of))
}

/// Returns the name of a node in a column.
pub(super) fn name(row: &Row<'_>, column: usize) -> Sql<Option<NodeName>> {
    let name = text(row, column)?.ok().flatten();
    Ok(name.and_then(|name| NodeName::new(name).ok()))
}

/// Returns the id of a task in a column.
pub(super) fn id(row: &Row<'_>, column: usize) -> Sql<Option<TaskId>> {
    let id = text(row, column)?.ok().flatten();
    Ok(id.and_then(|id| TaskId::new(id).ok()))
}
