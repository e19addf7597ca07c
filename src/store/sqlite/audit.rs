//! The history of the namespace.

use jiff::Timestamp;
use rusqlite::Connection;
use windlass_statemachine::{Author, Kind, NodeName, TaskId};

use super::{
    batch::{Batch, Sql},
    codes::{micros, time},
    columns,
    errors::Stop,
    json,
    texts::Text,
};
use crate::store::{AUDIT_RETENTION, AuditAction, AuditEntry, NodeCommand};

/// Adds a line, with the present author.
pub(super) fn add(batch: &Batch<'_>, what: &AuditAction) -> Result<(), Stop> {
    let by = batch.author().map(Author::as_str);
    let what = json("history of the namespace", what)?;
    batch.run(
        "INSERT INTO windlass_audit (at, by, what) VALUES (?1, ?2, ?3)",
        (batch.at, by, what),
    )?;
    Ok(())
}

/// Notes that task `n` is about to be deleted.
pub(super) fn deleted(batch: &Batch<'_>, n: i64, task: &TaskId) -> Result<(), Stop> {
    let kind = "SELECT kind FROM windlass_tasks WHERE n = ?1";
    let kind = batch.first(kind, [n], |row| row.get(0).map(Text::of))?;
    let kind = kind.and_then(|kind| Kind::new(kind).ok());
    let task = task.clone();
    add(batch, &AuditAction::Deleted { task, kind })
}

/// Notes a purge.
pub(super) fn purged(batch: &Batch<'_>, entry: Option<AuditEntry>) -> Result<(), Stop> {
    entry.map_or(Ok(()), |entry| add(batch, &entry.what))
}

/// Notes a command to a node.
pub(super) fn commanded(batch: &Batch<'_>, node: &NodeName, send: NodeCommand) -> Result<(), Stop> {
    let node = node.clone();
    add(batch, &AuditAction::NodeCommanded { node, send })
}

/// Returns the newest lines, oldest first. A line that cannot be read is left out.
pub(super) fn newest(conn: &Connection, limit: u32) -> Result<Vec<AuditEntry>, Stop> {
    let mut lines =
        conn.prepare_cached("SELECT at, by, what FROM windlass_audit ORDER BY seq DESC LIMIT ?1")?;
    let lines = lines.query_map([limit], |row| {
        let by = row.get::<_, Option<Text>>(1)?;
        let what = columns::json(row, 2, "what")?.ok().flatten();
        Ok(what.map(|what| AuditEntry {
            at: time(row.get(0).unwrap_or_default()),
            by: by.and_then(|by| Author::new(by.0).ok()),
            what,
        }))
    })?;
    let mut lines: Vec<_> = lines.collect::<Sql<Vec<_>>>()?;
    lines.reverse();
    Ok(lines.into_iter().flatten().collect())
}

/// Deletes up to `limit` of the oldest lines that are past their retention, but none from after `before`.
pub(super) fn prune(
    batch: &Batch<'_>,
    (before, latest): (i64, Timestamp),
    limit: u32,
) -> Sql<usize> {
    let kept = latest.saturating_sub(AUDIT_RETENTION);
    let before = kept.map_or(before, |kept| before.min(micros(kept)));
    batch.run(
        "DELETE FROM windlass_audit WHERE seq IN
             (SELECT seq FROM windlass_audit WHERE at < ?1 ORDER BY seq LIMIT ?2)",
        (before, limit),
    )
}
