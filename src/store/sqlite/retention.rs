//! Deletes old tasks and changes, in small steps so that other writers get their turn.

use jiff::Timestamp;
use rusqlite::Connection;
use windlass_statemachine::{StateKind, TaskId};

use super::{
    batch::{Batch, Sql, first, newest},
    codes::{from_code, time},
    columns, delete,
};
use crate::store::{Limits, retention};

/// The most tasks or changes that one step deletes.
pub(super) const STEP: u32 = 1000;

/// Finds the oldest tasks of a state. Spares those that live tasks wait for: a long wait has rows only for some of its
/// tasks, but its state lists all.
const OLDEST: &str =
    "SELECT s.ended_at, s.n, s.last, t.id, s.size + octet_length(s.state) FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n
     WHERE s.code = ?1 AND s.ended_at < ?2
         AND NOT EXISTS (SELECT 1 FROM windlass_waits w JOIN windlass_states l ON l.n = w.n
             WHERE w.waited = t.id AND l.ended_at IS NULL)
         AND t.id NOT IN (SELECT named.value FROM windlass_states l
             JOIN json_each(iif(json_valid(l.state), l.state, '{}'), '$.waits.tasks') named
             WHERE l.n IN (SELECT n FROM windlass_watches) AND l.waits = 2 AND l.ended_at IS NULL
                 AND named.type = 'text')
     ORDER BY s.ended_at LIMIT ?3";

/// The tasks that one step has deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Purged {
    pub(super) tasks: u64,
    /// Whether the step has come to its limit: there may be more tasks.
    pub(super) is_full: bool,
}

impl Purged {
    /// A step without work.
    pub(super) const NONE: Self = Self {
        tasks: 0,
        is_full: false,
    };
}

/// Deletes the oldest tasks that ended in one of `states` before `before`: at most `limit`, and at most as many bytes as
/// a write has. Spares those that live tasks wait for.
pub(super) fn purge(
    batch: &mut Batch<'_>,
    states: &[StateKind],
    before: i64,
    limit: u32,
) -> Sql<Purged> {
    let mut found: Vec<(i64, i64, i64, Option<TaskId>, usize)> = Vec::new();
    for state in states.iter().filter(|s| s.is_terminal()) {
        // One state at a time, so that the index returns the oldest first.
        let of_state = (from_code(*state), before, limit);
        found.extend(batch.all(OLDEST, of_state, |row| {
            let bytes: Option<i64> = row.get(4)?;
            let bytes = usize::try_from(bytes.unwrap_or_default()).unwrap_or_default();
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                columns::id(row, 3)?,
                bytes,
            ))
        })?);
    }
    found.sort_unstable();
    found.dedup();
    let is_some_left = found.len() >= limit as usize;
    found.truncate(limit as usize);
    let found_tasks = found.len();
    let (mut tasks, mut seen, mut bytes) = (0, 0, 0);
    for (_, n, last, id, size) in found {
        if seen > 0 && bytes + size > Limits::WRITE_BYTES {
            break;
        }
        (seen, bytes) = (seen + 1, bytes + size);
        if let Some(id) = id {
            delete::remove(batch, n, &id, last)?;
            tasks += 1;
        }
    }
    let is_full = is_some_left || seen < found_tasks;
    Ok(Purged { tasks, is_full })
}

/// Deletes up to `limit` of the oldest changes from before `before`, and returns their number. The
/// newest change stays, because the numbering continues from it.
pub(super) fn history(
    batch: &mut Batch<'_>,
    (before, now): (Timestamp, Timestamp),
    limit: u32,
) -> Sql<u64> {
    batch.write_lines()?;
    let conn = batch.connection();
    let newest = newest(conn)?;
    let mut ats =
        conn.prepare_cached("SELECT at FROM windlass_changes WHERE seq < ?1 ORDER BY seq")?;
    let ats = ats.query_map([newest], |row| Ok(time(row.get(0)?)))?;
    let old = retention::oldest(ats, (before, now), limit as usize)?;
    if old == 0 {
        return Ok(0);
    }
    let pruned = batch.run(
        "DELETE FROM windlass_changes WHERE seq <= (SELECT max(seq) FROM
             (SELECT seq FROM windlass_changes WHERE seq < ?1 ORDER BY seq LIMIT ?2))",
        (newest, old as i64),
    )?;
    Ok(pruned as u64)
}

/// Returns the time of the newest change, by its writer's clock.
pub(super) fn newest_at(conn: &Connection) -> Sql<Option<Timestamp>> {
    let mut newest = conn.prepare("SELECT at FROM windlass_changes ORDER BY seq DESC LIMIT 1")?;
    first(&mut newest, (), |row| Ok(time(row.get(0)?)))
}

/// Deletes names to which no change refers any more.
pub(super) fn names(batch: &Batch<'_>, before: i64) -> Sql<()> {
    // More changes than one transaction makes.
    const MARGIN: i64 = 1_000_000;
    let oldest = "SELECT seq, at FROM windlass_changes ORDER BY seq LIMIT 1";
    let oldest = batch.first(oldest, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((seq, at)): Option<(i64, i64)> = oldest else {
        return Ok(());
    };
    batch.run(
        "DELETE FROM windlass_gone WHERE n IN (SELECT n FROM windlass_gone WHERE seq < ?1 LIMIT ?2)",
        (seq, STEP),
    )?;
    batch.run(
        "DELETE FROM windlass_authors WHERE last < ?1",
        [seq - MARGIN],
    )?;
    if at >= before {
        // Every claim is older than the end of its lease.
        batch.run("DELETE FROM windlass_leases WHERE ended_at < ?1", [before])?;
    }
    batch.run(
        "DELETE FROM windlass_node_commands WHERE outcome IS NOT NULL AND sent_at < ?1",
        [before],
    )?;
    Ok(())
}
