//! Reads the counts ([`counts`](super::counts)).

use jiff::Timestamp;
use rusqlite::{Connection, Row, types::ValueRef};
use windlass_statemachine::{Kind, StateKind};

use super::{
    batch::Sql,
    codes::{micros, time, to_code},
    columns,
    errors::Stop,
    rows,
    texts::Text,
};
use crate::store::{
    LimitForm, TaskCount, TaskStats,
    rules::stats::{Counter, Facts, Wait},
};

/// The most tasks in lines of limits that are read.
const MOST_HELD: i64 = 10_000;
/// The most live tasks that are read to find the oldest due task.
const MOST_LIVE: i64 = 2_000;

/// Counts the sleeping tasks of a kind that are due.
const LATE: &str =
    "SELECT count(*), min(due) FROM windlass_states INDEXED BY windlass_states_asleep
     WHERE kind = ?1 AND data_version = ?2 AND waits IN (?3, ?4) AND due <= ?5
     AND code = 1 AND owner IS NULL AND quarantine IS NULL";

/// Returns the kind in a column; `None` for an invalid value without a stand-in.
fn kind(row: &Row<'_>, column: usize) -> Sql<Option<Kind>> {
    let kind = Kind::new(row.get::<_, Text>(column)?.0);
    Ok(kind.ok().or_else(rows::unreadable))
}

/// Returns how many tasks there are by kind and state.
pub(super) fn states(conn: &Connection) -> Result<Vec<TaskCount>, Stop> {
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
    version: i64,
    waits: i64,
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
        waits: match waits {
            0 => Wait::Nothing,
            1.. => Wait::Tasks,
            _ => Wait::Signal,
        },
        is_due: false,
    };
    Ok(Some(Counted {
        number: row.get(0)?,
        kind,
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

    /// Adds the tasks. Sleeping tasks are split into due ones and others.
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
            _ => counter.add(&self.kind, version, self.facts, (all, None)),
        }
        Ok(())
    }

    /// Returns how many of these sleeping tasks are due, and the first due time. Reads one index entry for each.
    fn late(&self, conn: &Connection, now: i64) -> Sql<(u64, Option<Timestamp>)> {
        let mut late = conn.prepare_cached(LATE)?;
        // Equal values, not a range, so that the index can be used up to the due time.
        let [few, many] = match self.waits {
            1.. => [1, 2],
            other => [other; 2],
        };
        let of = (self.number, self.version, few, many, now);
        late.query_row(of, |row| {
            let oldest: Option<i64> = row.get(1)?;
            Ok((row.get::<_, i64>(0)?.unsigned_abs(), oldest.map(time)))
        })
    }
}

/// Adds the first due time of the tasks that could run, by kind and data version. It has no index, so this reads the
/// first live tasks in submit order. Returns whether it has read all of them. Only the state of a task that was claimed before
/// says since when it waits for the next claim.
fn oldest(conn: &Connection, counter: &mut Counter) -> Sql<bool> {
    let mut oldest = conn.prepare_cached(
        "SELECT k.kind, g.code, g.data_version, g.due, g.tasks, s.state
         FROM (SELECT kind, code, data_version, owner IS NULL AS free, released, min(due) AS due, count(*) AS tasks
             FROM (SELECT kind, code, data_version, owner, due,
                     iif(fence > 0 AND owner IS NULL AND code IN (0, 3), n, NULL) AS released
                 FROM windlass_states INDEXED BY windlass_states_live
                 WHERE ended_at IS NULL AND quarantine IS NULL ORDER BY n LIMIT ?1)
             GROUP BY 1, 2, 3, 4, 5) g
             LEFT JOIN windlass_kinds k ON k.id = g.kind AND g.free AND g.code IN (0, 3)
             LEFT JOIN windlass_states s ON s.n = g.released",
    )?;
    let (mut rows, mut read) = (oldest.query([MOST_LIVE])?, 0);
    while let Some(row) = rows.next()? {
        read += row.get::<_, i64>(4)?;
        let Some(name) = row.get::<_, Option<Text>>(0)? else {
            continue;
        };
        let (state, due) = (
            to_code(row.get(1)?),
            row.get::<_, Option<i64>>(3)?.map(time),
        );
        let released = match row.get_ref(5)? {
            ValueRef::Null => None,
            _ => columns::state(row, 5)?.ok(),
        };
        let due = released.and_then(|state| state.ready()).or(due);
        let version = u32::try_from(row.get::<_, i64>(2)?).unwrap_or(u32::MAX);
        if let (Some(kind), Some(due)) = (Kind::new(name.0).ok().or_else(rows::unreadable), due) {
            counter.due_since(&kind, state, version, due);
        }
    }
    Ok(read < MOST_LIVE)
}

/// Returns the counts, grouped by whether a node can claim the tasks.
pub(super) fn groups(conn: &Connection, now: Timestamp) -> Result<TaskStats, Stop> {
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
        "SELECT k.kind, h.key, h.within <> 0, count(*)
         FROM (SELECT n, key, within FROM windlass_held LIMIT ?1) h
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
    let oldest_is_complete = oldest(conn, &mut counter)?;
    let mut stats = counter.into_stats(read < MOST_HELD);
    stats.oldest_is_complete = oldest_is_complete;
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::schema;

    /// With a range of `waits` SQLite did not use the rest of the index: the count read every sleeping
    /// task of the kind.
    #[test]
    fn the_count_of_due_sleepers_reads_no_others() {
        let mut conn = Connection::open_in_memory().unwrap();
        schema::make(&mut conn, "f").unwrap();
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {LATE}")).unwrap();
        let plan: String = plan.query_row((1, 1, 0, 0, 1), |row| row.get(3)).unwrap();
        assert!(plan.contains("waits=? AND due<?"), "{plan}");
    }
}
