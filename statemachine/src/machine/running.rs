//! What happens while a handler runs: checkpoints, commands, stops and their graces.

use std::{mem, time::Duration};

use super::{
    Effect, Env, Machine, Signal, StopReason, Timer,
    draft::Draft,
    limits::too_large,
    phase::{Cause, Checkpoint, Phase, SideWrite, Waiting},
};
use crate::{Command, QueuedCommand};

impl Machine {
    /// Whether a handler runs and was not aborted.
    pub(super) fn handler_runs(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    pub(super) fn finish_run(&mut self, cause: Cause, env: Env, out: &mut Vec<Effect>) {
        let (Phase::Running(beside) | Phase::Aborting(beside)) = &mut self.phase else {
            return;
        };
        let beside = mem::take(beside);
        self.disarm_grace(out);
        if let Some(next) = beside.next {
            out.push(refused(next.ticket, "the handler has returned"));
        }
        match beside.write {
            // The handler dropped a checkpoint and returned: one write at a time. The handler has ended
            // all the same: no command is delivered to it, and nothing aborts it.
            Some(write) => self.phase = Phase::Ended { write, cause },
            None => self.settle(cause, env, out),
        }
    }

    pub(super) fn disarm_grace(&self, out: &mut Vec<Effect>) {
        if self.stop.is_some() || self.queue.iter().any(Waiting::is_delivered) {
            out.push(Effect::Disarm(Timer::Grace));
        }
    }

    pub(super) fn checkpoint(&mut self, asked: Checkpoint, env: Env, out: &mut Vec<Effect>) {
        let ticket = asked.ticket;
        let Phase::Running(beside) = &mut self.phase else {
            let why = "the handler is being stopped; return a message instead";
            return out.push(refused(ticket, why));
        };
        let (bytes, limit) = (asked.data.len(), self.config.max_data_bytes);
        if bytes > limit {
            return out.push(refused(ticket, too_large("data", bytes, limit)));
        }
        if let Err(e) = asked.data.check_depth("data") {
            return out.push(refused(ticket, e.to_string()));
        }
        if beside.write.is_none() {
            return self.write_beside(Some(asked), env, out);
        }
        if let Some(older) = beside.next.replace(asked) {
            // The handler stopped waiting for it: the newer data stands for both.
            out.push(refused(older.ticket, "a newer checkpoint took its place"));
        }
    }

    /// Writes while the handler runs: its checkpoint, and commands that do not stop it.
    pub(super) fn write_beside(
        &mut self,
        checkpoint: Option<Checkpoint>,
        env: Env,
        out: &mut Vec<Effect>,
    ) {
        let mut draft = Draft::new(&self.state);
        while draft.outcomes.len() < self.config.max_outcomes.max(1)
            && let Some(front) = self.queue.front()
            && match front.command.command {
                // A checkpoint that the handler makes by itself does what the command asks.
                Command::Checkpoint => checkpoint.is_some() || front.is_overdue(env.elapsed),
                Command::Run => front.is_overdue(env.elapsed),
                _ => false,
            }
            && let Some(front) = self.queue.pop_front()
        {
            draft.apply_beside(front);
        }
        let mut ticket = None;
        if let Some(Checkpoint {
            ticket: asked,
            data,
        }) = checkpoint
        {
            if draft.state.data.as_ref() != Some(&data) {
                self.pace.changes();
            }
            draft.state.set_data(data, self.config.data_version);
            ticket = Some(asked);
        }
        let pending = self.persist(draft, out);
        if let Phase::Running(beside) = &mut self.phase {
            beside.write = Some(SideWrite { pending, ticket });
        }
        self.arm_grace(out);
    }

    /// What follows an answered write while the handler has not ended.
    pub(super) fn go_on_beside(&mut self, env: Env, out: &mut Vec<Effect>) {
        let Phase::Running(beside) = &mut self.phase else {
            return;
        };
        match beside.next.take() {
            Some(next) => self.write_beside(Some(next), env, out),
            None => self.arm_grace(out),
        }
    }

    pub(super) fn command(&mut self, command: QueuedCommand, env: Env, out: &mut Vec<Effect>) {
        if command.order <= self.last_order {
            return;
        }
        self.last_order = command.order;
        self.pace.reset();
        let mut deadline = None;
        if self.handler_runs() {
            deadline = Some(self.grace_from(env.elapsed));
            out.push(Effect::Signal(Signal::Command(command.command.clone())));
        }
        self.queue.push_back(Waiting { command, deadline });
        match self.phase {
            Phase::Running(_) if self.queue.len() == 1 => self.arm_grace(out),
            Phase::Idle => self.settle_idle(env, out),
            _ => {}
        }
    }

    pub(super) fn stop(&mut self, reason: StopReason, env: Env, out: &mut Vec<Effect>) {
        if self.stop.is_none() {
            self.stop = Some(self.grace_from(env.elapsed));
        }
        match self.phase {
            Phase::Running(_) => {
                out.push(Effect::Signal(Signal::Stop(reason)));
                self.arm_grace(out);
            }
            Phase::Idle => self.settle_idle(env, out),
            _ => {}
        }
    }

    pub(super) fn stop_now(&mut self, reason: StopReason, env: Env, out: &mut Vec<Effect>) {
        self.stop = Some(env.elapsed);
        if self.handler_runs() {
            out.push(Effect::Signal(Signal::Stop(reason)));
            self.abort(out);
        } else {
            self.stop(reason, env, out);
        }
    }

    /// Settles a command or a stop that comes while nothing runs and nothing is written.
    fn settle_idle(&mut self, env: Env, out: &mut Vec<Effect>) {
        out.push(Effect::Disarm(Timer::Wake));
        self.settle(Cause::Nothing, env, out);
    }

    fn grace_from(&self, elapsed: Duration) -> Duration {
        elapsed.saturating_add(self.config.stop_grace)
    }

    /// Arms the grace timer for the first grace that ends.
    fn arm_grace(&self, out: &mut Vec<Effect>) {
        let command = self.queue.front().and_then(|w| w.deadline);
        if let Some(at) = command.into_iter().chain(self.stop).min() {
            out.push(Effect::ArmGrace(at));
        }
    }

    /// The timer of the grace went off.
    pub(super) fn grace_ends(&mut self, env: Env, out: &mut Vec<Effect>) {
        if !self.handler_runs() {
            return;
        }
        if self.stop.is_some_and(|deadline| deadline <= env.elapsed) {
            return self.abort(out);
        }
        match self.queue.front() {
            Some(front) if front.is_overdue(env.elapsed) => {
                if front.command.command.aborts() {
                    self.abort(out);
                } else if !self.is_storing() {
                    self.write_beside(None, env, out);
                }
                // Otherwise the write under way arms the timer again when it is stored.
            }
            _ => self.arm_grace(out),
        }
    }

    fn abort(&mut self, out: &mut Vec<Effect>) {
        if let Phase::Running(beside) = &mut self.phase {
            self.phase = Phase::Aborting(mem::take(beside));
            out.push(Effect::Abort);
        }
    }
}

/// The answer to a checkpoint that is not stored.
pub(super) fn refused(ticket: u64, why: impl Into<String>) -> Effect {
    Effect::CheckpointDone {
        ticket,
        result: Err(why.into()),
    }
}
