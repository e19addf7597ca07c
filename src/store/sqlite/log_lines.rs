//! The lines that handlers log.

use rusqlite::{Connection, Row};
use windlass_statemachine::TaskId;

use super::{
    batch::{Batch, Sql},
    columns,
    errors::Stop,
    json, query,
    texts::Text,
};
use crate::store::{
    Claim, DamagedPart, Error, LogPart, LogWrite, Logged, StoredLog,
    examine::Strays,
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
        |row| place(row, 0),
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

/// Returns the log of a task from the part with this number on.
pub(super) fn read(conn: &Connection, id: &TaskId, from: u64) -> Result<StoredLog, Stop> {
    let n = query::row_of(conn, id)?;
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let mut parts = conn.prepare_cached(
        "SELECT part, incarnation, attempt, lines FROM windlass_log
         WHERE n = ?1 AND part >= ?2 ORDER BY part",
    )?;
    let parts = parts.query_map((n, from), |row| part(row, 0))?;
    let mut log = StoredLog::default();
    for part in parts {
        match part? {
            Ok(part) => log.parts.push(part),
            Err(damaged) => log.damaged.push(damaged),
        }
    }
    Ok(log)
}

/// Reads the place and the lines of a part, which begin at this column.
fn part(row: &Row<'_>, column: usize) -> Sql<Result<LogPart, DamagedPart>> {
    let place = place(row, column)?;
    let lines = columns::json(row, column + 3, "log")?;
    let lines = lines.and_then(|lines| lines.ok_or_else(|| "log: is missing".to_owned()));
    Ok(lines.map_err(|reason| place.damaged(reason)))
}

fn place(row: &Row<'_>, column: usize) -> Sql<PartPlace> {
    let number = |column| -> Sql<u32> {
        let number = row.get::<_, i64>(column)?;
        Ok(u32::try_from(number).unwrap_or_default())
    };
    Ok(PartPlace {
        part: row.get::<_, i64>(column)? as u64,
        incarnation: number(column + 1)?,
        attempt: number(column + 2)?,
    })
}

/// Selects every part of a task that exists.
const ALL: &str = "SELECT t.n, t.id, l.part, l.incarnation, l.attempt, l.lines
    FROM windlass_log l JOIN windlass_tasks t ON t.n = l.n";

/// A part that cannot be read.
struct Damaged {
    n: i64,
    part: i64,
    name: String,
}

impl Damaged {
    /// Reads a row of [`ALL`]; `None` for a part that can be read.
    fn read(row: &Row<'_>) -> Sql<Option<Self>> {
        let Err(damaged) = part(row, 2)? else {
            return Ok(None);
        };
        let id = row.get(1).map(Text::of)?;
        Ok(Some(Self {
            n: row.get(0)?,
            part: row.get(2)?,
            name: format!("part {} of '{id}' ({})", damaged.part, damaged.reason),
        }))
    }
}

/// Finds the parts that cannot be read.
pub(super) fn damaged(conn: &Connection) -> Sql<Strays> {
    let mut all = conn.prepare(ALL)?;
    let damaged = all.query_map((), Damaged::read)?;
    let names = damaged.map(|damaged| Ok(damaged?.map(|damaged| damaged.name)));
    names.filter_map(Result::transpose).collect()
}

/// Deletes the parts that cannot be read. Returns their number.
pub(super) fn delete_damaged(batch: &Batch<'_>) -> Sql<u64> {
    let damaged = batch.all(ALL, (), Damaged::read)?;
    let mut deleted = 0;
    for Damaged { n, part, .. } in damaged.into_iter().flatten() {
        let delete = "DELETE FROM windlass_log WHERE n = ?1 AND part = ?2";
        deleted += batch.run(delete, (n, part))? as u64;
    }
    Ok(deleted)
}
