//! How claims use the slots of limits.

use jiff::Timestamp;
use windlass_statemachine::{Command, Limit, StateKind, TaskId, TaskState};

use super::{
    limited::{Limited, used},
    row::{Row, Saved},
    world::World,
};
use crate::store::{
    LimitedBy, TaskView,
    rules::limits::{
        self, NextSlot, Pool,
        lines::{PATIENCE, Place, When},
        reserve::{Reserver, with_kept},
    },
};

/// Whether a claim gets its slots.
pub(super) enum Admission {
    /// The claim has taken a slot of each limit, or its task has no limit.
    Slots,
    /// The claim has no slots, and is made only for the queued commands.
    OverLimit,
    /// The claim is refused.
    Refused,
}

/// Returns whether a command that needs no handler is queued for a task. A signal needs the handler, so it
/// waits with a task that is held back.
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
    /// Returns the task for which slots are kept.
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
    fn free_slots<'a>(
        &self,
        order: u64,
        of: &'a [Limit],
        now: Timestamp,
    ) -> Result<Vec<u32>, &'a Limit> {
        let reserver = self.reserver().filter(|one| one.order != order);
        let slots = of.iter().map(|limit| {
            let pool = Pool::of(limit);
            let used = with_kept(
                reserver.as_ref(),
                &pool,
                used(&self.limited.slots, &pool),
                now,
            );
            match limits::next_slot(limit, used, now) {
                NextSlot::Free(slot) => Ok(slot),
                NextSlot::Full { .. } => Err(limit),
            }
        });
        slots.collect()
    }

    /// Takes the slots for a claim, or puts the task into the line of the first limit that is full.
    pub(super) fn admit(&mut self, id: &TaskId, state: &TaskState, now: Timestamp) -> Admission {
        let Some(row) = self.tasks.get(id) else {
            return Admission::Refused;
        };
        if row.task.limits.is_empty() {
            return Admission::Slots;
        }
        let (task, order) = (row.task.clone(), row.order);
        match self.free_slots(order, &task.limits, now) {
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

    /// Removes a task from its line, and reports the next one.
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

    /// Frees the slots of a claim that has ended. `over_limit`: the claim had none, so that a task that
    /// could run is held back again.
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
            && let Err(full) = self.free_slots(order, &task.limits, now)
        {
            self.hold(id, full, place);
        }
    }

    /// Reports further tasks of lines whose reported tasks no node claims.
    pub(super) fn look_at_lines(&mut self, now: Timestamp) {
        // An examination in the future comes from a clock that was ahead.
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
            until: self.limited.free(&held.limit, self.now).until,
            ..LimitedBy::new(held.limit.clone())
        })
    }

    /// Changes the view of a task that is held back into the one that nodes see.
    pub(super) fn limit_view(&self, row: &Row, view: &mut TaskView) {
        if let Some(held) = self.limited.lines.get(row.order) {
            held.report().apply(view, || has_order(row));
        }
    }
}
