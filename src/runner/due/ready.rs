//! [`Ready`]: the tasks that could be claimed now, in the order of claims.
//!
//! Commanded tasks come first (they are quick). Then the order is: priority, the turn of the key ([`FairShare`]),
//! the turn of the kind, due time, submit order.
//!
//! Kinds take turns so that many tasks of one kind do not keep those of another waiting. A kind has a virtual time,
//! which passes that of the previous kind with each task that is taken out. The kind with the lowest time is next.
//! A kind that had no ready task joins at the present virtual time.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use super::{
    KindId,
    fair_share::{FairShare, KeyId, Moved, NO_KEY},
};
use crate::hash::HashMap;

/// The position of a task among those of its priority and key: due time, submit order, and the index of its
/// entry.
pub(super) type Place = (i64, u64, u32);

/// A ready task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) kind: KindId,
    pub(super) key: KeyId,
    pub(super) commanded: bool,
    pub(super) priority: i32,
    pub(super) place: Place,
}

impl Task {
    fn has_turns(&self) -> bool {
        !self.commanded && self.key != NO_KEY
    }

    fn rank(&self) -> Rank {
        (Reverse(self.commanded), Reverse(self.priority), self.place)
    }
}

type Rank = (Reverse<bool>, Reverse<i32>, Place);
/// The first task of a lane, with the time of the key.
type Head = (Reverse<i32>, u64, Place);

/// The ready tasks of a kind and a data version.
#[derive(Debug, Default)]
struct Queue {
    /// Tasks without a key, and tasks with a command.
    plain: BTreeSet<Rank>,
    /// The other tasks, by priority and key.
    lanes: HashMap<(i32, KeyId), BTreeSet<Place>>,
    heads: BTreeSet<Head>,
    /// The virtual time of the kind.
    time: u64,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.heads.is_empty()
    }

    /// Changes a lane of a key that has this time.
    fn change(&mut self, task: Task, time: u64, change: impl FnOnce(&mut BTreeSet<Place>, Place)) {
        let of = (task.priority, task.key);
        let lane = self.lanes.entry(of).or_default();
        let before = lane.first().copied();
        change(lane, task.place);
        let after = lane.first().copied();
        if lane.is_empty() {
            self.lanes.remove(&of);
        }
        if before == after {
            return;
        }
        let head = |place| (Reverse(task.priority), time, place);
        if let Some(before) = before {
            self.heads.remove(&head(before));
        }
        self.heads.extend(after.map(head));
    }

    /// Moves the first task of a key to the new time of the key.
    fn moved(&mut self, priority: i32, moved: Moved) {
        let lane = self.lanes.get(&(priority, moved.key));
        if let Some(&first) = lane.and_then(BTreeSet::first) {
            self.heads.remove(&(Reverse(priority), moved.from, first));
            self.heads.insert((Reverse(priority), moved.to, first));
        }
    }

    fn has_plain(&self, priority: i32) -> bool {
        let first: Rank = (Reverse(false), Reverse(priority), (i64::MIN, 0, 0));
        let next = self.plain.range(first..).next();
        next.is_some_and(|(_, of, _)| of.0 == priority)
    }

    /// Returns the first due time of the tasks without a command. Looks at one task of each priority and lane.
    fn first_due(&self) -> Option<i64> {
        let after = |priority| (Reverse(false), Reverse(priority), (i64::MIN, 0, 0));
        let mut first = self
            .lanes
            .values()
            .filter_map(BTreeSet::first)
            .min()
            .copied();
        let mut next = self.plain.range(after(i32::MAX)..).next();
        while let Some((_, Reverse(priority), place)) = next {
            first = first.into_iter().chain([*place]).min();
            let Some(lower) = priority.checked_sub(1) else {
                break;
            };
            next = self.plain.range(after(lower)..).next();
        }
        first.map(|(due, ..)| due)
    }

    fn len(&self) -> usize {
        self.plain.len() + self.lanes.values().map(BTreeSet::len).sum::<usize>()
    }
}

