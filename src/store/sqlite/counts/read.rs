//! Reads the counts.

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use windlass_statemachine::{Kind, StateKind};

use super::super::{
    batch::{Sql, first},
    codes::{from_code, micros, time, to_code},
    errors::Stop,
    rows,
    texts::Text,
};
use crate::store::{
    LimitForm, TaskCount, TaskStats,
    rules::stats::{Counter, Facts},
};

/// The most tasks in lines of limits that are read.
const MOST_HELD: i64 = 10_000;

/// Returns the kind in a column; `None` for a value that is no kind and has no stand-in.
fn kind(row: &Row<'_>, column: usize) -> Sql<Option<Kind>> {
    let kind = Kind::new(row.get::<_, Text>(column)?.0);
    Ok(kind.ok().or_else(rows::unreadable))
}

/// Returns how many tasks there are by kind and state.
pub(in crate::store::sqlite) fn states(conn: &Connection) -> Result<Vec<TaskCount>, Stop> {
    let mut counts = conn.prepare_cached(
        "SELECT k.kind, iif(c.quarantined, NULL, c.code) AS code, sum(c.tasks), sum(c.tasks * c.claimed)
         FROM windlass_counts c JOIN windlass_kinds k ON k.id = c.kind
         GROUP BY 1, 2 HAVING sum(c.tasks) > 0 ORDER BY 1, 2",
    )?;
    let rows = counts.query_map((), |row| {
        let code: Option<i64> = row.get(1)?;
        let (tasks, claimed): (i64, i64) = (row.get(2)?, row.get(3)?);
        Ok(kind(row, 0)?.map(|kind| TaskCount {
            kind,
            state: code.and_then(to_code),
            tasks: tasks.unsigned_abs(),
            claimed: claimed.max(0).unsigned_abs(),
        }))
    })?;
    Ok(rows.filter_map(Result::transpose).collect::<Sql<_>>()?)
}

/// One row of `windlass_counts`.
struct Counted {
    number: i64,
    kind: Kind,
    code: i64,
    version: i64,
    waits: bool,
    facts: Facts,
    tasks: i64,
}

fn counted(row: &Row<'_>) -> Sql<Option<Counted>> {
    let Some(kind) = kind(row, 1)? else {
        return Ok(None);
    };
    let (code, quarantined): (i64, bool) = (row.get(2)?, row.get(6)?);
    let waits = row.get(5)?;
    let facts = Facts {
        state: to_code(code).filter(|_| !quarantined),
        is_claimed: row.get(4)?,
        is_waiting: waits,
        is_due: false,
    };
    Ok(Some(Counted {
        number: row.get(0)?,
        kind,
        code,
        version: row.get(3)?,
        waits,
        facts,
        tasks: row.get(7)?,
    }))
}

impl Counted {
    fn version(&self) -> u32 {
        u32::try_from(self.version).unwrap_or(u32::MAX)
    }

    /// Adds the tasks. Those that sleep are split into those whose time has come, and the others.
    fn add(&self, conn: &Connection, counter: &mut Counter, now: i64) -> Sql<()> {
        let (version, all) = (self.version(), self.tasks.unsigned_abs());
        let is_free = self.facts.state.is_some() && !self.facts.is_claimed;
        let state = self.facts.state.filter(|_| is_free);
        match state {
            Some(StateKind::Sleeping) => {
                let (late, oldest) = self.late(conn, now)?;
                let late = late.min(all);
                let due = Facts {
                    is_due: true,
                    ..self.facts
                };
                counter.add(&self.kind, version, due, (late, oldest));
                counter.add(&self.kind, version, self.facts, (all - late, None));
            }
            Some(StateKind::Runnable | StateKind::Fault) => {
                let oldest = self.oldest(conn)?;
                counter.add(&self.kind, version, self.facts, (all, oldest));
            }
            _ => counter.add(&self.kind, version, self.facts, (all, None)),
        }
        Ok(())
    }

    /// Returns how many of these sleepers are due, and since when the first is. Reads one entry of an index for each.
    fn late(&self, conn: &Connection, now: i64) -> Sql<(u64, Option<Timestamp>)> {
        let mut late = conn.prepare_cached(
            "SELECT count(*), min(due) FROM windlass_states INDEXED BY windlass_states_free
             WHERE kind = ?1 AND code = ?2 AND data_version = ?3 AND waits BETWEEN ?4 AND ?4 * 2 AND due <= ?5
                 AND owner IS NULL AND ended_at IS NULL AND quarantine IS NULL AND due IS NOT NULL",
        )?;
        let sleeping = from_code(StateKind::Sleeping);
        let of = (
            self.number,
            sleeping,
            self.version,
            i64::from(self.waits),
            now,
        );
        late.query_row(of, |row| {
            let oldest: Option<i64> = row.get(1)?;
            Ok((row.get::<_, i64>(0)?.unsigned_abs(), oldest.map(time)))
        })
    }

    /// Returns since when the first of these tasks is due.
    fn oldest(&self, conn: &Connection) -> Sql<Option<Timestamp>> {
        let mut oldest = conn.prepare_cached(
            "SELECT due FROM windlass_states INDEXED BY windlass_states_free
             WHERE kind = ?1 AND code = ?2 AND data_version = ?3 AND waits = 0
                 AND owner IS NULL AND ended_at IS NULL AND quarantine IS NULL AND due IS NOT NULL
             ORDER BY due LIMIT 1",
        )?;
        let of = (self.number, self.code, self.version);
        let due: Option<i64> = first(&mut oldest, of, |row| row.get(0))?;
        Ok(due.map(time))
    }
}

/// Returns the counts with what decides whether a node claims the tasks.
pub(in crate::store::sqlite) fn groups(
    conn: &Connection,
    now: Timestamp,
) -> Result<TaskStats, Stop> {
    let mut counter = Counter::new(now);
    let mut counts = conn.prepare_cached(
        "SELECT c.kind, k.kind, c.code, c.data_version, c.claimed, c.waits, c.quarantined, c.tasks
         FROM windlass_counts c JOIN windlass_kinds k ON k.id = c.kind WHERE c.tasks > 0",
    )?;
    let mut rows = counts.query(())?;
    while let Some(row) = rows.next()? {
        if let Some(counted) = counted(row)? {
            counted.add(conn, &mut counter, micros(now))?;
        }
    }
    let mut held = conn.prepare_cached(
        "SELECT k.kind, h.key, h.starts, count(*)
         FROM (SELECT n, key, starts FROM windlass_held LIMIT ?1) h
             CROSS JOIN windlass_states s ON s.n = h.n JOIN windlass_kinds k ON k.id = s.kind
         GROUP BY 1, 2, 3",
    )?;
    let (mut rows, mut read) = (held.query([MOST_HELD])?, 0);
    while let Some(row) = rows.next()? {
        let tasks = row.get::<_, i64>(3)?;
        read += tasks;
        let form = match row.get(2)? {
            true => LimitForm::Starts,
            false => LimitForm::AtOnce,
        };
        if let Some(kind) = kind(row, 0)? {
            let key = row.get::<_, Text>(1)?.0;
            counter.hold(&kind, &key, form, tasks.unsigned_abs());
        }
    }
    Ok(counter.into_stats(read < MOST_HELD))
}
