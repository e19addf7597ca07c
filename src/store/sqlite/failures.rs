//! Reads the groups of failed tasks. The writes that change a task keep their numbers
//! ([`counts`](super::counts)).

use rusqlite::Connection;
use windlass_statemachine::{Kind, TaskId};

use super::{batch::Sql, codes::time, columns, errors::Stop, texts::Text};
use crate::store::{FailedGroup, FailedTasks, rules::failures};

/// Returns `windlass_states.failure` of a task with this fingerprint; -1 without one.
pub(super) fn number(fingerprint: Option<&str>) -> i64 {
    let number = fingerprint.and_then(|print| i64::from_str_radix(print, 16).ok());
    number.unwrap_or(-1)
}

/// Returns the fingerprint of a number.
fn fingerprint(number: i64) -> String {
    format!("{number:012x}")
}

/// Returns the groups with the most tasks. Reads the number of each group, and the first and the last task of those that it
/// returns.
pub(super) fn groups(conn: &Connection, limit: usize) -> Result<FailedTasks, Stop> {
    let mut largest = conn.prepare_cached(
        "SELECT f.failure, f.kind, f.tasks, k.kind FROM windlass_failures f
         JOIN windlass_kinds k ON k.id = f.kind WHERE f.tasks > 0 ORDER BY f.tasks DESC LIMIT ?1",
    )?;
    let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let read = largest.query_map([most], |row| {
        let kind = row.get::<_, Text>(3).map(Text::of)?;
        Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?, kind))
    })?;
    let largest: Vec<(i64, i64, i64, String)> = read.collect::<Sql<_>>()?;
    let mut of = conn.prepare_cached(
        "SELECT t.id, s.ended_at, (SELECT f.ended_at FROM windlass_states f INDEXED BY windlass_states_failed
             WHERE f.failure = ?1 AND f.failure >= 0 AND f.kind = ?2 ORDER BY f.ended_at LIMIT 1)
         FROM windlass_states s INDEXED BY windlass_states_failed CROSS JOIN windlass_tasks t ON t.n = s.n
         WHERE s.failure = ?1 AND s.failure >= 0 AND s.kind = ?2 ORDER BY s.ended_at DESC LIMIT ?3",
    )?;
    let newest = i64::try_from(FailedGroup::RECENT).unwrap_or(1);
    let is_complete = largest.len() <= limit;
    let mut groups = Vec::new();
    for (failure, number, tasks, kind) in largest {
        let found = of.query_map((failure, number, newest), |row| {
            Ok((columns::id(row, 0)?, row.get(1)?, row.get(2)?))
        })?;
        let found: Vec<(Option<TaskId>, i64, i64)> = found.collect::<Sql<_>>()?;
        // A store whose counts are wrong, which `doctor` reports, may have no such task.
        let (Some(&(_, last, first)), Ok(kind)) = (found.first(), Kind::new(kind)) else {
            continue;
        };
        groups.push(FailedGroup {
            fingerprint: fingerprint(failure),
            kind,
            tasks: tasks.unsigned_abs(),
            first: time(first),
            last: time(last),
            recent: found.into_iter().filter_map(|(id, ..)| id).collect(),
        });
    }
    Ok(failures::ordered(groups, limit, is_complete))
}
