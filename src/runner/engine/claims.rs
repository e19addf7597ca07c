//! Claiming: which tasks, how many at a time, and what the answers mean.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, error, info, warn};
use windlass_statemachine::{
    Kind, Machine, TaskId, TaskState,
    machine::{Input, StopReason, Write},
};

use super::{
    CLAIM_BATCH, CLAIMS_IN_FLIGHT, COMMANDED_EXTRA, Engine, Heard, In, Mode, PendingClaim, SlotId,
    Unlisted, slot::Slot,
};
use crate::{
    balancer::{self, Cluster, Requirements},
    store::{Claim, Claimed, Commit, Error, TaskView},
};

/// How long a task is left to each node that ranks before this one, and to all of them at the most.
const STEP: Duration = Duration::from_millis(50);
const LONGEST_STEP: Duration = Duration::from_secs(2);
/// Nothing is left to others for so long.
const LONGEST_KEPT: Duration = Duration::from_secs(10);
/// How long a claim is not looked at again that was given back since it was not for this node.
const LEFT_ALONE: Duration = Duration::from_secs(30);
/// When a task that the balancer did not take is looked at again, about.
const NOT_TAKEN: Duration = Duration::from_secs(1);
/// How many tasks that were given back are remembered before those of the past are forgotten.
pub(super) const IGNORED_AT_LEAST: usize = 1024;
/// How many tasks that were left to others are remembered before those of the past are forgotten.
pub(super) const WAITED_AT_LEAST: usize = 100_000;

impl Engine {
    fn kind_limit(&self, kind: &Kind) -> u32 {
        let entry = self.parts.kinds.get(kind).or(self.parts.default.as_ref());
        entry.and_then(|e| e.config.slots).unwrap_or(u32::MAX)
    }

    fn active_of(&self, kind: &Kind) -> u32 {
        self.active_by_kind.get(kind).copied().unwrap_or(0)
    }

    fn has_room(&self, kind: &Kind) -> bool {
        self.active < self.parts.config.slots && self.active_of(kind) < self.kind_limit(kind)
    }

    /// Whether an idle slot may become active.
    pub(super) fn has_room_for(&self, id: SlotId) -> bool {
        self.slots
            .get(&id)
            .is_some_and(|slot| self.has_room(&slot.task.kind))
    }

    /// Whether a slot that counts already is one too many.
    pub(super) fn over_limit(&self, id: SlotId) -> bool {
        let Some(slot) = self.slots.get(&id) else {
            return false;
        };
        let kind = &slot.task.kind;
        let own = u32::from(!slot.active);
        self.active + own > self.parts.config.slots
            || self.active_of(kind) + own > self.kind_limit(kind)
    }

    pub(super) fn take_room(&mut self, kind: &Kind) {
        self.active += 1;
        *self.active_by_kind.entry(kind.clone()).or_default() += 1;
    }

    pub(super) fn release_room(&mut self, kind: &Kind) {
        self.active = self.active.saturating_sub(1);
        if let Some(of_kind) = self.active_by_kind.get_mut(kind) {
            *of_kind = of_kind.saturating_sub(1);
            if *of_kind == 0 {
                self.active_by_kind.remove(kind);
            }
        }
    }

    /// Claims what is due and what there is room for.
    pub(super) fn claim_pass(&mut self) {
        let now = self.moment();
        self.due.advance(now);
        if self.ignored.len() >= self.forget_ignored_at {
            self.ignored.retain(|_, (_, until)| *until > now.at);
            // Looked through again when as many have come, and not for each.
            self.forget_ignored_at = (self.ignored.len() * 2).max(IGNORED_AT_LEAST);
        }
        if self.mode != Mode::Normal || !self.listed {
            return;
        }
        let Some(lease) = self.lease.clone() else {
            return;
        };
        while self.claims_since.len() < CLAIMS_IN_FLIGHT {
            let mut views: Vec<TaskView> = Vec::new();
            while views.len() < CLAIM_BATCH {
                let (slots, active, by_kind) =
                    (self.parts.config.slots, self.active, &self.active_by_kind);
                let (kinds, default) = (&self.parts.kinds, self.parts.default.as_ref());
                let faults = &self.node_faults;
                let taken = self.due.take(|kind, commanded| {
                    let entry = kinds.get(kind).or(default);
                    let limit = entry.and_then(|e| e.config.slots).unwrap_or(u32::MAX);
                    let of_kind = by_kind.get(kind).copied().unwrap_or(0);
                    (active < slots && of_kind < limit && faults.may_claim(kind, now.at))
                        || (commanded && active < slots.saturating_add(COMMANDED_EXTRA))
                });
                let Some(view) = taken else { break };
                if let Some(until) = self.left_to_others(&view, now.at) {
                    self.due.put_off(view, until, now);
                    continue;
                }
                self.take_room(&view.kind);
                self.node_faults.claims(&view.kind, now.at);
                let claim = PendingClaim {
                    kind: Some(view.kind.clone()),
                    ..PendingClaim::default()
                };
                self.pending.insert(view.id.clone(), claim);
                views.push(view);
            }
            if views.is_empty() {
                return;
            }
            let number = self.next_claim;
            self.next_claim += 1;
            self.claims_since.insert(number, Instant::now());
            let coordinator = self.parts.coordinator.clone();
            let tx = self.parts.tx.clone();
            let lease = lease.clone();
            tokio::spawn(async move {
                let ids = views.iter().map(|v| v.id.clone()).collect();
                let answers = coordinator.claim(&lease, ids).await;
                let answers = views.into_iter().zip(answers).collect();
                let _ = tx.send(In::Claimed(lease.id, number, answers));
            });
        }
    }

