//! [`Batch`]: one write transaction, and what its operations share.

mod author;
mod numbers;

use std::cell::{Cell, RefCell};

use jiff::Timestamp;
use rusqlite::{CachedStatement, Connection, Params, Row, Statement, params_from_iter};
use windlass_statemachine::{Author, TaskId};

use super::{
    boot::LeaseClock,
    change_rows::{self, Line},
    claim_cache::ClaimCache,
    codes::{CLAIMED, Log, micros},
    counts::{self, Group, Kinds, Move, Moves, group_columns},
    errors::{self, Stop},
};
use crate::hash::HashMap;
use crate::store::{
    Limits,
    rules::{dependencies::Seen, limits::reserve::Reserver},
};

pub(super) type Sql<T> = rusqlite::Result<T>;

/// The effect of a transaction on tasks that wait for others.
#[derive(Default)]
pub(super) struct WaitNews {
    /// The tasks that have ended or are gone.
    pub(super) ended: Vec<i64>,
    /// The tasks that have begun to wait.
    pub(super) waiting: Vec<i64>,
    /// Whether an ended task is live again, or was deleted and so may be live again later.
    pub(super) unsettles: bool,
}

/// A lease that has expired, or whose node has ended.
pub(super) struct Lost {
    pub(super) node: String,
    pub(super) lease: i64,
    /// How many claims it held.
    pub(super) claims: usize,
}

/// What all transactions of a writer share.
pub(super) struct Environment<'c> {
    pub(super) limits: Limits,
    pub(super) clock: &'c LeaseClock,
    pub(super) claim_cache: &'c ClaimCache,
    pub(super) kinds: &'c Kinds,
}

/// One write transaction. Numbers the changes that are made in it.
pub(super) struct Batch<'c> {
    conn: &'c Connection,
    /// The wall clock when the transaction began, or when further jobs joined it.
    pub(super) now: Timestamp,
    /// `now`, as the tables store it.
    pub(super) at: i64,
    pub(super) limits: Limits,
    pub(super) clock: &'c LeaseClock,
    /// The newest changes of tasks, from one transaction to the next.
    pub(super) claim_cache: &'c ClaimCache,
    /// The numbers of the kinds, cached from one transaction to the next.
    kinds: &'c Kinds,
    /// How this transaction changes the counts.
    moves: Moves,
    newest: i64,
    /// The author of the present changes, and the author's number; 0 for none.
    by: (Option<Author>, i64),
    /// The author whose number was looked up last.
    author: Option<(Author, i64)>,
    /// The newest changes, which are not in the table yet.
    lines: Vec<Line>,
    /// The stored `fence_floor`, after it was read in this transaction.
    floor: Cell<Option<i64>>,
    /// The leases that this transaction ends. They are logged when it is durable.
    pub(super) lost: Vec<Lost>,
    /// How many changes of the connection are none of this transaction: those before it, and those that it has rolled back.
    others: u64,
    /// What this transaction changes for waiting tasks.
    pub(super) waits: WaitNews,
    /// What claims of waiting tasks have read of other tasks. Cleared by any other change.
    pub(super) seen: RefCell<HashMap<TaskId, Option<Seen>>>,
    /// The task for which slots of limits are kept, after it was read. Cleared by a change of a line.
    pub(super) reserver: RefCell<Option<Option<Reserver>>>,
    /// The statements that were used, by the address of their text, the latest last.
    used: RefCell<Vec<(&'static str, CachedStatement<'c>)>>,
}

impl<'c> Batch<'c> {
    /// Wraps a transaction that has just begun.
    pub(super) fn new(
        conn: &'c Connection,
        now: Timestamp,
        environment: Environment<'c>,
    ) -> Sql<Self> {
        Ok(Self {
            newest: newest(conn)?,
            at: micros(now),
            conn,
            now,
            limits: environment.limits,
            clock: environment.clock,
            claim_cache: environment.claim_cache,
            kinds: environment.kinds,
            moves: Moves::default(),
            by: (None, 0),
            author: None,
            lines: Vec::new(),
            floor: Cell::new(None),
            lost: Vec::new(),
            others: conn.total_changes(),
            waits: WaitNews::default(),
            seen: RefCell::default(),
            reserver: RefCell::default(),
            used: RefCell::default(),
        })
    }

