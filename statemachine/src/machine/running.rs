//! What happens while a handler runs: checkpoints, commands, stops and their grace periods.

use std::{mem, time::Duration};

use jiff::Timestamp;

use super::{
    Effect, Env, Machine, Signal, StopReason, Timer,
    draft::Draft,
    limits::too_large,
    limits::unfit_answer,
    phase::{Ask, Asked, Cause, Phase, SideWrite, Waiting},
    signals::{Open, Standing, delivered, is_signal},
};
use crate::{Command, Outcome, QueuedCommand, StateKind, state::Report};

impl Machine {
    /// Returns whether a handler runs that was not aborted.
    pub(super) fn handler_runs(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    pub(super) fn finish_run(&mut self, cause: Cause, env: Env, out: &mut Vec<Effect>) {
        let report = self.numbered.take().map(Report::new);
        let (Phase::Running(side) | Phase::Aborting(side)) = &mut self.phase else {
            return;
        };
        let side = mem::take(side);
        (self.run, self.report) = (None, report);
        self.disarm_grace(out);
        self.disarm_deadline(out);
        for next in side.next {
            out.push(refused(next.ticket, "the handler has returned"));
        }
        match side.write {
            // The handler dropped a checkpoint and returned. Only one write is sent at a time, so its
            // end waits. No command is delivered to the handler any more, and nothing aborts it.
            Some(write) => self.phase = Phase::Ended { write, cause },
            None => self.settle(cause, env, out),
        }
    }

    pub(super) fn disarm_grace(&self, out: &mut Vec<Effect>) {
        let is_stopped = self.stop.is_some() || self.late.is_some();
        if is_stopped || self.queue.iter().any(Waiting::is_delivered) {
            out.push(Effect::Disarm(Timer::Grace));
        }
    }

    /// Returns a write that the handler asks for, with the number that was fed before it.
    pub(super) fn asked(&mut self, ticket: u64, what: Ask) -> Asked {
        Asked {
            ticket,
            what,
            report: self.numbered.take().map(Report::new),
        }
    }

    /// Accepts a write that the running handler asks for.
    pub(super) fn ask(&mut self, asked: Asked, env: Env, out: &mut Vec<Effect>) {
        let ticket = asked.ticket;
        let Phase::Running(side) = &mut self.phase else {
            let why = "the handler is being stopped; return a message instead";
            return out.push(refused(ticket, why));
        };
        let limit = self.config.max_data_bytes;
        let unfit = match &asked.what {
            Ask::Checkpoint(data) if data.len() > limit => {
                Some(too_large("data", data.len(), limit))
            }
            Ask::Checkpoint(data) => data.check_depth("data").err().map(|e| e.to_string()),
            Ask::Answer(answer) => unfit_answer(answer, &self.state, limit),
        };
        if let Some(why) = unfit {
            return out.push(refused(ticket, why));
        }
        if side.write.is_none() {
            return self.write_while_running(Some(asked), env, out);
        }
        let is_checkpoint = |asked: &Asked| matches!(asked.what, Ask::Checkpoint(_));
        if is_checkpoint(&asked)
            && let Some(older) = side.next.back_mut().filter(|older| is_checkpoint(older))
        {
            // The handler stopped waiting for the older checkpoint: the newer data replaces it.
            let older = mem::replace(older, asked);
            return out.push(refused(older.ticket, "a newer checkpoint took its place"));
        }
        side.next.push_back(asked);
    }

    /// Stores the progress of the running handler if the durable one differs.
    pub(super) fn keep_progress(&mut self, env: Env, out: &mut Vec<Effect>) {
        let Phase::Running(side) = &self.phase else {
            return;
        };
        let reported = self.progress.as_ref();
        if side.write.is_none() && reported.is_some_and(|reported| *reported != self.state.progress)
        {
            self.write_while_running(None, env, out);
        }
    }

    /// Sends a write while the handler runs: what the handler asks for, and commands that do not
    /// stop it.
    pub(super) fn write_while_running(
        &mut self,
        asked: Option<Asked>,
        env: Env,
        out: &mut Vec<Effect>,
    ) {
        let mut draft = Draft::new(&self.state);
        let (mut ticket, mut has_data) = (None, false);
        if let Some(Asked {
            ticket: of,
            what,
            report,
        }) = asked
        {
            has_data = match &what {
                Ask::Checkpoint(_) => true,
                Ask::Answer(answer) => answer.data.is_some(),
            };
            if let Err(why) = self.add_asked(what, &mut draft, env.now) {
                out.push(refused(of, why));
                return self.next_side_write(env, out);
            }
            if let Some(report) = report {
                draft.state.report = Some(Box::new(report));
            }
            ticket = Some(of);
        }
        while draft.outcomes.len() < self.config.max_outcomes.max(1)
            && let Some(front) = self.queue.front()
            && match front.command.command {
                // A checkpoint of the handler's own carries out the command.
                Command::Checkpoint => has_data || front.is_overdue(env.elapsed),
                Command::Run => front.is_overdue(env.elapsed),
                _ => false,
            }
            && let Some(front) = self.queue.pop_front()
        {
            draft.apply_while_running(front);
        }
        self.settle_decided(&mut draft);
        let pending = self.persist(draft, out);
        if let Phase::Running(side) = &mut self.phase {
            side.write = Some(SideWrite { pending, ticket });
        }
        self.arm_grace(out);
    }

    /// Adds what the handler asks for to a write.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be written: the signal already has an outcome.
    fn add_asked(&mut self, what: Ask, draft: &mut Draft, now: Timestamp) -> Result<(), String> {
        let data = match what {
            Ask::Checkpoint(data) => Some(data),
            Ask::Answer(answer) => {
                let Some(open) = self.signals.take(answer.signal) else {
                    return Err(
                        "the signal waits for no reply: it has its outcome, or is another task's"
                            .to_owned(),
                    );
                };
                let reply = answer.reply;
                draft.settle_signal(open, Outcome::Answered { reply });
                self.pace.changes();
                answer.data
            }
        };
        if let Some(data) = data {
            if draft.state.data.as_ref() != Some(&data) {
                self.pace.changes();
            }
            draft.state.set_data(data, self.config.data_version, now);
        }
        Ok(())
    }

    /// Settles signals whose outcome is known, as many as one write takes.
    pub(super) fn settle_decided(&mut self, draft: &mut Draft) {
        while draft.outcomes.len() < self.config.max_outcomes.max(1)
            && let Some((open, outcome)) = self.signals.take_decided()
        {
            draft.settle_signal(open, outcome);
        }
    }

    /// Continues after a write that was sent while the handler ran.
    pub(super) fn next_side_write(&mut self, env: Env, out: &mut Vec<Effect>) {
        let Phase::Running(side) = &mut self.phase else {
            return;
        };
        match side.next.pop_front() {
            Some(next) => self.write_while_running(Some(next), env, out),
            None if self.signals.has_decided() => self.write_while_running(None, env, out),
            None => self.arm_grace(out),
        }
    }

    /// Delivers the signals and the commands that wait to a handler that starts, in their order.
    pub(super) fn deliver_waiting(&mut self, env: Env, out: &mut Vec<Effect>) {
        self.took = 0;
        let deadline = Some(self.grace_from(env.elapsed));
        let signals = self.signals.start().map(|q| (q.order, delivered(q)));
        let mut all: Vec<(u64, Command)> = signals.collect();
        for waiting in &mut self.queue {
            waiting.deadline = deadline;
            all.push((waiting.command.order, waiting.command.command.clone()));
        }
        all.sort_by_key(|(order, _)| *order);
        for (order, command) in all {
            out.push(Effect::Signal(Signal::Command { order, command }));
        }
        if !self.queue.is_empty() {
            self.arm_grace(out);
        }
    }

    fn signal(&mut self, queued: QueuedCommand, env: Env, out: &mut Vec<Effect>) {
        let standing = if !self.config.takes_signals {
            let reason = "the kind does not accept signals".to_owned();
            Standing::Decided(Outcome::Rejected { reason })
        } else if self.handler_runs() {
            let (order, command) = (queued.order, delivered(&queued));
            out.push(Effect::Signal(Signal::Command { order, command }));
            Standing::Meanwhile
        } else if queued.order <= self.state.kept_signals {
            Standing::Kept
        } else {
            Standing::New
        };
        let received = env.now;
        self.signals.insert(Open {
            queued,
            received,
            standing,
        });
        match self.phase {
            Phase::Running(_) if self.signals.has_decided() && !self.is_storing() => {
                self.write_while_running(None, env, out);
            }
            // Only the wait before the next run changes.
            Phase::Idle if self.state.code() == StateKind::Runnable => {
                out.push(Effect::Disarm(Timer::Wake));
                self.go_on(env, out);
            }
            Phase::Idle => self.settle_idle(env, out),
            _ => {}
        }
    }

    pub(super) fn command(&mut self, command: QueuedCommand, env: Env, out: &mut Vec<Effect>) {
        // A kept signal is older than a command that was applied after it.
        let applied = self.state.last_command.as_ref().map_or(0, |c| c.order);
        let is_known = !is_signal(&command.command) && command.order <= applied;
        if is_known || command.order <= self.last_order {
            return;
        }
        self.last_order = command.order;
        self.pace.reset();
        if is_signal(&command.command) {
            return self.signal(command, env, out);
        }
        let mut deadline = None;
        if self.handler_runs() {
            deadline = Some(self.grace_from(env.elapsed));
            let (order, command) = (command.order, command.command.clone());
            out.push(Effect::Signal(Signal::Command { order, command }));
        }
        let received = env.now;
        self.queue.push_back(Waiting {
            command,
            received,
            deadline,
        });
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

    pub(super) fn grace_from(&self, elapsed: Duration) -> Duration {
        elapsed.saturating_add(self.config.stop_grace)
    }

    /// Arms the grace timer for the first grace that ends.
    pub(super) fn arm_grace(&self, out: &mut Vec<Effect>) {
        let command = self.queue.front().and_then(|w| w.deadline);
        let stops = self.stop.into_iter().chain(self.late);
        if let Some(at) = command.into_iter().chain(stops).min() {
            out.push(Effect::ArmGrace(at));
        }
    }

    /// Handles the end of a grace.
    pub(super) fn grace_ends(&mut self, env: Env, out: &mut Vec<Effect>) {
        if !self.handler_runs() {
            return;
        }
        let mut stops = self.stop.into_iter().chain(self.late);
        if stops.any(|deadline| deadline <= env.elapsed) {
            return self.abort(out);
        }
        match self.queue.front() {
            Some(front) if front.is_overdue(env.elapsed) => {
                if front.command.command.aborts() {
                    self.abort(out);
                } else if !self.is_storing() {
                    self.write_while_running(None, env, out);
                }
                // Otherwise the timer is armed again when the write under way is stored.
            }
            _ => self.arm_grace(out),
        }
    }

    fn abort(&mut self, out: &mut Vec<Effect>) {
        if let Phase::Running(side) = &mut self.phase {
            self.phase = Phase::Aborting(mem::take(side));
            out.push(Effect::Abort);
        }
    }
}

/// Returns the answer to a checkpoint that is not stored.
pub(super) fn refused(ticket: u64, why: impl Into<String>) -> Effect {
    Effect::CheckpointDone {
        ticket,
        result: Err(why.into()),
    }
}
