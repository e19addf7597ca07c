//! Deletes tasks.

use rusqlite::Row;
use windlass_statemachine::TaskId;

use super::{
    audit,
    batch::{Batch, Sql},
    codes::Log,
    counts::{Group, Move, group_columns},
    dependencies,
    errors::Stop,
    limits, log_lines,
};

/// Deletes a task with everything that belongs to it except its history, which is pruned by age.
pub(super) fn remove(batch: &mut Batch<'_>, n: i64, id: &TaskId, last: i64) -> Sql<()> {
    let seq = batch.change(n, last, Log::deleted())?;
    forget(batch, n, id, seq)
}

/// Deletes the rows of a task, whose last change is at most `seq`.
pub(super) fn forget(batch: &mut Batch<'_>, n: i64, id: &TaskId, seq: i64) -> Sql<()> {
    batch.run(
        "INSERT INTO windlass_gone (n, id, seq) VALUES (?1, ?2, ?3)",
        (n, id.as_str(), seq),
    )?;
    batch.run("DELETE FROM windlass_commands WHERE n = ?1", [n])?;
    log_lines::forget(batch, n)?;
    let before = concat!(
        "SELECT s.fence, s.limited, ",
        group_columns!(),
        " FROM windlass_states s WHERE s.n = ?1"
    );
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, Group::read(row, 2)?));
    if let Some((fence, limited, group)) = batch.first(before, [n], read)? {
        let delete = "DELETE FROM windlass_states WHERE n = ?1";
        batch.write_state(delete, [n], Move::gone(group))?;
        batch.raise_fences(fence)?;
        if group.waits > 0 {
            dependencies::clear(batch, n)?;
        }
        limits::forget(batch, n, limited)?;
    }
    batch.run("DELETE FROM windlass_tasks WHERE n = ?1", [n])?;
    batch.waits.unsettles = true;
    Ok(())
}

/// Deletes a task on request, and adds a line to the history of the namespace.
pub(super) fn asked(batch: &mut Batch<'_>, n: i64, id: &TaskId, last: i64) -> Result<(), Stop> {
    audit::deleted(batch, n, id)?;
    Ok(remove(batch, n, id, last)?)
}
