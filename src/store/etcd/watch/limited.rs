//! [`Limited`]: the tasks with limits, and the slots that claims have taken.
//!
//! The keys of owners list the slots of their claims, so a watch knows each slot that is taken, even by tasks
//! of kinds that the node does not list. A task that could be claimed joins the line of a limit, and is
//! reported when the line has a slot for it. Every node keeps the same lines, and ranks itself for the reported
//! tasks as for all others.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_statemachine::{Limit, TaskId};

use crate::store::{
    etcd::{
        node::Refused,
        schema::{Slot, SlotRecord},
    },
    rules::limits::{
        Pool, Taken, fair_key, free,
        lines::{Place, Report, When},
        lines_in_memory::Lines,
        reserve::{Reserver, with_kept},
    },
};

/// How long the line of a refused claim waits before it reports a task again, if no slot changes in
/// the meantime.
const AFTER_REFUSAL: Duration = Duration::from_millis(20);
/// How often lines are examined whose reported tasks no node claims.
const TURN: Duration = Duration::from_secs(1);
/// After how many new slots of limits on starts those whose period may be over are dropped, in addition to
/// the number kept.
const PRUNE_EVERY: usize = 1000;

/// A task with limits.
#[derive(Debug)]
struct LimitedTask {
    order: u64,
    limits: Vec<Limit>,
    /// Its position in a line, while it could be claimed.
    place: Option<Place>,
}

/// A slot that is taken.
#[derive(Debug, Clone)]
struct HeldSlot {
    taken: Taken,
    /// The claim.
    by: TaskId,
    /// The slot; for a limit on starts, with the time at which it is free again for the limit that
    /// took it.
    slot: Slot,
}

#[derive(Default)]
pub(super) struct Limited {
    tasks: HashMap<TaskId, LimitedTask>,
    ids: HashMap<u64, TaskId>,
    lines: Lines,
    held: HeldSlots,
    /// The slots of each claim.
    claims: HashMap<TaskId, Vec<Slot>>,
    /// The pools in which a slot may be free, or whose line has changed.
    changed: HashSet<Pool>,
    /// The same, from a later time on.
    later: Vec<(Instant, Pool)>,
    turn: Option<Instant>,
    /// Refused claims that know of slots which the watch has not delivered yet.
    refused: Vec<Refused>,
    taken_since: usize,
}

type HeldSlots = HashMap<Pool, BTreeMap<u32, HeldSlot>>;

fn used(held: &HeldSlots, pool: &Pool) -> Vec<(u32, Taken)> {
    let of_pool = held.get(pool).into_iter().flatten();
    of_pool.map(|(slot, held)| (*slot, held.taken)).collect()
}

impl Limited {
    /// Records a task of this order with its limits; most have none.
    pub(super) fn put(&mut self, id: &TaskId, order: u64, limits: Vec<Limit>) {
        let same = |limited: &LimitedTask| limited.order == order && limited.limits == limits;
        if self.tasks.is_empty() && limits.is_empty() || self.tasks.get(id).is_some_and(same) {
            return;
        }
        self.remove(id);
        if !limits.is_empty() {
            let limited = LimitedTask {
                order,
                limits,
                place: None,
            };
            self.tasks.insert(id.clone(), limited);
            self.ids.insert(order, id.clone());
        }
    }

    pub(super) fn remove(&mut self, id: &TaskId) {
        if let Some(limited) = self.tasks.get(id) {
            let order = limited.order;
            self.leave(order);
            self.tasks.remove(id);
            self.ids.remove(&order);
        }
    }

    /// Removes a task from its line. The slots that were kept for it become free for others.
    fn leave(&mut self, order: u64) {
        let reserver = self.reserver().filter(|one| one.order == order);
        self.changed.extend(self.lines.leave(order));
        let limits = reserver.into_iter().flat_map(|one| one.limits);
        self.changed.extend(limits.map(|limit| Pool::of(&limit)));
    }

    /// Returns the task for which slots are kept.
    pub(super) fn reserver(&self) -> Option<Reserver> {
        let order = self.lines.reserver()?;
        let limited = self.ids.get(&order).and_then(|id| self.tasks.get(id))?;
        let limits = limited.limits.clone();
        Some(Reserver { order, limits })
    }

