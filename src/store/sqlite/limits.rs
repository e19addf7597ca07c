//! The slots of limits that are taken (`windlass_slots`), and the tasks that wait for one (`windlass_held`).
//!
//! Tasks without limits have 0 in `windlass_states.limited`, and none of the statements here run
//! for them.

mod line;
mod reserve;
mod usage;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
pub(super) use line::{Looks, any_stuck};
use line::{refill, release};
use rusqlite::{Connection, Row};
pub(super) use usage::in_use;
use windlass_statemachine::{Bound, Command, Limit, QueuedCommand, Task, Terms};

use super::{
    batch::{Batch, Sql},
    codes::{Log, micros, time},
    columns, command,
    texts::Text,
};
use crate::store::{
    LimitedBy,
    rules::limits::{
        self, NextSlot, Pool, Taken,
        lines::{Place, Report, Reported, When},
        reserve::{Reserver, TURNS, Waited, turns, with_kept},
    },
};

/// `windlass_states.limited`: the task has limits.
const LIMITED: i64 = 1;
/// `windlass_states.limited`: the task is claimed without slots, for its commands.
const OVER: i64 = 2;

/// The columns for [`view`]: NULL for a task that is not held back. `s` is the row of its state.
pub(super) const HELD: &str = "
    CASE WHEN s.limited = 1 AND s.owner IS NULL
        THEN (SELECT iif(h.report = 2, h.since, h.report - 1) FROM windlass_held h WHERE h.n = s.n) END,
    s.limited = 1 AND s.pending > 0 AND EXISTS (
        SELECT 1 FROM windlass_commands c WHERE c.n = s.n AND c.outcome IS NULL
            AND NOT (json_valid(c.command) AND ifnull(json_extract(c.command, '$.message'), '') = 'signal'))";

/// Returns how nodes see a task that is held back, and whether a command that needs no handler is queued for
/// it.
pub(super) fn view(row: &Row<'_>, first: usize) -> Sql<Option<(Report, bool)>> {
    let report = match row.get(first)? {
        None => return Ok(None),
        Some(-1) => Report::Silent,
        Some(0) => Report::Now,
        Some(until) => Report::At(time(until)),
    };
    Ok(Some((report, row.get(first + 1)?)))
}

/// The column for [`fair_key`]: NULL for a task without limits.
pub(super) const TERMS: &str = "CASE WHEN s.limited <> 0 THEN t.terms END";

/// Returns [`TaskView::fair_key`](crate::store::TaskView::fair_key). Returns `None` for unreadable terms,
/// which quarantine the task at its next claim.
pub(super) fn fair_key(row: &Row<'_>, column: usize) -> Sql<Option<Arc<str>>> {
    let terms = columns::json::<Terms>(row, column, "terms")?.ok().flatten();
    Ok(terms.and_then(|terms| limits::fair_key(&terms.limits)))
}

/// The columns for [`limited_by`]; `h` is the row of a task that is held back.
macro_rules! limited_by_columns {
    () => {
        "h.key, h.within, h.most, iif(h.within,
             (SELECT min(began) FROM windlass_slots hs
              WHERE hs.key = h.key AND hs.within = h.within AND hs.slot < h.most) + h.within * 1000, NULL)"
    };
}
pub(super) use limited_by_columns;

/// Returns the limit that holds a task back, as the task declares it: the line has only the key, filled in.
pub(super) fn limited_by(
    row: &Row<'_>,
    first: usize,
    declared: &[Limit],
) -> Sql<Option<LimitedBy>> {
    let Some(key) = row.get::<_, Option<Text>>(first)? else {
        return Ok(None);
    };
    let limit = pool(key.0, row.get(first + 1)?).limit(row.get(first + 2)?);
    let until: Option<i64> = row.get(first + 3)?;
    Ok(limit.map(|limit| LimitedBy {
        until: until.map(time),
        ..LimitedBy::new(usage::as_declared(&limit, declared).unwrap_or(limit))
    }))
}

/// Returns the pool with this key and this value of the column `within`.
fn pool(key: String, within: i64) -> Pool {
    let within = (within > 0).then(|| Duration::from_millis(within.unsigned_abs()));
    Pool { key, within }
}

/// Reads a pool from the columns `key` and `within`.
fn pool_at(row: &Row<'_>, first: usize) -> Sql<Pool> {
    Ok(pool(row.get(first).map(Text::of)?, row.get(first + 1)?))
}

