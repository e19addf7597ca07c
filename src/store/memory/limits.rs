//! The slots of limits that are taken, and the tasks that wait for one.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Bound, Command, Limit, StateKind, TaskId, TaskState};

use super::{
    row::{Row, Saved},
    world::World,
};
use crate::store::{
    LimitedBy, TaskView,
    rules::limits::{
        self, Pool, Room, Start, Taken, Used,
        lines::{Lines, PATIENCE, Place, When},
        reserve::{Reserver, with_kept},
    },
};

/// The limits of a namespace. Empty while no task has one.
#[derive(Default)]
pub(super) struct Limited {
    pub(super) slots: HashMap<Pool, Used>,
    /// The limit of the last start of each pool.
    pub(super) last: HashMap<Pool, Limit>,
    /// The starts of each pool, with the periods of their limits.
    starts: HashMap<Pool, HashMap<u32, Start>>,
    /// The slots that each claimed task holds until its claim ends.
    pub(super) held: HashMap<u64, Vec<(Pool, u32)>>,
    pub(super) lines: Lines,
    /// When the lines were last looked at for tasks that no node claims.
    looked: Option<Timestamp>,
}

/// Whether a claim finds its slots.
pub(super) enum Admission {
    /// It has taken one of each limit, or its task has no limit.
    Slots,
    /// It has none, and is made for the commands that wait.
    OverLimit,
    /// It is refused.
    Refused,
}

impl Limited {
    fn free(&self, limit: &Limit, now: Timestamp) -> limits::Free {
        limits::free(limit, used(&self.slots, &Pool::of(limit)), now)
    }

    fn take(&mut self, order: u64, of: &[Limit], slots: Vec<u32>, now: Timestamp) {
        for (limit, slot) in of.iter().zip(slots) {
            let pool = Pool::of(limit);
            let taken = match pool.starts {
                true => Taken::Began(now),
                false => Taken::Held,
            };
            let used = self.slots.entry(pool.clone()).or_default();
            used.insert(slot, taken);
            if taken == Taken::Held {
                self.held.entry(order).or_default().push((pool, slot));
            } else {
                self.keep_start(limit, slot, now);
                self.last.insert(pool, limit.clone());
            }
        }
    }

    /// Records the start of a claim, and moves the one that had the slot if it still counts for its own limit.
    fn keep_start(&mut self, limit: &Limit, slot: u32, now: Timestamp) {
        let Bound::Starts { within, .. } = limit.bound() else {
            return;
        };
        let pool = Pool::of(limit);
        let starts = self.starts.entry(pool.clone()).or_default();
        let kept = starts.get(&slot).filter(|kept| kept.counts(now)).copied();
        if let Some(kept) = kept {
            let others = starts.iter().map(|(slot, start)| (*slot, *start));
            let to = limits::beyond(limit, others, now);
            starts.insert(to, kept);
            let used = self.slots.entry(pool).or_default();
            used.insert(to, Taken::Began(kept.began));
        }
        let within = SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX);
        starts.insert(slot, Start { began: now, within });
    }

    /// Frees the slots that a claimed task holds, and returns their pools.
    fn free_slots_of(&mut self, order: u64) -> Vec<Pool> {
        let mut pools = Vec::new();
        for (pool, slot) in self.held.remove(&order).unwrap_or_default() {
            if let Some(used) = self.slots.get_mut(&pool) {
                used.remove(&slot);
                if used.is_empty() {
                    self.slots.remove(&pool);
                }
            }
            pools.push(pool);
        }
        pools
    }
}

/// Returns the slots of a pool that are in use or were once used.
fn used(slots: &HashMap<Pool, Used>, pool: &Pool) -> Vec<(u32, Taken)> {
    let used = slots.get(pool).into_iter().flatten();
    used.map(|(slot, taken)| (*slot, *taken)).collect()
}

/// Returns whether a command that needs no handler waits for a task. A signal needs the handler, so it waits
/// with a task that is held back.
fn has_order(row: &Row) -> bool {
    let waiting = row.waiting.iter().filter_map(|o| row.commands.get(o));
    waiting
        .into_iter()
        .any(|record| !matches!(record.command, Command::Signal(_)))
}

fn place_of(row: &Row, state: &TaskState) -> Place {
    Place::new(row.task.priority, state.due(), row.order)
}

impl World {
    /// Returns the task that slots are kept for.
    fn reserver(&self) -> Option<Reserver> {
        let order = self.limited.lines.reserver()?;
        let row = self
            .by_order
            .get(&order)
            .and_then(|id| self.tasks.get(id))?;
        let limits = row.task.limits.clone();
        Some(Reserver { order, limits })
    }