    /// Until when this task is left to other nodes, if it is: to those that rank before this one,
    /// a moment each, and for a while when the balancer does not take it.
    fn left_to_others(&mut self, view: &TaskView, now: Instant) -> Option<Instant> {
        self.me.claims = u64::from(self.active);
        let cluster = Cluster {
            me: &self.me,
            others: &self.others,
        };
        if !self.parts.balancer.takes(&cluster, view) {
            self.waited.remove(&view.id);
            return Some(now + NOT_TAKEN.mul_f64(0.5 + fastrand::f64()));
        }
        if self.others.is_empty() {
            self.waited.remove(&view.id);
            return None;
        }
        let before = balancer::rank(&cluster, &view.id, view.into());
        if before == 0 {
            self.waited.remove(&view.id);
            return None;
        }
        let since = self.waited.get(&view.id).copied().unwrap_or(now);
        // While the store is slow the others are too: trying what they are at makes it slower. So
        // what has waited is looked at anew, with what a claim takes by now.
        let step = STEP.max(self.claim_takes() * 2);
        let wait = (step * before as u32).min(LONGEST_STEP);
        let until = since + wait;
        if until <= now {
            self.waited.remove(&view.id);
            return None;
        }
        self.waited.insert(view.id.clone(), since);
        if self.waited.len() >= self.forget_waited_at {
            self.waited
                .retain(|_, since| now.duration_since(*since) < LONGEST_KEPT);
            self.forget_waited_at = (self.waited.len() * 2).max(WAITED_AT_LEAST);
        }
        Some(until)
    }

    /// How long a claim takes at present, about: as the last ones took, or as one that is under way
    /// has taken already.
    fn claim_takes(&self) -> Duration {
        let under_way = self.claims_since.values().min();
        let so_far = under_way.map_or(Duration::ZERO, Instant::elapsed);
        self.claim_takes.max(so_far)
    }

    pub(super) fn claimed(
        &mut self,
        lease: u64,
        number: u64,
        answers: Vec<(TaskView, Result<Option<Claimed>, Error>)>,
    ) {
        if let Some(since) = self.claims_since.remove(&number) {
            self.claim_takes = (self.claim_takes * 3 + since.elapsed()) / 4;
        }
        let current = self.lease.as_ref().is_some_and(|l| l.id == lease);
        for (view, answer) in answers {
            let mut pending = self.pending.remove(&view.id).unwrap_or_default();
            if let Some(kind) = &pending.kind {
                self.release_room(kind);
            }
            if !current {
                // The lease is lost, and every claim on it.
                self.pending_heard(&view.id, pending.latest);
                continue;
            }
            if !matches!(answer, Ok(Some(_))) {
                self.not_here(std::mem::take(&mut pending.stop_orders));
            }
            match answer {
                Ok(Some(claimed)) => self.begin(claimed, pending),
                Ok(None) if view.sleeping && !view.commanded && pending.latest.is_none() => {
                    self.still_sleeping(view);
                }
                // Somebody else has it, or it can be claimed no more.
                Ok(None) => self.pending_heard(&view.id, pending.latest),
                Err(Error::Unavailable { reason, .. }) => {
                    warn!(task = %view.id, %reason, "could not be claimed; trying again");
                    self.later(view, pending);
                }
                Err(Error::Corrupt { reason, .. }) => {
                    error!(task = %view.id, kind = %view.kind, %reason,
                        "its record cannot be read: it was set aside (list with --quarantined; retry reads it again)");
                    self.pending_heard(&view.id, pending.latest);
                }
                Err(Error::Fenced(_)) => {
                    debug!(task = %view.id, "not claimed: the lease is gone");
                }
                Err(error @ Error::StoreGone(_)) => self.store_gone(error),
                Err(e) => {
                    error!(task = %view.id, error = %e, "could not be claimed; trying again");
                    self.later(view, pending);
                }
            }
        }
    }

    /// Keeps a sleeping task that was due and could not be claimed. Mostly another node has it,
    /// which the watch reports. But if the clock was set back since, the task sleeps on, and no event
    /// follows.
    fn still_sleeping(&mut self, view: TaskView) {
        let now = self.moment();
        if view.due.is_some_and(|due| due > now.clock) {
            self.due.upsert(view, now);
        } else {
            self.put_back(view);
        }
    }