    /// Sets the time of the jobs from here on. A clock that was set back does not set it back within the transaction.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.at = micros(self.now);
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.conn
    }

    /// Calls `work` with a prepared statement. A transaction runs few statements very often, and
    /// finding them by the address of their text costs less than the cache of the connection, which
    /// hashes the text twice.
    fn with<T>(
        &self,
        sql: &'static str,
        work: impl FnOnce(&mut CachedStatement<'c>) -> Sql<T>,
    ) -> Sql<T> {
        let known = {
            let mut used = self.used.borrow_mut();
            let at = used.iter().rposition(|(text, _)| std::ptr::eq(*text, sql));
            at.map(|at| used.swap_remove(at).1)
        };
        let mut statement = match known {
            Some(statement) => statement,
            None => self.conn.prepare_cached(sql)?,
        };
        let result = work(&mut statement);
        self.used.borrow_mut().push((sql, statement));
        result
    }

    /// Runs a statement and returns the number of rows that it changed. A statement that may change the group of a
    /// task must be run by [`write_state`](Self::write_state).
    pub(super) fn run(&self, sql: &'static str, params: impl Params) -> Sql<usize> {
        debug_assert!(!counts::moves_tasks(sql), "the counts do not follow: {sql}");
        self.with(sql, |statement| statement.execute(params))
    }

    /// Runs a statement that writes the state of one task, and returns the number of rows that it changed. Updates
    /// the counts if it changed one.
    pub(super) fn write_state(
        &mut self,
        sql: &'static str,
        params: impl Params,
        step: Move,
    ) -> Sql<usize> {
        let written = self.with(sql, |statement| statement.execute(params))?;
        if written > 0 {
            self.moves.note(step);
        }
        Ok(written)
    }

    /// Returns the number of a kind. Assigns one if the kind has none.
    pub(super) fn kind(&self, kind: &str) -> Sql<i64> {
        if let Some(number) = self.kinds.get(kind) {
            return Ok(number);
        }
        let read = "SELECT id FROM windlass_kinds WHERE kind = ?1";
        let number = match self.first(read, [kind], |row| row.get(0))? {
            Some(number) => number,
            None => {
                self.run("INSERT INTO windlass_kinds (kind) VALUES (?1)", [kind])?;
                self.conn.last_insert_rowid()
            }
        };
        self.kinds.set(kind, number);
        Ok(number)
    }

    /// Returns the group of task `n`.
    pub(super) fn group(&self, n: i64) -> Sql<Option<Group>> {
        Ok(self.limited_and_group(n)?.map(|(_, group)| group))
    }

    /// Returns the limit status of task `n` (`windlass_states.limited`), and its group.
    pub(super) fn limited_and_group(&self, n: i64) -> Sql<Option<(i64, Group)>> {
        let of = concat!(
            "SELECT s.limited, ",
            group_columns!(),
            " FROM windlass_states s WHERE s.n = ?1"
        );
        self.first(of, [n], |row| Ok((row.get(0)?, Group::read(row, 1)?)))
    }

    /// Returns the first row of a query.
    pub(super) fn first<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Sql<T>,
    ) -> Sql<Option<T>> {
        debug_assert!(!counts::moves_tasks(sql), "the counts do not follow: {sql}");
        self.with(sql, |statement| first(statement, params, read))
    }

    /// Returns all rows of a query.
    pub(super) fn all<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Sql<T>,
    ) -> Sql<Vec<T>> {
        debug_assert!(!counts::moves_tasks(sql), "the counts do not follow: {sql}");
        self.with(sql, |statement| {
            statement.query_map(params, read)?.collect()
        })
    }

    /// Calls `read` with each row of a query.
    pub(super) fn each(
        &self,
        sql: &'static str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Sql<()>,
    ) -> Sql<()> {
        self.with(sql, |statement| {
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                read(row)?;
            }
            Ok(())
        })
    }

    /// Returns the number of the next change.
    pub(super) fn next(&self) -> i64 {
        self.newest + 1
    }

    /// Returns the offset from the number of a claim to its fence. No other process can change it
    /// during the transaction, so it is read once.
    fn floor(&self) -> Sql<i64> {
        if let Some(floor) = self.floor.get() {
            return Ok(floor);
        }
        let read = "SELECT value FROM windlass_meta WHERE name = 'fence_floor'";
        let floor = self.first(read, (), |row| row.get(0))?.unwrap_or(0);
        self.floor.set(Some(floor));
        Ok(floor)
    }

    /// Returns the fence of the next claim. It is greater than every earlier fence, including those
    /// of deleted tasks.
    pub(super) fn next_fence(&self) -> Sql<i64> {
        Ok(self.next().saturating_add(self.floor()?))
    }

    /// Makes every later fence greater than `fence`.
    pub(super) fn raise_fences(&self, fence: i64) -> Sql<()> {
        // Most fences come from claims that this file has numbered.
        if fence < self.next() || fence < self.next_fence()? {
            return Ok(());
        }
        self.run(
            "INSERT OR REPLACE INTO windlass_meta (name, value) VALUES ('fence_floor', ?1)",
            [fence],
        )?;
        self.floor.set(Some(fence));
        Ok(())
    }

    /// Records a change of task `n` after its change `prev`, and returns its number. The caller stores
    /// the number as the task's `last`.
    pub(super) fn change(&mut self, n: i64, prev: i64, log: Log) -> Sql<i64> {
        self.change_at(n, prev, self.at, log)
    }

    /// As [`change`](Self::change), for a change that happened at another time.
    pub(super) fn change_at(&mut self, n: i64, prev: i64, at: i64, log: Log) -> Sql<i64> {
        let seq = self.next();
        self.lines.push(Line {
            seq,
            n,
            prev,
            at,
            log,
            by: self.by.1,
        });
        if self.lines.len() == change_rows::MOST {
            self.write_lines()?;
        }
        self.newest = seq;
        if log.what != CLAIMED {
            self.seen.get_mut().clear();
        }
        if log.ends() {
            self.waits.ended.push(n);
        }
        Ok(seq)
    }

    /// Inserts the changes that are not in the table yet. Must run before a statement of the transaction that reads
    /// the table.
    pub(super) fn write_lines(&mut self) -> Sql<()> {
        let lines = std::mem::take(&mut self.lines);
        for group in change_rows::groups(&lines) {
            self.run(group.insert, params_from_iter(group.params()))?;
            // Other rows have the numbers that were counted here.
            if group.last() != Some(self.conn.last_insert_rowid()) {
                return Err(errors::misnumbered());
            }
        }
        Ok(())
    }

    /// Completes the transaction, so that it can be committed. Returns the leases that it ends.
    pub(super) fn finish(mut self) -> Sql<Finished> {
        self.write_lines()?;
        self.write_counts()?;
        Ok(Finished {
            writes: self.conn.total_changes() > self.others,
            lost: self.lost,
        })
    }

    /// Runs `work` in a savepoint. If `work` is refused, none of its writes remain.
    pub(super) fn all_or_nothing<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.write_lines()?;
        let (newest, mark) = (self.newest, self.moves.mark());
        let before = self.conn.total_changes();
        self.run("SAVEPOINT item", ())?;
        let result = work(self);
        match &result {
            Ok(_) => {}
            Err(Stop::Refused(_)) => {
                self.run("ROLLBACK TO item", ())?;
                self.others += self.conn.total_changes() - before;
                self.newest = newest;
                self.moves.undo(mark);
                self.kinds.forget();
                self.lines.clear();
                // The author's row may have been rolled back.
                self.author = None;
                self.seen.get_mut().clear();
                *self.reserver.get_mut() = None;
                self.floor.set(None);
            }
            Err(Stop::Sql(_)) => return result,
        }
        self.run("RELEASE item", ())?;
        result
    }
}

/// What is known of a transaction before its commit.
pub(super) struct Finished {
    /// Whether it writes anything: one that does not succeeds on a full disk, too.
    pub(super) writes: bool,
    /// The leases that it ends.
    pub(super) lost: Vec<Lost>,
}

/// Returns the number of the newest change. That change is never pruned, so no earlier number was
/// greater.
pub(super) fn newest(conn: &Connection) -> Sql<i64> {
    let mut newest = conn.prepare_cached("SELECT ifnull(max(seq), 0) FROM windlass_changes")?;
    newest.query_row((), |row| row.get(0))
}

/// Returns the first row of a statement.
pub(super) fn first<T>(
    statement: &mut Statement<'_>,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Sql<T>,
) -> Sql<Option<T>> {
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

#[cfg(test)]
mod tests;