#[derive(Debug, Default)]
pub(super) struct Ready {
    queues: HashMap<KindId, Queue>,
    pub(super) fair_share: FairShare,
    /// The virtual time at which the last task was taken out.
    now: u64,
}

impl Ready {
    pub(super) fn insert(&mut self, task: Task) {
        let queue = self.queues.entry(task.kind).or_default();
        if queue.is_empty() {
            queue.time = queue.time.max(self.now);
        }
        if !task.has_turns() {
            queue.plain.insert(task.rank());
            return;
        }
        let time = self.fair_share.joins(task.priority, task.key);
        queue.change(task, time, |lane, place| {
            lane.insert(place);
        });
    }

    pub(super) fn remove(&mut self, task: Task) {
        let Some(queue) = self.queues.get_mut(&task.kind) else {
            return;
        };
        if !task.has_turns() {
            queue.plain.remove(&task.rank());
            return;
        }
        let time = self.fair_share.time(task.priority, task.key);
        queue.change(task, time, |lane, place| {
            lane.remove(&place);
        });
        self.fair_share.leaves(task.priority, task.key);
    }

    /// Drops a kind without tasks.
    pub(super) fn forget(&mut self, kind: KindId) {
        if let Some(queue) = self.queues.remove(&kind) {
            // Its next task does not go before those that wait now.
            self.now = self.now.max(queue.time);
        }
    }

    /// Returns the entry of the first task of a kind for which there is room, and gives its kind a turn. Calls
    /// `room` at most once for each kind, with whether the first such task was commanded.
    pub(super) fn next(&mut self, mut room: impl FnMut(KindId, bool) -> bool) -> Option<u32> {
        let mut best = None;
        for (kind, queue) in &self.queues {
            let plain = queue.plain.first().map(|&(commanded, priority, place)| {
                let times = match commanded.0 {
                    true => (0, 0),
                    false => (self.fair_share.plain(priority.0), queue.time),
                };
                (commanded, priority, times, place)
            });
            let head = queue.heads.first().map(|&(priority, time, place)| {
                let times = (time, queue.time);
                (Reverse(false), priority, times, place)
            });
            let Some(first) = plain.into_iter().chain(head).min() else {
                continue;
            };
            if best.is_none_or(|(best, _)| first < best) && room(*kind, first.0.0) {
                best = Some((first, *kind));
            }
        }
        let ((commanded, _, _, (_, _, at)), kind) = best?;
        if !commanded.0
            && let Some(queue) = self.queues.get_mut(&kind)
        {
            self.now = self.now.max(queue.time);
            queue.time = self.now + 1;
        }
        Some(at)
    }

    /// Records the claim of a task that is no longer among the ready ones, and that had no command.
    pub(super) fn claims(&mut self, priority: i32, key: Option<&Arc<str>>) {
        if self.fair_share.is_empty() && key.is_none() {
            return;
        }
        if !self.forget_if_idle(priority)
            && let Some(moved) = self.fair_share.claims(priority, key)
        {
            for queue in self.queues.values_mut() {
                queue.moved(priority, moved);
            }
        }
    }

    /// Drops the turns of a priority without ready tasks. Returns whether it did.
    pub(super) fn forget_if_idle(&mut self, priority: i32) -> bool {
        let is_any = self.fair_share.has_ready(priority)
            || self.queues.values().any(|queue| queue.has_plain(priority));
        if !is_any {
            self.fair_share.forget(priority);
        }
        !is_any
    }

    /// Returns the first due time of each kind that has ready tasks without a command.
    pub(super) fn first_due(&self) -> impl Iterator<Item = (KindId, i64)> {
        let queues = self.queues.iter();
        queues.filter_map(|(kind, queue)| Some((*kind, queue.first_due()?)))
    }

    pub(super) fn len(&self) -> usize {
        self.queues.values().map(Queue::len).sum()
    }

    /// Returns the number of known kinds.
    #[cfg(test)]
    pub(super) fn kinds(&self) -> usize {
        self.queues.len()
    }
}