/// Returns the value of the column `within` of a pool.
fn within(pool: &Pool) -> i64 {
    let millis = pool.within.map(|within| within.as_millis());
    millis.map_or(0, |millis| i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Whether a claim gets its slots.
pub(super) enum Admission {
    /// The claim has taken a slot of each limit, or its task has no limit.
    Slots,
    /// The claim has no slots, and is made only for the queued commands.
    OverLimit,
    /// The claim is refused.
    Refused,
}

impl Admission {
    /// Returns the value of `windlass_states.limited` for a claim.
    pub(super) fn limited(&self, task: &Task) -> i64 {
        match self {
            Self::OverLimit => OVER,
            _ => i64::from(!task.limits.is_empty()) * LIMITED,
        }
    }
}

/// Returns the value of `windlass_states.limited` for an unclaimed task.
pub(super) fn limited(task: &Task) -> i64 {
    Admission::Slots.limited(task)
}

/// Returns the value of `windlass_states.limited` for an unclaimed task with these terms.
pub(super) fn limited_by_terms(terms: Option<&Terms>) -> i64 {
    i64::from(terms.is_some_and(|terms| !terms.limits.is_empty())) * LIMITED
}

/// Returns the admission of a task that its lease claims again.
pub(super) fn as_claimed(limited: i64) -> Admission {
    match limited {
        OVER => Admission::OverLimit,
        _ => Admission::Slots,
    }
}

/// Returns whether a command that needs no handler is queued. A signal needs the handler, so it waits with a
/// task that is held back.
fn has_order(conn: &Connection, n: i64) -> Sql<bool> {
    let waiting = command::waiting(conn, n)?;
    let is_order = |waiting: &QueuedCommand| !matches!(waiting.command, Command::Signal(_));
    // An unreadable command is rejected by the claim.
    Ok(waiting
        .iter()
        .any(|one| one.as_ref().map_or(true, is_order)))
}

fn most(limit: &Limit) -> u32 {
    let (Bound::AtOnce(most) | Bound::Starts { most, .. }) = limit.bound();
    most
}

/// Returns the slots of a limit that are in use or were once used, including the one that is kept for the
/// reserver.
fn used(batch: &Batch<'_>, limit: &Limit, reserver: Option<&Reserver>) -> Sql<Vec<(u32, Taken)>> {
    let pool = Pool::of(limit);
    let own = reserver.and_then(|reserver| reserver.limit_of(&pool));
    let most = own.map_or(most(limit), |own| most(limit).max(most(own)));
    let used = batch.all(
        "SELECT slot, began FROM windlass_slots WHERE key = ?1 AND within = ?2 AND slot < ?3",
        (limit.key(), within(&pool), most),
        |row| {
            let began: Option<i64> = row.get(1)?;
            let taken = began.map_or(Taken::Held, |at| Taken::Began(time(at)));
            Ok((row.get(0)?, taken))
        },
    )?;
    Ok(with_kept(reserver, &pool, used, batch.now))
}

/// Returns a slot of each limit of task `n`, or the first limit that is full.
fn free_slots<'a>(batch: &Batch<'_>, n: i64, of: &'a [Limit]) -> Sql<Result<Vec<u32>, &'a Limit>> {
    let reserver = reserve::reserver(batch)?.filter(|one| one.order != n as u64);
    let mut slots = Vec::with_capacity(of.len());
    for limit in of {
        let used = used(batch, limit, reserver.as_ref())?;
        match limits::next_slot(limit, used, batch.now) {
            NextSlot::Free(slot) => slots.push(slot),
            NextSlot::Full { .. } => return Ok(Err(limit)),
        }
    }
    Ok(Ok(slots))
}

/// A task that is about to be claimed, or whose claim has ended.
pub(super) struct Candidate<'a> {
    pub(super) n: i64,
    pub(super) task: &'a Task,
    pub(super) due: Option<Timestamp>,
    /// Whether it has missed a deadline.
    pub(super) is_late: bool,
}

impl Candidate<'_> {
    fn place(&self) -> Place {
        Place::new(self.task.priority, self.due, self.n as u64)
    }
}

/// Takes the slots for a claim, or puts the task into the line of the first limit that is full.
pub(super) fn admit(
    batch: &mut Batch<'_>,
    one: &Candidate<'_>,
    is_commanded: bool,
) -> Sql<Admission> {
    let of = &one.task.limits;
    if of.is_empty() {
        return Ok(Admission::Slots);
    }
    match free_slots(batch, one.n, of)? {
        Ok(slots) => {
            for (limit, slot) in of.iter().zip(slots) {
                let within = within(&Pool::of(limit));
                batch.run(
                    "INSERT OR REPLACE INTO windlass_slots (key, within, slot, n, began, until)
                     VALUES (?1, ?2, ?3, iif(?2, NULL, ?4), iif(?2, ?5, NULL), iif(?2, ?6, NULL))",
                    (
                        limit.key(),
                        within,
                        slot,
                        one.n,
                        batch.at,
                        batch.at.saturating_add(within * 1000 + 1),
                    ),
                )?;
            }
            leave_line(batch, one.n)?;
            Ok(Admission::Slots)
        }
        Err(_) if one.is_late || (is_commanded && has_order(batch.connection(), one.n)?) => {
            leave_line(batch, one.n)?;
            Ok(Admission::OverLimit)
        }
        Err(full) => {
            hold(batch, full, one.place())?;
            Ok(Admission::Refused)
        }
    }
}

