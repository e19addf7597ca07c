//! The tasks that wait for others.
//!
//! A task that waits for few others has a row of `windlass_waits` for each of them. One that waits for more has
//! rows of `windlass_watches`, mostly a single one: [`settle`] keeps them right at the end of each transaction.
//! `windlass_states.waits` is which of the two it has.

mod settle;

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use serde::Deserialize;
pub(super) use settle::settle;
use settle::{ALL, ONE, put_all};
use windlass_statemachine::{TaskId, TaskState};

use super::{
    batch::{Batch, Sql, first},
    codes::{time, to_code},
    columns,
    counts::Move,
};
pub(super) use crate::store::rules::waits::waited_for;
use crate::store::{
    examine::circle::Waiters,
    rules::waits::{self, Waiter},
};

/// Whether a task that task `s` waits for is live. Tasks often end in the order of their ids, so the last id is
/// looked at first: of many the last one that is live is found at once, and not behind all that have ended.
macro_rules! is_blocked {
    () => {
        "ifnull(CASE s.waits WHEN 2 THEN
            (SELECT 1 FROM windlass_watches w CROSS JOIN windlass_tasks wt ON wt.id = w.waited
                CROSS JOIN windlass_states ws ON ws.n = wt.n
                WHERE w.n = s.n AND ws.ended_at IS NULL LIMIT 1)
            ELSE (SELECT 1 FROM windlass_waits w CROSS JOIN windlass_tasks wt ON wt.id = w.waited
                CROSS JOIN windlass_states ws ON ws.n = wt.n
                WHERE w.n = s.n AND ws.ended_at IS NULL ORDER BY w.waited DESC LIMIT 1) END, 0)"
    };
}

/// The columns that [`waiter`] reads: NULL for a task that waits for none. `s` is the row of its state.
pub(super) const WAITER: &str = concat!(
    "CASE WHEN s.waits AND s.owner IS NULL THEN ",
    is_blocked!(),
    " END, CASE WHEN s.waits AND s.owner IS NULL THEN s.state END"
);

/// The part of a state that a watch needs.
#[derive(Deserialize)]
struct Since {
    since: Timestamp,
}

/// Returns what a watch reports of a waiting task, from the columns [`WAITER`] and its wake-up.
pub(super) fn waiter(row: &Row<'_>, first: usize, due: Option<i64>) -> Sql<Option<Waiter>> {
    let Some(is_blocked) = row.get(first)? else {
        return Ok(None);
    };
    // Only the view of a task that can be claimed shows since when it waits.
    let since = match is_blocked {
        true => None,
        false => row.get_ref(first + 1)?.as_str().ok(),
    };
    let since = since.and_then(|state| serde_json::from_str(state).ok());
    Ok(Some(Waiter {
        is_blocked,
        until: due.map_or(Timestamp::MAX, time),
        since: since.map_or(Timestamp::UNIX_EPOCH, |state: Since| state.since),
    }))
}

/// Returns the state of a task that is to be claimed, with the outcomes of those that it waits for.
pub(super) fn looked_at(batch: &Batch<'_>, state: TaskState) -> Sql<TaskState> {
    waits::looked_at(state, batch.now, |id| {
        // Many tasks that are claimed together have waited for the same ones.
        if let Some(code) = batch.codes.borrow().get(id) {
            return Ok(*code);
        }
        let code = batch.first(
            "SELECT s.code FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.id = ?1",
            [id.as_str()],
            |row| row.get(0),
        )?;
        let code = code.and_then(to_code);
        batch.codes.borrow_mut().insert(id.clone(), code);
        Ok(code)
    })
}

/// The most tasks of a list that has a row for each of them: the ends of these tasks read no list.
const FEW: usize = 4;

/// Returns which rows a task has that waits for these.
pub(super) fn rows(waited_for: &[TaskId]) -> i64 {
    match waited_for.len() {
        0 => 0,
        1..=FEW => ALL,
        _ => ONE,
    }
}