    /// Puts a task that could not be claimed back, for a moment later.
    fn later(&mut self, view: TaskView, pending: PendingClaim) {
        match pending.latest {
            None => self.put_back(view),
            latest => self.pending_heard(&view.id, latest),
        }
    }

    /// What was heard of a task while its claim was under way counts when that came to nothing.
    /// That this node has the task means then that it was claimed and the answer is lost.
    fn pending_heard(&mut self, task: &TaskId, latest: Option<Heard>) {
        match latest {
            Some(Heard::View(view)) if self.is_own(&view) => {
                let anew = self.to_claim_anew(view);
                self.put_back(anew);
            }
            Some(Heard::View(view)) if view.claimed_by.is_none() => self.view(view),
            Some(Heard::Gone { .. }) => {
                self.ignored.remove(task);
            }
            Some(Heard::View(_)) | None => {}
        }
    }

    /// Lets a task wait for a moment before it is claimed. The watch may report it again before, if
    /// anything about it changes.
    fn put_back(&mut self, view: TaskView) {
        let now = self.moment();
        let wait = Duration::from_millis(200 + fastrand::u64(0..800));
        self.due.put_off(view, now.at + wait, now);
    }

    /// Gives a claim back that no handler here is for: no store compares kinds, labels or data versions
    /// when it claims, and a task may have been deleted and submitted again as another one, or have data
    /// of a newer version since.
    fn give_back(&mut self, claim: Claim, order: u64, mut state: TaskState) {
        // The watch may yet tell of this claim; it is none whose answer was lost.
        let until = Instant::now() + LEFT_ALONE;
        self.ignored.insert(claim.task.clone(), (order, until));
        state.version = state.version.saturating_add(1);
        let write = Write::giving_back(state);
        let nobody = self.next_slot;
        self.next_slot += 1;
        self.batch.push((nobody, Commit { claim, write }));
    }

    fn begin(&mut self, claimed: Claimed, mut pending: PendingClaim) {
        let Claimed {
            claim,
            task,
            order,
            state,
            commands,
            abandoned,
        } = claimed;
        if let Some(latest) = &pending.latest {
            if latest.ends(order, claim.fence) {
                info!(task = %task.id, order, fence = claim.fence.0,
                    "claimed, but it was deleted meanwhile: it is not started");
                self.not_here(pending.stop_orders);
                return self.pending_heard(&task.id, pending.latest);
            }
            if latest.is_before(order, claim.fence) {
                pending.latest = None;
            }
        }
        let entry = self
            .parts
            .kinds
            .get(&task.kind)
            .or(self.parts.default.as_ref());
        let kind = match entry {
            Some(kind) if self.me.fits(Requirements::new(&task, &state)) => kind.clone(),
            _ => {
                info!(task = %task.id, kind = %task.kind, fence = claim.fence.0,
                    "claimed, but it is not for this node any more: gives it back");
                self.give_back(claim, order, state);
                self.not_here(pending.stop_orders);
                return self.heard(&task.id, order, pending.latest);
            }
        };
        let limits = self.parts.coordinator.limits();
        let park_after = self.parts.config.park_after;
        let config = kind.config.machine(&task, limits, park_after);
        debug!(task = %task.id, kind = %task.kind, node = %self.parts.node,
            fence = claim.fence.0, abandoned, "claimed");
        let is_told_to_stop = !pending.stop_orders.is_empty();
        let id = self.next_slot;
        self.next_slot += 1;
        self.by_task.insert(task.id.clone(), id);
        self.take_room(&task.kind);
        let slot = Slot {
            machine: Machine::new(config, state, abandoned),
            claim,
            task,
            order,
            kind,
            run: None,
            active: true,
            timers: Default::default(),
            next_ticket: 0,
            asks: std::collections::VecDeque::new(),
            latest: pending.latest,
            failed: None,
            stop_orders: pending.stop_orders,
            claimed_at: self.now(),
            claimed: Instant::now(),
        };
        self.slots.insert(id, slot);
        let heard = pending.commands.into_iter();
        let heard = heard.filter_map(|(of, command)| (of == order).then_some(command));
        for command in commands.into_iter().chain(heard) {
            self.feed(id, Input::Command(command));
        }
        // Not named by a list that has ended: the task was deleted, or has come back since.
        let is_missing = pending.unlisted && self.listed;
        if pending.unlisted && !self.listed {
            self.unlisted.insert(id, Unlisted::Meanwhile);
        }
        let stop = match self.mode {
            Mode::Stopping => Some(StopReason::Shutdown),
            Mode::Draining => Some(StopReason::Drain),
            Mode::Normal | Mode::Frozen if is_told_to_stop => Some(StopReason::StopTask),
            Mode::Normal | Mode::Frozen if is_missing => Some(StopReason::Balance),
            Mode::Normal | Mode::Frozen => None,
        };
        if let Some(reason) = stop {
            self.feed(id, Input::Stop(reason));
        }
        self.feed(id, Input::Begin);
    }
}
