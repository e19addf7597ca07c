//! Reads the history of one task.

use rusqlite::Connection;
use windlass_statemachine::TaskId;

use super::{batch::first, errors::Stop, query::row_of, read_changes};
use crate::store::Change;

/// Returns the newest `limit` changes of a task, oldest first. Follows their chain.
pub(super) fn history(conn: &Connection, id: &TaskId, limit: u32) -> Result<Vec<Change>, Stop> {
    let n = row_of(conn, id)?;
    let mut newest = conn.prepare_cached("SELECT last FROM windlass_states WHERE n = ?1")?;
    let mut next: i64 = first(&mut newest, [n], |row| row.get(0))?.unwrap_or(0);
    let mut history = Vec::new();
    while next != 0 && history.len() < limit as usize {
        // The history before this change was pruned.
        let Some((prev, change)) = read_changes::one(conn, next)? else {
            break;
        };
        history.extend(change);
        next = prev;
    }
    history.reverse();
    Ok(history)
}
