//! The line of a limit, as the file holds it.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use windlass_statemachine::Limit;

use super::{limit, numbers, used};
use crate::store::{
    rules::limits::{
        self, Free,
        lines::{self, PATIENCE, Place, Report, Reported, When},
    },
    sqlite::{
        batch::{Batch, Sql},
        codes::{Log, micros, time},
        texts::Text,
    },
};

/// The line of a pool in the file.
struct InFile<'a, 'c> {
    batch: &'a mut Batch<'c>,
    pool: &'a (String, bool),
}

/// The limit after one of these numbers in a line: with the same number and a longer period, or with a greater one.
const NEXT_LIMIT: [&str; 2] = [
    "SELECT most, within FROM windlass_held
     WHERE key = ?1 AND starts = ?2 AND report = 0 AND most = ?3 AND within > ?4 ORDER BY within LIMIT 1",
    "SELECT most, within FROM windlass_held
     WHERE key = ?1 AND starts = ?2 AND report = 0 AND most > ?3 AND ?4 IS NOT NULL
     ORDER BY most, within LIMIT 1",
];

impl lines::Line for InFile<'_, '_> {
    type Error = rusqlite::Error;

    fn limits(&mut self) -> Sql<Vec<Limit>> {
        let (key, starts) = self.pool;
        let (mut found, mut after) = (Vec::new(), (0_u32, -1_i64));
        // One step for each limit, whatever the number of tasks.
        loop {
            let mut next = None;
            // Two ranges of the index: for `(most, within) > (?3, ?4)` SQLite reads every task of the limit.
            for range in NEXT_LIMIT {
                let values = (key, starts, after.0, after.1);
                let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
                next = self.batch.first(range, values, row)?;
                if next.is_some() {
                    break;
                }
            }
            let Some(next) = next else { return Ok(found) };
            after = next;
            found.extend(limit(key.clone(), *starts, next));
        }
    }

    fn reported(&mut self, since: Timestamp) -> Sql<u32> {
        let (key, starts) = self.pool;
        let count = self.batch.first(
            "SELECT count(*) FROM windlass_held WHERE key = ?1 AND starts = ?2 AND report > 0 AND since > ?3",
            (key, starts, micros(since)),
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    fn first(&mut self, limit: &Limit) -> Sql<Option<Place>> {
        let (starts, most, within) = numbers(limit);
        self.batch.first(
            "SELECT priority, due, n FROM windlass_held
             WHERE key = ?1 AND starts = ?2 AND report = 0 AND most = ?3 AND within = ?4
             ORDER BY priority DESC, due, n LIMIT 1",
            (limit.key(), starts, most, within),
            |row| {
                let due: Option<i64> = row.get(1)?;
                let n: i64 = row.get(2)?;
                Ok(Place::new(row.get(0)?, due.map(time), n as u64))
            },
        )
    }

    fn free(&mut self, limit: &Limit) -> Sql<Free> {
        let used = used(self.batch, limit)?;
        Ok(limits::free(limit, used, self.batch.now))
    }

    fn report(&mut self, _: &Limit, place: Place, reported: Reported) -> Sql<()> {
        let n = place.order as i64;
        let report = match reported.report {
            Report::Silent => 0,
            Report::Now => 1,
            Report::At(_) => 2,
        };
        self.batch.run(
            "UPDATE windlass_held SET report = ?2, since = ?3 WHERE n = ?1",
            (n, report, micros(reported.from)),
        )?;
        self.batch.change(n, 0, Log::held())?;
        Ok(())
    }
}

pub(super) fn refill(batch: &mut Batch<'_>, pool: &(String, bool), when: When) -> Sql<()> {
    lines::refill(&mut InFile { batch, pool }, when)
}

/// The lines with silent tasks where no node has claimed the reported ones.
const STUCK: &str = "SELECT DISTINCT key, starts FROM windlass_held h WHERE report > 0
     AND EXISTS (SELECT 1 FROM windlass_held i WHERE i.key = h.key AND i.starts = h.starts AND i.report = 0)
     AND NOT EXISTS (SELECT 1 FROM windlass_held i WHERE i.key = h.key AND i.starts = h.starts
         AND i.report > 0 AND i.since > ?1)";

fn old(now: Timestamp) -> i64 {
    micros(now.saturating_sub(PATIENCE).unwrap_or(Timestamp::MIN))
}

/// Returns whether there is a line for a [look](Looks::look).
pub(in crate::store::sqlite) fn any_stuck(conn: &Connection, now: Timestamp) -> Sql<bool> {
    conn.prepare_cached(STUCK)?.exists([old(now)])
}

/// How often a transaction looks at the lines.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Looks at the lines of limits every now and then.
#[derive(Default)]
pub(in crate::store::sqlite) struct Looks {
    last: Cell<Option<Instant>>,
}

impl Looks {
    /// Reports further tasks of lines whose reported tasks no node claims, if the last look was long ago.
    pub(in crate::store::sqlite) fn look(&self, batch: &mut Batch<'_>) -> Sql<()> {
        if self.last.get().is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        self.last.set(Some(Instant::now()));
        look_at_lines(batch)
    }
}

fn look_at_lines(batch: &mut Batch<'_>) -> Sql<()> {
    let stuck: Vec<(String, bool)> = batch.all(STUCK, [old(batch.now)], |row| {
        Ok((row.get(0).map(Text::of)?, row.get(1)?))
    })?;
    for pool in stuck {
        refill(batch, &pool, When::stuck(batch.now))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::store::sqlite::schema;

    /// It read every task of the limit.
    #[test]
    fn the_limits_of_a_line_are_found_without_a_look_at_each_task() {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::migrate(&mut conn, "memory").unwrap_or_else(|_| panic!("no schema"));
        conn.execute_batch(
            "WITH RECURSIVE line (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM line WHERE n < 3000)
             INSERT INTO windlass_held (n, key, starts, most, within, priority, due, report, since)
             SELECT n, 'k', 0, 1 + n % 3, 0, 0, NULL, 0, 0 FROM line",
        )
        .unwrap();
        let mut after = (0_u32, -1_i64);
        let (mut found, mut steps) = (Vec::new(), 0);
        while let Some(next) = NEXT_LIMIT.iter().find_map(|range| {
            let mut range = conn.prepare(range).unwrap();
            let values = ("k", false, after.0, after.1);
            let row = range.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)));
            steps += range.get_status(StatementStatus::VmStep);
            row.ok()
        }) {
            found.push(next);
            after = next;
        }
        assert_eq!(found, [(1, 0), (2, 0), (3, 0)]);
        assert!(steps < 500, "{steps}");
    }
}
