//! The line of a limit, as stored in the file.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use windlass_statemachine::Limit;

use super::{limit, numbers, reserve, used};
use crate::store::{
    rules::limits::{
        self, Free,
        lines::{self, Advance, Fresh, Place, Report, Reported, Waiting, When},
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

/// Counts the rows of [`Fresh::includes`]. Each range reads only the index; the second one is empty unless a clock was
/// ahead.
const FRESH: &str = "SELECT (SELECT count(*) FROM windlass_held
    WHERE key = ?1 AND starts = ?2 AND report > 0 AND since > ?3 AND since <= ?4)
    + (SELECT count(*) FROM windlass_held
    WHERE key = ?1 AND starts = ?2 AND report > 0 AND report <> 2 AND since > ?4 AND since <= ?5)";

/// The last of these rows with a lower priority than `?6`.
const LAST_FRESH: &str =
    "SELECT priority, due, n, most, within FROM windlass_held INDEXED BY windlass_held_by_priority
    WHERE key = ?1 AND starts = ?2 AND report > 0 AND priority < ?6
    AND since > ?3 AND since <= iif(report = 2, ?4, ?5)
    ORDER BY priority, due DESC, n DESC LIMIT 1";

/// Reads the place of a task from the first columns.
fn place(row: &Row<'_>) -> Sql<Place> {
    let (due, n): (Option<i64>, i64) = (row.get(1)?, row.get(2)?);
    Ok(Place::new(row.get(0)?, due.map(time), n as u64))
}

/// Reads how a task is reported, from the columns `report` and `since`.
pub(super) fn reported(row: &Row<'_>, first: usize) -> Sql<Reported> {
    let from = time(row.get(first + 1)?);
    let report = match row.get(first)? {
        0 => return Ok(Reported::SILENT),
        1 => Report::Now,
        _ => Report::At(from),
    };
    Ok(Reported { report, from })
}

/// Finds the next limit in a line: with the same number and a longer period, or with a greater number.
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
        // One step for each limit, however many tasks there are.
        loop {
            let mut next = None;
            // Two ranges of the index, because for `(most, within) > (?3, ?4)` SQLite would read every task
            // of the limit.
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

    fn fresh(&mut self, fresh: &Fresh) -> Sql<u32> {
        let (key, starts) = self.pool;
        let count = self.batch.first(
            FRESH,
            (
                key,
                starts,
                micros(fresh.after),
                micros(fresh.now),
                micros(fresh.ahead),
            ),
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    fn last_fresh(&mut self, fresh: &Fresh, below: i32) -> Sql<Option<(Limit, Place)>> {
        let (key, starts) = self.pool;
        let last = self.batch.first(
            LAST_FRESH,
            (
                key,
                starts,
                micros(fresh.after),
                micros(fresh.now),
                micros(fresh.ahead),
                below,
            ),
            |row| Ok((place(row)?, (row.get(3)?, row.get(4)?))),
        )?;
        Ok(last.and_then(|(place, numbers)| Some((limit(key.clone(), *starts, numbers)?, place))))
    }

    fn reported(&mut self, now: Timestamp) -> Sql<u32> {
        let (key, starts) = self.pool;
        let count = self.batch.first(
            "SELECT count(*) FROM windlass_held
             WHERE key = ?1 AND starts = ?2 AND (report = 1 OR report = 2 AND since <= ?3)",
            (key, starts, micros(now)),
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    fn advance(&mut self, now: Timestamp) -> Sql<Option<Advance>> {
        let (key, starts) = self.pool;
        if !starts {
            return Ok(None);
        }
        let advance = self.batch.first(
            "SELECT priority, due, n, most, within, since FROM windlass_held
             WHERE key = ?1 AND starts = ?2 AND report > 0 AND report = 2 AND since > ?3
             ORDER BY since DESC LIMIT 1",
            (key, starts, micros(now)),
            |row| Ok((place(row)?, (row.get(3)?, row.get(4)?), row.get(5)?)),
        )?;
        Ok(advance.and_then(|(place, numbers, since)| {
            Some(Advance {
                limit: limit(key.clone(), *starts, numbers)?,
                place,
                until: time(since),
            })
        }))
    }

    fn first(&mut self, limit: &Limit) -> Sql<Option<Place>> {
        let (starts, most, within) = numbers(limit);
        self.batch.first(
            "SELECT priority, due, n FROM windlass_held
             WHERE key = ?1 AND starts = ?2 AND report = 0 AND most = ?3 AND within = ?4
             ORDER BY priority DESC, due, n LIMIT 1",
            (limit.key(), starts, most, within),
            place,
        )
    }

    fn free(&mut self, limit: &Limit, for_reserver: bool) -> Sql<Free> {
        let reserver = match for_reserver {
            true => None,
            false => reserve::reserver(self.batch)?,
        };
        let used = used(self.batch, limit, reserver.as_ref())?;
        Ok(limits::free(limit, used, self.batch.now))
    }

    fn reserver(&mut self) -> Sql<Option<Waiting>> {
        let Some(reserver) = reserve::reserver(self.batch)? else {
            return Ok(None);
        };
        let (key, starts) = self.pool;
        let waiting = self.batch.first(
            "SELECT priority, due, n, most, within, report, since FROM windlass_held
             WHERE n = ?1 AND key = ?2 AND starts = ?3",
            (reserver.order as i64, key, starts),
            |row| Ok((place(row)?, (row.get(3)?, row.get(4)?), reported(row, 5)?)),
        )?;
        Ok(waiting.and_then(|(place, numbers, reported)| {
            Some(Waiting {
                limit: limit(key.clone(), *starts, numbers)?,
                place,
                reported,
            })
        }))
    }

    fn report(&mut self, _: &Limit, place: Place, reported: Reported) -> Sql<()> {
        let n = place.order as i64;
        let report = match reported.report {
            Report::Silent => 0,
            Report::Now => 1,
            Report::At(_) => 2,
        };
        self.batch.run(
            "UPDATE windlass_held SET report = ?2, since = iif(?2, ?3, 0) WHERE n = ?1",
            (n, report, micros(reported.from)),
        )?;
        self.batch.change(n, 0, Log::held())?;
        Ok(())
    }
}

pub(super) fn refill(batch: &mut Batch<'_>, pool: &(String, bool), when: When) -> Sql<()> {
    lines::refill(&mut InFile { batch, pool }, when)
}

/// Reports the tasks that may take the slots which were kept for a task that no longer reserves.
pub(super) fn release(batch: &mut Batch<'_>, n: i64) -> Sql<()> {
    reserve::changed(batch);
    for limit in reserve::limits_of(batch, n)? {
        let (starts, ..) = numbers(&limit);
        let pool = (limit.key().to_owned(), starts);
        refill(batch, &pool, When::changed(batch.now))?;
    }
    Ok(())
}

/// Ends the reservation of a task that no node claims.
fn give_up(batch: &mut Batch<'_>, n: i64) -> Sql<()> {
    batch.run("UPDATE windlass_held SET turns = 0 WHERE n = ?1", [n])?;
    release(batch, n)
}

/// Selects the lines of `Lines::stuck` in `rules/limits/lines_in_memory`: lines with silent tasks in which no node has
/// claimed the reported ones, and lines in which a task is reported in advance for a time that only a wrong clock can
/// have produced.
const STUCK: &str = "SELECT DISTINCT key, starts FROM windlass_held h WHERE report > 0
     AND (report = 2 AND since > ?2
         OR EXISTS (SELECT 1 FROM windlass_held i WHERE i.key = h.key AND i.starts = h.starts AND i.report = 0))
     AND NOT EXISTS (SELECT 1 FROM windlass_held i WHERE i.key = h.key AND i.starts = h.starts AND i.report > 0
         AND i.since > ?1 AND i.since <= iif(i.report = 1, ?3, ?2 + 2 * i.within / 1000))";

/// Selects reported tasks that may reserve slots and that no node claims.
const UNCLAIMED: &str = "SELECT n FROM windlass_held WHERE turns >= 3 AND report > 0
     AND NOT (since > ?1 AND since <= iif(report = 1, ?3, ?2 + 2 * within / 1000))";

/// Returns the parameters of [`STUCK`].
fn stuck(now: Timestamp) -> [i64; 3] {
    let Fresh { after, now, ahead } = Fresh::at(now);
    [after, now, ahead].map(micros)
}

/// Returns whether a line needs an [examination](Looks::look).
pub(in crate::store::sqlite) fn any_stuck(conn: &Connection, now: Timestamp) -> Sql<bool> {
    Ok(conn.prepare_cached(STUCK)?.exists(stuck(now))?
        || conn.prepare_cached(UNCLAIMED)?.exists(stuck(now))?)
}

/// How often a transaction examines the lines.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Examines the lines of limits regularly.
#[derive(Default)]
pub(in crate::store::sqlite) struct Looks {
    last: Cell<Option<Instant>>,
}

impl Looks {
    /// Reports further tasks of lines whose reported tasks no node claims, if the last examination was
    /// long enough ago.
    pub(in crate::store::sqlite) fn look(&self, batch: &mut Batch<'_>) -> Sql<()> {
        if self.last.get().is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        self.last.set(Some(Instant::now()));
        look_at_lines(batch)
    }
}

fn look_at_lines(batch: &mut Batch<'_>) -> Sql<()> {
    let unclaimed: Vec<i64> = batch.all(UNCLAIMED, stuck(batch.now), |row| row.get(0))?;
    for n in unclaimed {
        give_up(batch, n)?;
    }
    let pools: Vec<(String, bool)> = batch.all(STUCK, stuck(batch.now), |row| {
        Ok((row.get(0).map(Text::of)?, row.get(1)?))
    })?;
    for pool in pools {
        refill(batch, &pool, When::stuck(batch.now))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::store::sqlite::schema;

    /// The query read every task of the limit.
    #[test]
    fn the_limits_of_a_line_are_found_without_a_look_at_each_task() {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::make(&mut conn, "memory").unwrap_or_else(|_| panic!("no schema"));
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

    /// With 100 tasks at once, each examination read the rows of all tasks that were about to be
    /// claimed.
    #[test]
    fn a_look_at_a_line_reads_its_indexes_alone() {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::make(&mut conn, "memory").unwrap_or_else(|_| panic!("no schema"));
        let plan = |sql: &str| {
            let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let values = std::iter::repeat_n(0, plan.parameter_count());
            let rows = plan.query_map(rusqlite::params_from_iter(values), |row| row.get(3));
            rows.unwrap()
                .collect::<Sql<Vec<String>>>()
                .unwrap()
                .join("\n")
        };
        let fresh = plan(FRESH);
        let covering = "USING COVERING INDEX windlass_held_reported (key=? AND starts=? AND since>? AND since<?)";
        assert_eq!(fresh.matches(covering).count(), 2, "{fresh}");
        let last = plan(LAST_FRESH);
        let range = "USING INDEX windlass_held_by_priority (key=? AND starts=? AND priority<?)";
        assert!(last.contains(range), "{last}");
    }
}