    pub(super) fn has(&self, id: &TaskId) -> bool {
        self.tasks.contains_key(id)
    }

    /// Returns [`TaskView::fair_key`](crate::store::TaskView::fair_key) of a task.
    pub(super) fn fair_key(&self, id: &TaskId) -> Option<Arc<str>> {
        fair_key(&self.tasks.get(id)?.limits)
    }

    /// Returns the tasks with limits, and their orders.
    pub(super) fn all(&self) -> Vec<(TaskId, u64)> {
        let all = self.tasks.iter();
        all.map(|(id, limited)| (id.clone(), limited.order))
            .collect()
    }

    /// Records that a task is claimed, and the slots that the claim has taken.
    pub(super) fn claimed(&mut self, id: &TaskId, slots: Vec<Slot>, wall: Timestamp) {
        self.released(id);
        for slot in &slots {
            let replaces = |held: &HeldSlot| match (slot.start, held.slot.start) {
                (Some(start), Some(other)) => start.replaces(&other, wall),
                _ => true,
            };
            let held = self.held.get(&slot.pool());
            let held = held.and_then(|of_pool| of_pool.get(&slot.slot));
            if held.is_none_or(replaces) {
                self.take(id, slot);
            }
        }
        if !slots.is_empty() {
            self.claims.insert(id.clone(), slots);
        }
    }

    /// Records a slot of a limit on starts that a claim took before the watch began.
    pub(super) fn listed(&mut self, (pool, slot): (Pool, u32), record: &SlotRecord) {
        if pool.within.is_some() && record.start.is_some() {
            let slot = Slot {
                key: pool.key,
                slot,
                start: record.start,
            };
            self.take(&record.task, &slot);
        }
    }

    fn take(&mut self, id: &TaskId, slot: &Slot) {
        let pool = slot.pool();
        let held = HeldSlot {
            taken: slot.taken(),
            by: id.clone(),
            slot: slot.clone(),
        };
        let of_pool = self.held.entry(pool.clone()).or_default();
        of_pool.insert(slot.slot, held);
        self.taken_since += 1;
        self.changed.insert(pool);
    }

    /// Records that a claim has ended: its slots of limits on tasks at once are free.
    pub(super) fn released(&mut self, id: &TaskId) {
        for slot in self.claims.remove(id).unwrap_or_default() {
            if slot.start.is_some() {
                continue;
            }
            let pool = slot.pool();
            if let Some(of_pool) = self.held.get_mut(&pool)
                && of_pool.get(&slot.slot).is_some_and(|held| held.by == *id)
            {
                of_pool.remove(&slot.slot);
                if of_pool.is_empty() {
                    self.held.remove(&pool);
                }
            }
            self.changed.insert(pool);
        }
    }

    /// Records whether a task could be claimed, and its position in a line if it could.
    pub(super) fn ready(&mut self, id: &TaskId, place: Option<Place>, wall: Timestamp) {
        let Some(limited) = self
            .tasks
            .get_mut(id)
            .filter(|limited| limited.place != place)
        else {
            return;
        };
        limited.place = place;
        let (order, limits) = (limited.order, limited.limits.clone());
        self.leave(order);
        if let Some(place) = place {
            let is_full = |limit: &&Limit| {
                let used = used(&self.held, &Pool::of(limit));
                free(limit, used, wall).slots == 0
            };
            let first = limits.iter().find(is_full).or(limits.first());
            if let Some(limit) = first {
                self.lines.join(limit, place);
                self.changed.insert(Pool::of(limit));
            }
        }
    }

    /// Returns how nodes see a task that could be claimed; `None` for any other.
    pub(super) fn report(&self, id: &TaskId) -> Option<Report> {
        let limited = self.tasks.get(id)?;
        Some(self.lines.get(limited.order)?.report())
    }

    pub(super) fn refused(&mut self, refused: Refused) {
        if self.tasks.contains_key(&refused.task) {
            // The last claim knows the newest state, even when the watch has not caught up with an earlier one.
            self.refused.retain(|earlier| earlier.task != refused.task);
            self.refused.push(refused);
        }
    }

