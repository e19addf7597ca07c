//! The line of a limit, as stored in the file.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use windlass_statemachine::Limit;

use super::{most, pool_at, reserve, used, within};
use crate::store::{
    rules::limits::{
        self, Free, Pool,
        lines::{self, Advance, Fresh, Place, Report, Reported, Waiting, When},
    },
    sqlite::{
        batch::{Batch, Sql},
        codes::{Log, micros, time},
    },
};

/// The line of a pool in the file.
struct InFile<'a, 'c> {
    batch: &'a mut Batch<'c>,
    pool: &'a Pool,
}

/// Counts the rows of [`Fresh::includes`]. Each range reads only the index; the second one is empty unless a clock was
/// ahead.
const FRESH: &str = "SELECT (SELECT count(*) FROM windlass_held
    WHERE key = ?1 AND within = ?2 AND report > 0 AND since > ?3 AND since <= ?4)
    + (SELECT count(*) FROM windlass_held
    WHERE key = ?1 AND within = ?2 AND report > 0 AND report <> 2 AND since > ?4 AND since <= ?5)";

/// The last of these rows with a lower priority than `?6`.
const LAST_FRESH: &str =
    "SELECT priority, due, n, most FROM windlass_held INDEXED BY windlass_held_by_priority
    WHERE key = ?1 AND within = ?2 AND report > 0 AND priority < ?6
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

/// Finds the next greater number of a limit in a line.
const NEXT_NUMBER: &str = "SELECT most FROM windlass_held
     WHERE key = ?1 AND within = ?2 AND report = 0 AND most > ?3 ORDER BY most LIMIT 1";

impl lines::Line for InFile<'_, '_> {
    type Error = rusqlite::Error;

    fn limits(&mut self) -> Sql<Vec<Limit>> {
        let (mut found, mut after) = (Vec::new(), 0_u32);
        // One step for each number, however many tasks there are.
        loop {
            let values = (&self.pool.key, within(self.pool), after);
            let next = self.batch.first(NEXT_NUMBER, values, |row| row.get(0))?;
            let Some(next) = next else { return Ok(found) };
            after = next;
            found.extend(self.pool.limit(next));
        }
    }

    fn fresh(&mut self, fresh: &Fresh) -> Sql<u32> {
        let count = self.batch.first(
            FRESH,
            (
                &self.pool.key,
                within(self.pool),
                micros(fresh.after),
                micros(fresh.now),
                micros(fresh.ahead),
            ),
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    fn last_fresh(&mut self, fresh: &Fresh, below: i32) -> Sql<Option<(Limit, Place)>> {
        let last = self.batch.first(
            LAST_FRESH,
            (
                &self.pool.key,
                within(self.pool),
                micros(fresh.after),
                micros(fresh.now),
                micros(fresh.ahead),
                below,
            ),
            |row| Ok((place(row)?, row.get(3)?)),
        )?;
        Ok(last.and_then(|(place, most)| Some((self.pool.limit(most)?, place))))
    }

    fn reported(&mut self, now: Timestamp) -> Sql<u32> {
        let count = self.batch.first(
            "SELECT count(*) FROM windlass_held
             WHERE key = ?1 AND within = ?2 AND (report = 1 OR report = 2 AND since <= ?3)",
            (&self.pool.key, within(self.pool), micros(now)),
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    fn advance(&mut self, now: Timestamp) -> Sql<Option<Advance>> {
        if self.pool.within.is_none() {
            return Ok(None);
        }
        let advance = self.batch.first(
            "SELECT priority, due, n, most, since FROM windlass_held
             WHERE key = ?1 AND within = ?2 AND report > 0 AND report = 2 AND since > ?3
             ORDER BY since DESC LIMIT 1",
            (&self.pool.key, within(self.pool), micros(now)),
            |row| Ok((place(row)?, row.get(3)?, row.get(4)?)),
        )?;
        Ok(advance.and_then(|(place, most, since)| {
            Some(Advance {
                limit: self.pool.limit(most)?,
                place,
                until: time(since),
            })
        }))
    }

    fn first(&mut self, limit: &Limit) -> Sql<Option<Place>> {
        self.batch.first(
            "SELECT priority, due, n FROM windlass_held
             WHERE key = ?1 AND within = ?2 AND report = 0 AND most = ?3
             ORDER BY priority DESC, due, n LIMIT 1",
            (&self.pool.key, within(self.pool), most(limit)),
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
        let waiting = self.batch.first(
            "SELECT priority, due, n, most, report, since FROM windlass_held
             WHERE n = ?1 AND key = ?2 AND within = ?3",
            (reserver.order as i64, &self.pool.key, within(self.pool)),
            |row| Ok((place(row)?, row.get(3)?, reported(row, 4)?)),
        )?;
        Ok(waiting.and_then(|(place, most, reported)| {
            Some(Waiting {
                limit: self.pool.limit(most)?,
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

pub(super) fn refill(batch: &mut Batch<'_>, pool: &Pool, when: When) -> Sql<()> {
    lines::refill(&mut InFile { batch, pool }, when)
}

/// Reports the tasks that may take the slots which were kept for a task that no longer reserves.
pub(super) fn release(batch: &mut Batch<'_>, n: i64) -> Sql<()> {
    reserve::changed(batch);
    for limit in reserve::limits_of(batch, n)? {
        refill(batch, &Pool::of(&limit), When::changed(batch.now))?;
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
const STUCK: &str = "SELECT DISTINCT key, within FROM windlass_held h WHERE report > 0
     AND (report = 2 AND since > ?2
         OR EXISTS (SELECT 1 FROM windlass_held i WHERE i.key = h.key AND i.within = h.within AND i.report = 0))
     AND NOT EXISTS (SELECT 1 FROM windlass_held i WHERE i.key = h.key AND i.within = h.within AND i.report > 0
         AND i.since > ?1 AND i.since <= iif(i.report = 1, ?3, ?2 + 2000 * i.within))";

/// Selects reported tasks that may reserve slots and that no node claims.
const UNCLAIMED: &str = "SELECT n FROM windlass_held WHERE turns >= 3 AND report > 0
     AND NOT (since > ?1 AND since <= iif(report = 1, ?3, ?2 + 2000 * within))";

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
    let pools: Vec<Pool> = batch.all(STUCK, stuck(batch.now), |row| pool_at(row, 0))?;
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
             INSERT INTO windlass_held (n, key, within, most, priority, due, report, since)
             SELECT n, 'k', 0, 1 + n % 3, 0, NULL, 0, 0 FROM line",
        )
        .unwrap();
        let mut next = conn.prepare(NEXT_NUMBER).unwrap();
        let mut found = vec![0_u32];
        while let Ok(most) = next.query_row(("k", 0, found[found.len() - 1]), |row| row.get(0)) {
            found.push(most);
        }
        assert_eq!(found, [0, 1, 2, 3]);
        let steps = next.get_status(StatementStatus::VmStep);
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
        let covering = "USING COVERING INDEX windlass_held_reported (key=? AND within=? AND since>? AND since<?)";
        assert_eq!(fresh.matches(covering).count(), 2, "{fresh}");
        let last = plan(LAST_FRESH);
        let range = "USING INDEX windlass_held_by_priority (key=? AND within=? AND priority<?)";
        assert!(last.contains(range), "{last}");
    }
}
