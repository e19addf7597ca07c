//! Deadlines: a task that has missed one fails, whatever it does.

use super::{Effect, Env, Machine, Signal, StopReason};

impl Machine {
    /// Returns the error of a task that has missed a deadline. The deadline for the start is met once the
    /// handler of this claim was started.
    pub(super) fn missed(&self, env: Env) -> Option<String> {
        let deadlines = self.state.deadlines.as_ref()?;
        if self.has_run && deadlines.start_by.is_some() {
            let mut state = self.state.clone();
            state.has_started();
            return state.missed(env.now);
        }
        self.state.missed(env.now)
    }

    /// Returns the next deadline.
    fn next_deadline(&self) -> Option<jiff::Timestamp> {
        let deadlines = self.state.deadlines.as_ref()?;
        match self.has_run {
            true => deadlines.end_by,
            false => deadlines.first(),
        }
    }

    /// Arms the timer of the deadline, if there is one.
    pub(super) fn arm_deadline(&self, out: &mut Vec<Effect>) {
        out.extend(self.next_deadline().map(Effect::ArmWake));
    }

    /// Drops the timer of the deadline of a run.
    pub(super) fn disarm_deadline(&mut self, out: &mut Vec<Effect>) {
        self.late = None;
        if self.next_deadline().is_some() {
            out.push(Effect::Disarm(super::Timer::Wake));
        }
    }

    /// Asks a running handler to stop, within its grace, because its deadline has come.
    pub(super) fn deadline_comes(&mut self, env: Env, out: &mut Vec<Effect>) {
        if !self.handler_runs() || self.late.is_some() {
            return;
        }
        if self.missed(env).is_none() {
            // The clock was set back.
            return self.arm_deadline(out);
        }
        self.late = Some(self.grace_from(env.elapsed));
        out.push(Effect::Signal(Signal::Stop(StopReason::Deadline)));
        self.arm_grace(out);
    }
}
