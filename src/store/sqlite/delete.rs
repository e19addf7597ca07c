//! Deletes tasks.

use windlass_statemachine::TaskId;

use super::{
    batch::{Batch, Sql},
    codes::Log,
    errors::Stop,
};
use crate::store::Error;

/// Deletes a task with everything that belongs to it except its history, which is pruned by age.
pub(super) fn remove(batch: &mut Batch<'_>, n: i64, id: &TaskId, last: i64) -> Sql<()> {
    let seq = batch.change(n, last, Log::deleted())?;
    forget(batch, n, id, seq)
}

/// Deletes the rows of a task, whose last change is at most `seq`.
pub(super) fn forget(batch: &Batch<'_>, n: i64, id: &TaskId, seq: i64) -> Sql<()> {
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
