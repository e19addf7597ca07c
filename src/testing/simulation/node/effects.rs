//! Feeds the machines of a [`Node`], and carries out their effects.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use tokio::time::Instant;
use windlass_statemachine::{
    StateKind, TaskStatus,
    machine::{Effect, End, Env, Input, StopReason, Timer, Write},
};

use super::{FromHandler, Node, RELEASED, Run, Slot, SlotId};
use crate::{
    handler::{AskRunner, Attempt, RunData, Sent, Signals, TaskContext},
    runner::{due::Released, spawn},
    store::Commit,
    testing::{
        abort::AbortOnDrop,
        simulation::world::{Moment, World},
    },
};

impl Node {
    pub(super) async fn feed_progress(&mut self, world: &mut World, id: SlotId) {
        let run = self.slots.get(&id).and_then(|slot| slot.run.as_ref());
        if let Some(progress) = run.and_then(|run| run.data.progress()) {
            self.feed(world, id, Input::Progress(progress)).await;
        }
    }

    /// Feeds one input to one machine, and carries out all effects that follow.
    pub(super) async fn feed(&mut self, world: &mut World, id: SlotId, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let env = Env {
                now: world.moment().clock,
                elapsed: self.started.elapsed(),
                // Half of the longest wait, so that every run of a simulation waits for the same time.
                jitter: 0.5,
            };
            let Some(slot) = self.slots.get_mut(&id) else {
                return;
            };
            match input {
                Input::Timer(Timer::Wake) => {
                    if slot.resume.is_some() {
                        world.idle = None;
                    }
                    (slot.wake, slot.resume) = (None, None);
                }
                Input::Timer(Timer::Grace) => slot.grace = None,
                _ => {}
            }
            let mut effects = Vec::new();
            slot.machine.input(input, env, &mut effects);
            for effect in effects {
                inputs.extend(self.carry_out(world, id, effect).await);
                if world.is_crashed() {
                    return;
                }
            }
        }
    }

    async fn carry_out(&mut self, world: &mut World, id: SlotId, effect: Effect) -> Vec<Input> {
        if let Effect::Start { attempt, .. } = effect {
            if self.slots.get(&id).is_some_and(|slot| slot.over_limit) {
                return vec![Input::Stop(StopReason::Balance), Input::Aborted];
            }
            self.start(id, attempt, world);
            return Vec::new();
        }
        if let Effect::Done(end) = effect {
            self.done(id, end, world.moment());
            return Vec::new();
        }
        let Some(slot) = self.slots.get_mut(&id) else {
            return Vec::new();
        };
        match effect {
            Effect::Persist(write) => {
                let answer = world.persist(commit_of(slot, *write)).await;
                return answer.into_iter().collect();
            }
            Effect::Signal(signal) => {
                if let Some(run) = &mut slot.run {
                    run.waiting = false;
                    run.signals.deliver(signal);
                }
            }
            Effect::Abort => {
                if let Some(run) = &mut slot.run {
                    run.waiting = false;
                    run.abort.0.abort();
                }
            }
            Effect::CheckpointDone { ticket, result } => {
                if let Some(at) = slot.asks.iter().position(|(t, _)| *t == ticket)
                    && let Some((_, answer)) = slot.asks.remove(at)
                {
                    // Fails when the handler has stopped waiting.
                    let _ = answer.send(result);
                }
            }
            Effect::ArmWake(at) => slot.wake = Some(at),
            Effect::ArmGrace(at) => slot.grace = Some(at),
            Effect::Disarm(Timer::Wake) => (slot.wake, slot.resume) = (None, None),
            Effect::Disarm(Timer::Grace) => slot.grace = None,
            Effect::ArmResume { at, runs } => {
                slot.resume = Some(at);
                world.idle = Some((slot.task.id.clone(), runs));
            }
            Effect::Start { .. } | Effect::Done(_) => {}
        }
        Vec::new()
    }

    fn start(&mut self, id: SlotId, attempt: u32, world: &World) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let Some(entry) = self.kinds.get(&slot.task.kind) else {
            return;
        };
        let number = self.next_run;
        self.next_run += 1;
        let (signals, received) = Signals::new();
        let asks = self.tx.clone();
        let asks = AskRunner(Box::new(move |sent| match sent {
            Sent::Ask(ask) => asks.send(FromHandler::Ask(id, ask)).is_ok(),
            // It is stored with the next write.
            Sent::Progress | Sent::Logged | Sent::Returns(_) => true,
        }));
        // The lease of a simulation ends only with its node.
        let until = Instant::now() + Duration::from_secs(3600);
        self.lease_until.send_replace(until);
        let span = tracing::info_span!("task", task = %slot.task.id, kind = %slot.task.kind,
            node = %self.lease.node, fence = slot.claim.fence.0, attempt);
        let attempt = Attempt {
            task: slot.task.clone(),
            order: slot.order,
            number: attempt,
            fence: slot.claim.fence,
            data_version: entry.config.writes_version(),
            lease_until: self.lease_until.subscribe(),
            shared: entry.shared.clone(),
            store: world.whole.clone(),
            span,
            clock: world.clock.clone(),
            logged: slot.log.1,
        };
        let state = slot.machine.state();
        let data = Arc::new(RunData::new(attempt, state, received, asks));
        let context = TaskContext::new(data.clone());
        let tx = self.tx.clone();
        let abort = spawn::spawn(entry.handler.clone(), context, move |ended| {
            // Fails only when the node is gone.
            let _ = tx.send(FromHandler::Ended(id, number, ended));
        });
        slot.run = Some(Run {
            number,
            signals,
            data,
            waiting: false,
            abort: AbortOnDrop(abort),
        });
    }

    fn done(&mut self, id: SlotId, end: End, now: Moment) {
        let Some(slot) = self.slots.get(&id) else {
            return;
        };
        let runnable = matches!(slot.machine.state().status, TaskStatus::Runnable);
        let goes_on = slot.over_limit || slot.machine.ends_for_next_attempt();
        if end == End::Dropped(StateKind::Runnable) && runnable && !goes_on {
            let released = Released {
                order: slot.order,
                until: now.at + RELEASED,
                signalled: slot.machine.holds_signals(),
            };
            self.released.insert(slot.task.id.clone(), released);
        }
        if slot.run.is_none() {
            self.remove(id);
        }
    }

    pub(super) fn remove(&mut self, id: SlotId) {
        if let Some(slot) = self.slots.remove(&id) {
            self.by_task.remove(&slot.task.id);
        }
    }
}

/// Returns the commit of a write, with the lines that the handler has logged.
fn commit_of(slot: &mut Slot, write: Write) -> Commit {
    let mut commit = Commit::new(slot.claim.clone(), write);
    let mut lines: Vec<_> = mem::take(&mut slot.log.0).into_iter().collect();
    if let Some(run) = &slot.run {
        lines.extend(run.data.take_log());
    }
    commit.log = (!lines.is_empty()).then(|| lines.into());
    commit
}