/// Makes the rows of task `n` those of its new wait; of none when it waits for none. Only for tasks that wait
/// or may have waited: other writes do not look at these rows. The caller writes the state as well, and notes the move
/// of the counts there.
pub(super) fn put(batch: &mut Batch<'_>, n: i64, waited_for: &[TaskId]) -> Sql<()> {
    clear(batch, n)?;
    batch.write_state(
        "UPDATE windlass_states SET waits = ?2 WHERE n = ?1",
        (n, rows(waited_for)),
        Move::NONE,
    )?;
    add(batch, n, waited_for)
}

/// Adds the rows of a task that has none. Its state has these tasks and [`rows`].
pub(super) fn add(batch: &mut Batch<'_>, n: i64, waited_for: &[TaskId]) -> Sql<()> {
    match rows(waited_for) {
        ALL => put_all(batch, n, waited_for.iter().map(TaskId::as_str))?,
        ONE => batch.waits.waiting.push(n),
        _ => {}
    }
    Ok(())
}

/// Deletes the rows of a task.
pub(super) fn clear(batch: &Batch<'_>, n: i64) -> Sql<()> {
    batch.run("DELETE FROM windlass_waits WHERE n = ?1", [n])?;
    batch.run("DELETE FROM windlass_watches WHERE n = ?1", [n])?;
    Ok(())
}

/// Tasks that have ended, are gone, or are live again (`true`).
pub(super) type Changed = BTreeMap<i64, bool>;

/// Returns the unclaimed tasks whose view has changed because of these: those that wait for a task which is
/// live again, and those that waited for the last live one. A task that still waits for a live one is not
/// reported. A long wait has a row of few of its tasks, so the end of each of a hundred tasks for which a hundred
/// wait finds few rows.
pub(super) fn waiters(conn: &Connection, waited: &Changed) -> Sql<Vec<i64>> {
    let mut any = conn.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM windlass_waits) OR EXISTS (SELECT 1 FROM windlass_watches)",
    )?;
    if waited.is_empty() || !any.query_row((), |row| row.get::<_, bool>(0))? {
        return Ok(Vec::new());
    }
    let mut of = conn.prepare_cached(
        "WITH ended (id) AS (SELECT ifnull(
            (SELECT id FROM windlass_tasks WHERE n = ?1), (SELECT id FROM windlass_gone WHERE n = ?1)))
         SELECT w.n FROM ended CROSS JOIN windlass_waits w ON w.waited = ended.id
         UNION ALL SELECT w.n FROM ended CROSS JOIN windlass_watches w ON w.waited = ended.id",
    )?;
    let mut found = Changed::new();
    for (n, is_live) in waited {
        for waiter in of.query_map([n], |row| row.get(0))? {
            *found.entry(waiter?).or_default() |= is_live;
        }
    }
    let mut has_changed = conn.prepare_cached(concat!(
        "SELECT s.waits AND s.owner IS NULL AND (?2 OR NOT ",
        is_blocked!(),
        ") FROM windlass_states s WHERE s.n = ?1"
    ))?;
    let mut changed = Vec::new();
    for (waiter, is_live) in found {
        if first(&mut has_changed, (waiter, is_live), |row| row.get(0))? == Some(true) {
            changed.push(waiter);
        }
    }
    Ok(changed)
}

/// Returns each task that waits, with those that it waits for.
pub(super) fn waiting(conn: &Connection) -> Sql<Waiters> {
    let mut edges = conn.prepare_cached(
        "SELECT t.id, w.value FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n
         JOIN json_each(iif(json_valid(s.state), s.state, '{}'), '$.waits.tasks') w
         WHERE s.waits AND s.ended_at IS NULL",
    )?;
    let mut rows = edges.query(())?;
    let mut waiters = Waiters::new();
    while let Some(row) = rows.next()? {
        // A name that is none belongs to a record that cannot be read, which is a finding of its own.
        if let (Some(id), Some(waited)) = (columns::id(row, 0)?, columns::id(row, 1)?) {
            waiters.entry(id).or_default().push(waited);
        }
    }
    Ok(waiters)
}
