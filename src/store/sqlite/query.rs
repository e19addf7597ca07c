//! Reads tasks and commands for clients.

use rusqlite::Connection;
use windlass_statemachine::{CommandId, TaskId};

use super::{batch::first, errors::Stop, rows, texts::Text};
use crate::store::{CommandRecord, Error, TaskRecord};

/// Returns the row number of a task.
pub(super) fn row_of(conn: &Connection, id: &TaskId) -> Result<i64, Stop> {
    let mut row = conn.prepare_cached("SELECT n FROM windlass_tasks WHERE id = ?1")?;
    let n = first(&mut row, [id.as_str()], |row| row.get(0))?;
    Ok(n.ok_or_else(|| Error::no_task(id))?)
}

pub(super) fn get(conn: &Connection, id: &TaskId) -> Result<TaskRecord, Stop> {
    let sql = format!(
        "SELECT {} FROM {} WHERE t.id = ?1",
        rows::RECORD,
        rows::RECORD_TABLES
    );
    let record = first(
        &mut *conn.prepare_cached(&sql)?,
        [id.as_str()],
        rows::record,
    )?;
    Ok(record.flatten().ok_or_else(|| Error::no_task(id))?)
}

/// Returns the identity of the file, which it got when it was created.
pub(super) fn identity(conn: &Connection) -> Result<String, Stop> {
    let mut read =
        conn.prepare_cached("SELECT value FROM windlass_meta WHERE name = 'store_id'")?;
    Ok(read.query_row((), |row| row.get(0).map(Text::of))?)
}

pub(super) fn command(conn: &Connection, id: &CommandId) -> Result<CommandRecord, Stop> {
    let sql = format!(
        "SELECT {} FROM windlass_commands c JOIN windlass_tasks t ON t.n = c.n WHERE c.id = ?1",
        rows::COMMAND
    );
    let found = first(
        &mut *conn.prepare_cached(&sql)?,
        [id.as_str()],
        rows::command,
    )?;
    Ok(found.ok_or_else(|| Error::no_command(id))??)
}

pub(super) fn commands(conn: &Connection, id: &TaskId) -> Result<Vec<CommandRecord>, Stop> {
    let n = row_of(conn, id)?;
    let sql = format!(
        "SELECT {} FROM windlass_commands c JOIN windlass_tasks t ON t.n = c.n WHERE c.n = ?1 ORDER BY c.ord",
        rows::COMMAND
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for command in statement.query_map([n], rows::command)? {
        match command? {
            Ok(command) => found.push(command),
            Err(error) => tracing::error!(task = %id, %error, "could not read a command"),
        }
    }
    Ok(found)
}
