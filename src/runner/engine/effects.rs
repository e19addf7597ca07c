//! Feeds the machines, and carries out their effects.

use std::{mem, time::Duration};

use tokio::time::Instant;
use tracing::{debug, warn};
use windlass_statemachine::{
    StateKind, TaskId, TaskStatus,
    machine::{Effect, End, Env, Input, StopReason, Timer, Write},
};

use super::{Engine, failures, reported::Reported, slot::Slot, timers::Wait};
use crate::{
    handler::Ask,
    runner::{input::SlotId, store_answers},
    store::{Commit, Error},
    telemetry::Moved,
};

impl Engine {
    pub(super) fn env(&self) -> Env {
        Env {
            now: self.now(),
            elapsed: self.timers.elapsed(Instant::now()),
            jitter: fastrand::f64(),
        }
    }

    /// Feeds one input to one machine, and carries out the returned effects.
    pub(super) fn feed(&mut self, id: SlotId, input: Input) {
        let env = self.env();
        let mut effects = mem::take(&mut self.effects);
        if let Some(slot) = self.slots.get_mut(id) {
            slot.machine.input(input, env, &mut effects);
        }
        // Carrying out an effect may feed the machine again (a start without room, say): further
        // effects are appended, and carried out in turn.
        let mut at = 0;
        while at < effects.len() {
            let effect = mem::replace(&mut effects[at], Effect::Disarm(Timer::Wake));
            at += 1;
            if let Effect::Start { .. } = effect {
                // A handler may end at once, on another thread, so it gets the queued signals at its
                // start.
                let signals = effects.extract_if(at.., |e| matches!(e, Effect::Signal(_)));
                self.waiting
                    .extend(signals.filter_map(|effect| match effect {
                        Effect::Signal(signal) => Some(signal),
                        _ => None,
                    }));
            }
            if let Some(more) = self.carry_out(id, effect)
                && let Some(slot) = self.slots.get_mut(id)
            {
                for input in more {
                    slot.machine.input(input, env, &mut effects);
                }
            }
        }
        effects.clear();
        self.effects = effects;
        self.update_active(id);
    }

    fn carry_out(&mut self, id: SlotId, effect: Effect) -> Option<[Input; 2]> {
        match effect {
            Effect::Start { attempt, .. } => {
                if self.is_over_limit(id) {
                    // The task was claimed for a command, beyond the limits, and could run now: it
                    // waits until there is room.
                    self.waiting.clear();
                    return Some([Input::Stop(StopReason::Balance), Input::Aborted]);
                }
                self.start(id, attempt);
            }
            Effect::Signal(signal) => self.signal(id, signal),
            Effect::Abort => self.abort(id),
            Effect::Persist(write) => self.persist(id, *write),
            Effect::CheckpointDone { ticket, result } => {
                if let Some(slot) = self.slots.get_mut(id) {
                    slot.asks.answer(ticket, result);
                }
            }
            Effect::ArmWake(at) => {
                if let Some(slot) = self.slots.get_mut(id) {
                    self.timers.wake_at(id, &mut slot.timers, at);
                }
            }
            Effect::ArmResume { at, runs } => {
                self.report_idle_runs(id, runs);
                if let Some(at) = self.timers.moment(at) {
                    self.wait_until(id, Wait::Resume, at);
                }
            }
            Effect::ArmGrace(elapsed) => {
                // A grace beyond the range of the clock never ends.
                if let Some(at) = self.timers.moment(elapsed) {
                    self.wait_until(id, Wait::Grace, at);
                }
            }
            Effect::Disarm(Timer::Wake) => {
                if let Some(slot) = self.slots.get_mut(id) {
                    self.timers.no_wake(id, &mut slot.timers);
                }
                self.no_wait(id, Wait::Resume);
            }
            Effect::Disarm(Timer::Grace) => self.no_wait(id, Wait::Grace),
            Effect::Done(end) => self.done(id, end),
        }
        None
    }

    /// Returns whether an idle slot may become active.
    pub(super) fn has_room_for(&self, id: SlotId) -> bool {
        let slot = self.slots.get(id);
        slot.is_some_and(|slot| self.capacity.has_room(&slot.task.kind))
    }

    /// Returns whether a slot exceeds the limits, so that it may not run.
    fn is_over_limit(&self, id: SlotId) -> bool {
        let slot = self.slots.get(id);
        slot.is_some_and(|slot| {
            let more = u32::from(!slot.active);
            slot.over_limit || self.capacity.exceeds(&slot.task.kind, more)
        })
    }

    pub(super) fn ask(&mut self, id: SlotId, ask: Ask) {
        let Some(slot) = self.slots.get_mut(id) else {
            let _ = ask
                .answer
                .send(Err("the claim on this task is gone".to_owned()));
            return;
        };
        let ticket = slot.asks.add(ask.answer);
        if let Some(progress) = slot.take_progress() {
            self.feed(id, Input::Progress(progress));
        }
        self.feed(id, ask.what.input(ticket));
    }