    /// Applies the refused claims whose slots have arrived: every key of a task up to this revision has.
    /// Returns the tasks to report again.
    pub(super) fn take_refused(&mut self, seen: i64, now: Instant) -> Vec<(TaskId, u64)> {
        if self.refused.is_empty() {
            return Vec::new();
        }
        let knows_more = |refused: &Refused| {
            let full = refused.full.as_ref();
            full.is_some_and(|full| full.revision > seen)
        };
        let (later, due) = std::mem::take(&mut self.refused)
            .into_iter()
            .partition(knows_more);
        self.refused = later;
        let due: Vec<Refused> = due;
        let mut again = Vec::with_capacity(due.len());
        for Refused { task, full } in due {
            let Some(limited) = self.tasks.get(&task) else {
                continue;
            };
            let limit = full
                .map(|full| full.limit)
                .or(limited.limits.first().cloned());
            if let (Some(limit), Some(place)) = (limit, limited.place) {
                let left = self
                    .lines
                    .get(limited.order)
                    .map(|held| Pool::of(&held.limit));
                let joined = Pool::of(&limit);
                self.lines.join(&limit, place);
                self.changed.extend(left.filter(|left| *left != joined));
                self.later.push((now + AFTER_REFUSAL, joined));
            }
            again.push((task, limited.order));
        }
        again
    }

    /// Reports the next tasks of the lines. Returns the tasks that nodes now see differently.
    pub(super) fn settle(&mut self, now: Instant, wall: Timestamp) -> Vec<(TaskId, u64)> {
        let mut seen = HashSet::new();
        let later = std::mem::take(&mut self.later).into_iter();
        let (due, later) = later.partition(|(at, _)| *at <= now);
        self.later = later;
        let due: Vec<(Instant, Pool)> = due;
        self.changed.extend(due.into_iter().map(|(_, pool)| pool));
        for pool in std::mem::take(&mut self.changed) {
            seen.extend(self.refill(&pool, When::changed(wall)));
        }
        if self.turn.is_some_and(|turn| turn <= now) {
            for pool in self.unclaimed(wall) {
                seen.extend(self.refill(&pool, When::changed(wall)));
            }
            for pool in self.lines.stuck(wall) {
                seen.extend(self.refill(&pool, When::stuck(wall)));
            }
            self.turn = None;
        }
        self.turn = match self.lines.is_empty() {
            true => None,
            false => self.turn.or(Some(now + TURN)),
        };
        self.prune(wall);
        let ids = seen.into_iter();
        ids.filter_map(|order| Some((self.ids.get(&order)?.clone(), order)))
            .collect()
    }

    fn refill(&mut self, pool: &Pool, when: When) -> Vec<u64> {
        let used = used(&self.held, pool);
        let kept = with_kept(self.reserver().as_ref(), pool, used.clone(), when.now);
        self.lines.refill(pool, when, |limit, for_reserver| {
            let used = if for_reserver { &used } else { &kept };
            free(limit, used.iter().copied(), when.now)
        })
    }

    /// Ends the reservations of tasks that no node claims. Returns the pools of their limits.
    fn unclaimed(&mut self, wall: Timestamp) -> HashSet<Pool> {
        let over = self.lines.give_up(wall);
        let ids = over.iter().filter_map(|order| self.ids.get(order));
        let tasks = ids.filter_map(|id| self.tasks.get(id));
        tasks
            .flat_map(|limited| limited.limits.iter().map(Pool::of))
            .collect()
    }

    /// Drops slots of limits on starts that are free again, from time to time.
    fn prune(&mut self, wall: Timestamp) {
        if self.taken_since < PRUNE_EVERY.max(self.held.len()) {
            return;
        }
        self.taken_since = 0;
        self.held.retain(|_, of_pool| {
            let is_over =
                |held: &HeldSlot| held.slot.start.is_some_and(|start| start.is_over(wall));
            of_pool.retain(|_, held| !is_over(held));
            !of_pool.is_empty()
        });
    }

    /// Returns when [`settle`](Self::settle) reports tasks even without a new key.
    pub(super) fn next(&self) -> Option<Instant> {
        let later = self.later.iter().map(|(at, _)| *at);
        later.chain(self.turn).min()
    }
}
