//! Reads the log of changes: for histories, for the feeds of clients, and for watches.

use rusqlite::{Connection, Row};
use windlass_statemachine::{Author, Kind};

use super::{
    batch::{Sql, first},
    codes::{self, DELETED, Log, MOVED, RETRIED, SUBMITTED, time},
    columns,
    texts::Text,
};
use crate::store::Change;

const COLUMNS: &str = "SELECT c.seq, c.at, c.what, c.detail, c.fence, c.command,
        coalesce(t.id, g.id), l.node, c.prev,
        CASE WHEN c.by > 0 THEN (SELECT a.name FROM windlass_authors a WHERE a.id = c.by) END,
        CASE WHEN c.by < 0 THEN coalesce((SELECT id FROM windlass_tasks WHERE n = -c.by),
            (SELECT id FROM windlass_gone WHERE n = -c.by)) END,
        CASE WHEN c.what = 11 THEN (SELECT k.kind FROM windlass_kinds k WHERE k.id = c.detail >> 8) END
     FROM windlass_changes c LEFT JOIN windlass_tasks t ON t.n = c.n LEFT JOIN windlass_gone g ON g.n = c.n
     LEFT JOIN windlass_leases l ON l.id = iif(c.what = 2, c.detail >> 1, NULL)";

/// Returns a change of a task; `None` for other rows.
fn change(row: &Row<'_>) -> Sql<Option<Change>> {
    let log = Log {
        what: row.get(2)?,
        detail: row.get(3)?,
        fence: row.get(4)?,
        command: row.get(5)?,
    };
    let kind = row.get::<_, Option<Text>>(11)?;
    let kind = kind.and_then(|kind| Kind::new(kind.0).ok());
    let what = log.read(columns::name(row, 7)?, kind);
    let (Some(task), Some(what)) = (columns::id(row, 6)?, what) else {
        return Ok(None);
    };
    let (seq, at) = (row.get::<_, i64>(0)? as u64, time(row.get(1)?));
    Ok(Some(Change::new(seq, at, task, what).by(author(row)?)))
}

/// Returns the author of a change.
fn author(row: &Row<'_>) -> Sql<Option<Author>> {
    if let Some(task) = columns::id(row, 10)? {
        return Ok(Some(Author::task(&task)));
    }
    let name = row.get::<_, Option<Text>>(9)?;
    Ok(name.and_then(|name| Author::new(name.0).ok()))
}

/// Returns one change, and the number of its task's change before it.
pub(super) fn one(conn: &Connection, seq: i64) -> Sql<Option<(i64, Option<Change>)>> {
    let mut one = conn.prepare_cached(&format!("{COLUMNS} WHERE c.seq = ?1"))?;
    first(&mut one, [seq], |row| Ok((row.get(8)?, change(row)?)))
}

/// A part of the log.
pub(super) struct Next<T> {
    /// Whether changes before this part were pruned before they were read.
    pub(super) gap: bool,
    /// The last change that was read.
    pub(super) upto: i64,
    pub(super) rows: Vec<T>,
}

/// Reads up to `limit` rows after `after` with `read`. The log has no gaps: if the first number is not
/// the next one, changes were pruned.
fn next<T>(
    conn: &Connection,
    sql: &str,
    after: i64,
    limit: usize,
    read: impl Fn(&Row<'_>) -> Sql<Option<T>>,
) -> Sql<Next<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query((after, limit as i64))?;
    let mut next = Next {
        gap: false,
        upto: after,
        rows: Vec::new(),
    };
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        next.gap |= next.upto == after && seq != after + 1;
        next.upto = seq;
        next.rows.extend(read(row)?);
    }
    Ok(next)
}

/// Returns the changes after `after`, for clients.
pub(super) fn after(conn: &Connection, after: i64, limit: usize) -> Sql<Next<Change>> {
    let sql = format!("{COLUMNS} WHERE c.seq > ?1 ORDER BY c.seq LIMIT ?2");
    next(conn, &sql, after, limit, change)
}

/// The part of a change that watches need.
pub(super) struct Touched {
    pub(super) seq: i64,
    pub(super) n: i64,
    pub(super) what: i64,
    pub(super) detail: i64,
}

impl Touched {
    /// Returns whether the task has ended, is gone, or is live again.
    pub(super) fn concerns_waiters(&self) -> bool {
        match self.what {
            MOVED => self.ends(),
            what => matches!(what, SUBMITTED | RETRIED | DELETED),
        }
    }

    /// Returns whether the task is live after this change.
    pub(super) fn lives(&self) -> bool {
        matches!(self.what, SUBMITTED | RETRIED)
    }

    /// Returns whether the task got another kind.
    pub(super) fn is_other_kind(&self) -> bool {
        codes::is_other_kind(self.what, self.detail)
    }

    /// Returns whether a move has ended the task.
    pub(super) fn ends(&self) -> bool {
        codes::is_last_move(self.detail)
    }
}

/// Returns the changes after `after`, for watches.
pub(super) fn touched(conn: &Connection, after: i64, limit: usize) -> Sql<Next<Touched>> {
    let sql =
        "SELECT seq, n, what, detail FROM windlass_changes WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    next(conn, sql, after, limit, |row| {
        Ok(Some(Touched {
            seq: row.get(0)?,
            n: row.get(1)?,
            what: row.get(2)?,
            detail: row.get(3)?,
        }))
    })
}

/// Returns the number of the oldest kept change; 0 when there is none.
pub(super) fn oldest(conn: &Connection) -> Sql<i64> {
    let mut oldest = conn.prepare_cached("SELECT ifnull(min(seq), 0) FROM windlass_changes")?;
    oldest.query_row((), |row| row.get(0))
}
