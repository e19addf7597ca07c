//! Tasks that wait for others.
//!
//! A task that waits for few others has a row of `windlass_waits` for each of them. A task that waits for more
//! has rows of `windlass_watches`, usually a single one, which [`settle`] updates at the end of each
//! transaction. `windlass_states.waits` says which of the two tables it uses. A task that waits for a signal has a value
//! of its own there, and no rows.

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
pub(super) use crate::store::rules::dependencies::waited_for;
use crate::store::{
    examine::circle::Waiters,
    rules::dependencies::{self, LookedAt, Seen, Waiter},
};

/// Whether a task that task `s` waits for is live. Tasks often end in the order of their ids, so the last id is
/// checked first: usually it is live, and the ended ones need not be read.
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

/// The columns for [`waiter`]: NULL for a task that does not wait. `s` is the row of its state.
pub(super) const WAITER: &str = concat!(
    "CASE WHEN s.waits > 0 AND s.owner IS NULL THEN ",
    is_blocked!(),
    " END, CASE WHEN s.waits > 0 AND s.owner IS NULL THEN s.state END"
);

/// The part of a state that a watch needs.
#[derive(Deserialize)]
struct Since {
    since: Timestamp,
}

/// Returns the report of a watch about a waiting task, from the columns [`WAITER`] and its wake-up.
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

/// Returns the state of a task that is about to be claimed, with the outcomes of the tasks that it
/// waits for.
pub(super) fn looked_at(batch: &Batch<'_>, state: TaskState) -> Sql<LookedAt> {
    dependencies::looked_at(state, batch.now, |id| {
        // Many tasks that are claimed together have waited for the same ones.
        if let Some(seen) = batch.seen.borrow().get(id) {
            return Ok(*seen);
        }
        let seen = batch.first(
            "SELECT s.code, s.ended_at FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n WHERE t.id = ?1",
            [id.as_str()],
            |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?)),
        )?;
        let seen = seen.and_then(|(code, ended_at)| {
            Some(Seen {
                code: to_code(code)?,
                ended_at: ended_at.map(time),
            })
        });
        batch.seen.borrow_mut().insert(id.clone(), seen);
        Ok(seen)
    })
}

/// The most tasks for which a waiting task has a row for each. When such a task ends, no list has
/// to be read.
const FEW: usize = 4;

/// `windlass_states.waits` of a task that waits for a signal.
const SIGNAL: i64 = -1;

/// Returns `windlass_states.waits` of a task: which kind of rows it has, or that it waits for a signal.
pub(super) fn column(state: &TaskState) -> i64 {
    match state.awaits_signal() {
        Some(_) => SIGNAL,
        None => rows(waited_for(state)),
    }
}

fn rows(waited_for: &[TaskId]) -> i64 {
    match waited_for.len() {
        0 => 0,
        1..=FEW => ALL,
        _ => ONE,
    }
}

/// Replaces the rows of task `n` by those of its new wait, which may be empty, and sets the column. Only for tasks that
/// wait or may have waited: other writes ignore both. The caller also writes the state, and notes the move of the counts
/// there.
pub(super) fn put(batch: &mut Batch<'_>, n: i64, column: i64, waited_for: &[TaskId]) -> Sql<()> {
    clear(batch, n)?;
    batch.write_state(
        "UPDATE windlass_states SET waits = ?2 WHERE n = ?1",
        (n, column),
        Move::NONE,
    )?;
    add(batch, n, waited_for)
}

/// Adds the rows of a task that has none. Its state must list these tasks, and its row has the [`column`].
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

/// Tasks that have ended or are gone (`false`), or are live again (`true`).
pub(super) type Changed = BTreeMap<i64, bool>;

/// Returns the unclaimed tasks whose view has changed because of these: tasks that wait for a task which is live
/// again, and tasks that waited for the last live one. A task that still waits for a live one is not reported. A
/// long wait has rows for few of its tasks, so when each of a hundred tasks ends for which a hundred others wait,
/// few rows are found.
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
        "SELECT s.waits > 0 AND s.owner IS NULL AND (?2 OR NOT ",
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

/// Returns each waiting task, with the tasks that it waits for.
pub(super) fn waiting(conn: &Connection) -> Sql<Waiters> {
    let mut edges = conn.prepare_cached(
        "SELECT t.id, w.value FROM windlass_states s JOIN windlass_tasks t ON t.n = s.n
         JOIN json_each(iif(json_valid(s.state), s.state, '{}'), '$.waits.tasks') w
         WHERE s.waits > 0 AND s.ended_at IS NULL",
    )?;
    let mut rows = edges.query(())?;
    let mut waiters = Waiters::new();
    while let Some(row) = rows.next()? {
        // An invalid name belongs to a record that cannot be read, which is its own finding.
        if let (Some(id), Some(waited)) = (columns::id(row, 0)?, columns::id(row, 1)?) {
            waiters.entry(id).or_default().push(waited);
        }
    }
    Ok(waiters)
}