    fn persist(&mut self, id: SlotId, write: Write) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        slot.failed = failures::of_write(&write);
        if let Some(returning) = slot.returning.as_mut().filter(|_| slot.run.is_none()) {
            returning.writes(write.state.code());
        }
        slot.moved = Moved::to(write.steps.iter().map(|step| step.to));
        for step in &write.steps {
            debug!(task = %slot.task.id, kind = %slot.task.kind, fence = slot.claim.fence.0,
                by = %step.message, from = %step.from, to = %step.to, "transition");
        }
        let mut commit = Commit::new(slot.claim.clone(), write);
        commit.log = slot.log_for_commit();
        self.outbox.push(id, commit);
    }

    pub(super) fn committed(&mut self, id: SlotId, answer: Result<(), Error>) {
        if let Err(error @ Error::StoreGone { .. }) = answer {
            self.store_gone(error);
            if self.slots.get(id).is_some() {
                self.feed(id, Input::Fenced(StopReason::LeaseLost));
            }
            return;
        }
        let Some(slot) = self.slots.get_mut(id) else {
            // A claim that was not for this node was released, or the task was lost in the
            // meantime.
            if let Err(error) = answer {
                debug!(%error, "the store refused a write of a task that this node no longer has");
            }
            return;
        };
        let is_durable = answer.is_ok();
        slot.log_committed(is_durable);
        match &answer {
            Ok(()) => slot.metrics.moved(slot.moved),
            Err(Error::Fenced(_)) => self.metrics.fenced(),
            Err(_) => {}
        }
        let returned = slot
            .returning
            .take_if(|returning| is_durable && returning.is_written());
        let superseded = match &answer {
            Err(error @ Error::Superseded { .. }) => Some(error.to_string()),
            _ => None,
        };
        let input = store_answers::input_of(&slot.task.id, answer);
        if let Some(error) = superseded {
            warn!(task = %slot.task.id, kind = %slot.task.kind, fence = slot.claim.fence.0, error,
                "a write was superseded: the task is claimed again with the state of the store");
            self.claim_again(id);
        } else if let Input::Fenced(reason) = &input {
            warn!(task = %slot.task.id, kind = %slot.task.kind, fence = slot.claim.fence.0,
                ?reason, "a write was fenced: this node no longer has the task");
        }
        if let Input::Refused { reason, .. } = &input
            && let Some(returning) = self.slots.get_mut(id).and_then(|s| s.returning.as_mut())
        {
            returning.refused(reason);
        }
        if !is_durable {
            self.logged(id);
        }
        self.report_failure(id, is_durable);
        self.feed(id, input);
        if let Some(returned) = returned {
            returned.report();
        }
    }

    fn done(&mut self, id: SlotId, end: End) {
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        let state = slot.machine.state();
        let is_runnable = matches!(state.status, TaskStatus::Runnable);
        // The store holds back a task that was claimed beyond a limit. The next attempt of a task with a limit on
        // starts only needs another claim.
        let goes_on = slot.over_limit || slot.machine.ends_for_next_attempt();
        if end == End::Dropped(StateKind::Runnable) && is_runnable && !goes_on {
            // The task was released while it could run: other nodes go first.
            let wait = if slot.stop_orders.is_empty() { 1 } else { 30 };
            let until = Instant::now() + Duration::from_secs(wait);
            let order = slot.order;
            if slot.machine.holds_signals() {
                // Because of its signals it would be claimed again, beyond the limits.
                self.deferral
                    .release_with_signals(&slot.task.id, order, until);
            } else {
                self.deferral.release(&slot.task.id, order, until);
            }
        }
        // A handler that was aborted for a lost claim may not have ended yet.
        if self.slots.get(id).is_some_and(|s| s.run.is_none()) {
            self.remove_slot(id);
        }
    }

    pub(super) fn remove_slot(&mut self, id: SlotId) {
        let Some(slot) = self.slots.remove(id) else {
            return;
        };
        let Slot {
            task,
            mut timers,
            active,
            latest,
            stop_orders,
            order,
            ..
        } = slot;
        self.watch.names(id);
        self.timers.clear(id, &mut timers);
        if active {
            self.capacity.release(&task.kind);
        }
        for stop_order in stop_orders {
            self.acknowledge(stop_order, "released");
        }
        self.claim_is_over(&task.id, order, latest);
    }

    /// Applies the last event about a task, which was kept while this node had the task with this
    /// order.
    pub(super) fn claim_is_over(&mut self, task: &TaskId, order: u64, latest: Option<Reported>) {
        match latest {
            // An event about the node's own claim, which has ended.
            Some(Reported::View(view)) if view.claimed_by.is_some() && view.order == order => {}
            Some(Reported::View(view)) => self.view(view),
            Some(Reported::Gone { .. }) => self.deferral.forget_release(task),
            None => {}
        }
    }

    fn update_active(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        // A write that releases the claim needs no slot: the next task is claimed at the same time,
        // in the same transaction if the store can do that.
        let machine = &slot.machine;
        let waits = machine.is_idle() || machine.is_ending();
        let active = slot.run.is_some() || !waits;
        if active != slot.active {
            slot.active = active;
            let kind = slot.task.kind.clone();
            if active {
                self.capacity.take(&kind);
            } else {
                self.capacity.release(&kind);
            }
        }
    }
}