/// A task in a line, before its claim is refused again.
struct Before {
    pool: Pool,
    reported: Reported,
    turns: u32,
    /// Whether it is already in the line into which the refusal puts it.
    is_there: bool,
}

/// Puts a task into the line of a limit.
fn hold(batch: &mut Batch<'_>, limit: &Limit, place: Place) -> Sql<()> {
    let n = place.order as i64;
    let pool = Pool::of(limit);
    let (within, most) = (within(&pool), most(limit));
    let due = place.due().map(micros);
    let before = batch.first(
        "SELECT key, within, report, since, turns, report = 0 AND key = ?2 AND within = ?3 AND most = ?4
             AND priority = ?5 AND due IS ?6 FROM windlass_held WHERE n = ?1",
        (n, limit.key(), within, most, place.priority(), due),
        |row| {
            Ok(Before {
                pool: pool_at(row, 0)?,
                reported: line::reported(row, 2)?,
                turns: row.get(4)?,
                is_there: row.get(5)?,
            })
        },
    )?;
    if !before.as_ref().is_some_and(|before| before.is_there) {
        let turns = turns(before.as_ref().map(Before::waited), &pool);
        batch.run(
            "INSERT OR REPLACE INTO windlass_held (n, key, within, most, priority, due, report, since, turns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7)",
            (n, limit.key(), within, most, place.priority(), due, turns),
        )?;
        reserve::changed(batch);
        batch.change(n, 0, Log::held())?;
    }
    let left = before
        .map(|before| before.pool)
        .filter(|left| *left != pool);
    for pool in left.into_iter().chain([pool]) {
        refill(batch, &pool, When::changed(batch.now))?;
    }
    Ok(())
}

impl Before {
    fn waited(&self) -> Waited<'_> {
        Waited {
            pool: &self.pool,
            reported: self.reported,
            turns: self.turns,
        }
    }
}

/// Removes a task from its line, and reports the next one.
pub(super) fn leave_line(batch: &mut Batch<'_>, n: i64) -> Sql<()> {
    let left = batch.all(
        "DELETE FROM windlass_held WHERE n = ?1 RETURNING key, within, turns",
        [n],
        |row| Ok((pool_at(row, 0)?, row.get::<_, u32>(2)?)),
    )?;
    for (pool, turns) in left {
        reserve::changed(batch);
        refill(batch, &pool, When::changed(batch.now))?;
        if turns >= TURNS {
            release(batch, n)?;
        }
    }
    Ok(())
}

/// Removes a task from its line and frees the slots of its claim, because it is no longer live, or its state was
/// replaced. `limited` is the value in its row.
pub(super) fn forget(batch: &mut Batch<'_>, n: i64, limited: i64) -> Sql<()> {
    if limited == 0 {
        return Ok(());
    }
    leave_line(batch, n)?;
    claim_ended(batch, n, limited, false)
}

/// Frees the slots of a claim that has ended. If the claim had none (see `limited`), a task that could run is
/// held back again.
pub(super) fn claim_ended(batch: &mut Batch<'_>, n: i64, limited: i64, could_run: bool) -> Sql<()> {
    match limited {
        LIMITED => {
            let freed: Vec<Pool> = batch.all(
                "DELETE FROM windlass_slots WHERE n = ?1 RETURNING key, within",
                [n],
                |row| pool_at(row, 0),
            )?;
            for pool in freed {
                refill(batch, &pool, When::changed(batch.now))?;
            }
            Ok(())
        }
        OVER => {
            batch.run("UPDATE windlass_states SET limited = 1 WHERE n = ?1", [n])?;
            match could_run {
                true => hold_again(batch, n),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Puts a task that was claimed beyond a limit into its line, if the limit is still full.
fn hold_again(batch: &mut Batch<'_>, n: i64) -> Sql<()> {
    // Terms that cannot be read quarantine the task at its next claim.
    let task: Option<(i32, Option<i64>, Option<Terms>)> = batch.first(
        "SELECT t.priority, s.due, t.terms FROM windlass_tasks t JOIN windlass_states s ON s.n = t.n
         WHERE t.n = ?1 AND s.quarantine IS NULL AND s.ended_at IS NULL",
        [n],
        |row| {
            let terms = columns::json(row, 2, "terms")?.ok().flatten();
            let priority: i64 = row.get(0)?;
            let priority = i32::try_from(priority).unwrap_or_default();
            Ok((priority, row.get(1)?, terms))
        },
    )?;
    let Some((priority, due, Some(terms))) = task else {
        return Ok(());
    };
    match free_slots(batch, n, &terms.limits)? {
        Ok(_) => Ok(()),
        Err(full) => hold(batch, full, Place::new(priority, due.map(time), n as u64)),
    }
}
