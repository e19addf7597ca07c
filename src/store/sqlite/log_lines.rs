//! The lines that handlers log.

use rusqlite::Connection;
use windlass_statemachine::TaskId;

use super::{
    batch::{Batch, Sql},
    columns,
    errors::Stop,
    json, query,
};
use crate::store::{
    Claim, Error, LogPart, LogWrite, Logged,
    rules::log_lines::{self, LogHead, PartPlace},
};

/// Writes lines under a claim, without a transition.
pub(super) fn write(batch: &Batch<'_>, write: &LogWrite) -> Result<(), Stop> {
    let claim = &write.claim;
    // The transaction has already ended expired leases, so their claims have no owner.
    let owner = batch.first(
        "SELECT owner FROM windlass_states WHERE n = ?1 AND fence = ?2",
        (claim.token as i64, claim.fence.0 as i64),
        |row| row.get::<_, Option<i64>>(0),
    )?;
    if owner.flatten() != Some(claim.lease as i64) {
        return Err(Error::fenced(&claim.task).into());
    }
    add(batch, claim, &write.lines)
}

/// Writes the lines of a commit, next to its transition.
pub(super) fn of_commit(
    batch: &Batch<'_>,
    claim: &Claim,
    lines: Option<&[Logged]>,
) -> Result<(), Stop> {
    match lines {
        Some(lines) => add(batch, claim, lines),
        None => Ok(()),
    }
}

/// Adds lines of the live claim of a task.
fn add(batch: &Batch<'_>, claim: &Claim, lines: &[Logged]) -> Result<(), Stop> {
    let n = claim.token as i64;
    let added = log_lines::add(&head(batch, n)?, claim.fence, lines);
    for place in &added.removed {
        batch.run(
            "DELETE FROM windlass_log WHERE n = ?1 AND part = ?2",
            (n, place.part as i64),
        )?;
    }
    put(batch, n, &added.put)
}

/// Writes whole parts.
pub(super) fn put(batch: &Batch<'_>, n: i64, parts: &[LogPart]) -> Result<(), Stop> {
    for part in parts {
        batch.run(
            "INSERT OR REPLACE INTO windlass_log (n, part, incarnation, attempt, lines)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (
                n,
                part.part as i64,
                part.incarnation,
                part.attempt,
                json("log", part)?,
            ),
        )?;
    }
    Ok(())
}

fn head(batch: &Batch<'_>, n: i64) -> Result<LogHead, Stop> {
    let parts = batch.all(
        "SELECT part, incarnation, attempt FROM windlass_log WHERE n = ?1 ORDER BY part",
        [n],
        |row| {
            Ok(PartPlace {
                part: row.get::<_, i64>(0)? as u64,
                incarnation: row.get(1)?,
                attempt: row.get(2)?,
            })
        },
    )?;
    if parts.is_empty() {
        return Ok(LogHead::default());
    }
    let last = batch.first(
        "SELECT lines FROM windlass_log WHERE n = ?1 ORDER BY part DESC LIMIT 1",
        [n],
        |row| columns::json(row, 0, "log"),
    )?;
    // The next lines begin a part of their own when the last part cannot be read.
    let last = last.and_then(Result::ok).flatten();
    Ok(LogHead { parts, last })
}

/// Deletes the lines of a task.
pub(super) fn forget(batch: &Batch<'_>, n: i64) -> Sql<()> {
    let delete = "DELETE FROM windlass_log WHERE n = ?1";
    batch.run(delete, [n]).map(drop)
}

/// Returns the parts of a task from the part with this number on. Leaves out parts that cannot be read.
pub(super) fn read(conn: &Connection, id: &TaskId, from: u64) -> Result<Vec<LogPart>, Stop> {
    let n = query::row_of(conn, id)?;
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let mut parts = conn.prepare_cached(
        "SELECT lines FROM windlass_log WHERE n = ?1 AND part >= ?2 ORDER BY part",
    )?;
    let parts = parts.query_map((n, from), |row| columns::json(row, 0, "log"))?;
    let parts = parts.collect::<Sql<Vec<_>>>()?;
    Ok(parts
        .into_iter()
        .filter_map(|part| part.ok().flatten())
        .collect())
}