    /// Returns a slot of each limit of a task, or the first limit that is full.
    fn room<'a>(&self, order: u64, of: &'a [Limit], now: Timestamp) -> Result<Vec<u32>, &'a Limit> {
        let reserver = self.reserver().filter(|one| one.order != order);
        let rooms = of.iter().map(|limit| {
            let pool = Pool::of(limit);
            let used = with_kept(
                reserver.as_ref(),
                &pool,
                used(&self.limited.slots, &pool),
                now,
            );
            match limits::room(limit, used, now) {
                Room::Slot(slot) => Ok(slot),
                Room::Full { .. } => Err(limit),
            }
        });
        rooms.collect()
    }

    /// Takes the slots of a claim that is about to be made, or puts its task into the line of the first limit
    /// that is full.
    pub(super) fn admit(&mut self, id: &TaskId, state: &TaskState, now: Timestamp) -> Admission {
        let Some(row) = self.tasks.get(id) else {
            return Admission::Refused;
        };
        if row.task.limits.is_empty() {
            return Admission::Slots;
        }
        let (task, order) = (row.task.clone(), row.order);
        match self.room(order, &task.limits, now) {
            Ok(slots) => {
                self.limited.take(order, &task.limits, slots, now);
                self.leave_line(order);
                Admission::Slots
            }
            Err(_) if has_order(row) || crate::store::rules::claim::is_late(state, now) => {
                self.leave_line(order);
                Admission::OverLimit
            }
            Err(full) => {
                let (full, place) = (full.clone(), place_of(row, state));
                self.hold(id, &full, place);
                Admission::Refused
            }
        }
    }

    /// Puts a task into the line of a limit.
    fn hold(&mut self, id: &TaskId, limit: &Limit, place: Place) {
        let left = self.limited.lines.get(place.order);
        let left = left.map(|held| Pool::of(&held.limit));
        if self.limited.lines.join(limit, place) {
            self.touch(id);
        }
        let joined = Pool::of(limit);
        for pool in left
            .into_iter()
            .filter(|pool| *pool != joined)
            .collect::<Vec<_>>()
        {
            self.refill(&pool, When::changed(self.now));
        }
        self.refill(&joined, When::changed(self.now));
    }

    /// Takes a task out of its line, and reports the next one.
    pub(super) fn leave_line(&mut self, order: u64) {
        let reserver = self.reserver().filter(|one| one.order == order);
        if let Some(pool) = self.limited.lines.leave(order) {
            self.refill(&pool, When::changed(self.now));
            self.release_kept(reserver);
        }
    }

    /// Reports the tasks that may take the slots which were kept for this one.
    fn release_kept(&mut self, reserver: Option<Reserver>) {
        for limit in reserver.into_iter().flat_map(|one| one.limits) {
            self.refill(&Pool::of(&limit), When::changed(self.now));
        }
    }

    fn refill(&mut self, pool: &Pool, when: When) {
        let reserver = self.reserver();
        let Limited { lines, slots, .. } = &mut self.limited;
        let used = used(slots, pool);
        let kept = with_kept(reserver.as_ref(), pool, used.clone(), when.now);
        let changed = lines.refill(pool, when, |limit, for_reserver| {
            let used = if for_reserver { &used } else { &kept };
            limits::free(limit, used.iter().copied(), when.now)
        });
        self.touch_all(changed);
    }

    fn touch_all(&mut self, orders: Vec<u64>) {
        for order in orders {
            if let Some(id) = self.by_order.get(&order).cloned() {
                self.touch(&id);
            }
        }
    }

    /// Frees the slots of a claim that has ended. `over_limit` is whether it had none: its task is held back
    /// again if it could run.
    pub(super) fn claim_ended(&mut self, id: &TaskId, over_limit: bool) {
        let now = self.now;
        let Some(row) = self.tasks.get(id) else {
            return;
        };
        if row.task.limits.is_empty() {
            return;
        }
        let (task, order) = (row.task.clone(), row.order);
        let could_run = |state: &TaskState| state.code() == StateKind::Runnable;
        let place = match &row.saved {
            Saved::State(state) if over_limit && row.quarantine.is_none() && could_run(state) => {
                Some(place_of(row, state))
            }
            _ => None,
        };
        for pool in self.limited.free_slots_of(order) {
            self.refill(&pool, When::changed(now));
        }
        if let Some(place) = place
            && let Err(full) = self.room(order, &task.limits, now)
        {
            self.hold(id, full, place);
        }
    }

    /// Reports further tasks of lines whose reported tasks no node claims.
    pub(super) fn look_at_lines(&mut self, now: Timestamp) {
        // A look in the future comes from a clock that was ahead.
        let is_recent = |at: Timestamp| now.duration_since(at).abs() < PATIENCE / 5;
        if self.limited.lines.is_empty() || self.limited.looked.is_some_and(is_recent) {
            return;
        }
        self.limited.looked = Some(now);
        for order in self.limited.lines.give_up(now) {
            let row = self.by_order.get(&order).and_then(|id| self.tasks.get(id));
            let limits = row.map(|row| row.task.limits.clone());
            self.release_kept(limits.map(|limits| Reserver { order, limits }));
        }
        for pool in self.limited.lines.stuck(now) {
            self.refill(&pool, When::stuck(now));
        }
    }

    /// Returns the limit that holds a task back.
    pub(super) fn limited_by(&self, row: &Row) -> Option<LimitedBy> {
        let held = self.limited.lines.get(row.order)?;
        Some(LimitedBy {
            limit: held.limit.clone(),
            until: self.limited.free(&held.limit, self.now).until,
        })
    }

    /// Makes the view of a task that is held back the one that nodes see.
    pub(super) fn limit_view(&self, row: &Row, view: &mut TaskView) {
        if let Some(held) = self.limited.lines.get(row.order) {
            held.report().apply(view, || has_order(row));
        }
    }
}
