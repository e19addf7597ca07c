//! Settles a handler's return, the commands in the queue and a stop in one write.

use super::limits;
use super::{
    Effect, Env, Machine,
    draft::Draft,
    phase::{Cause, Phase, Settling},
    returned::overtaken,
};
use crate::{Command, Message, Outcome, StateKind, TaskStatus, waits::WaitStage};

impl Machine {
    /// Applies what the handler returned (nothing, if it was aborted or did not run), then the
    /// queued commands (as many as one write takes), then the stop. Sends the result as one write.
    pub(super) fn settle(&mut self, cause: Cause, env: Env, out: &mut Vec<Effect>) {
        // A kill always ends in killed, whatever the policy decides on a failure.
        let killed = self.has_kill();
        // Results are rejected after a refusal, so that a refused write is not sent for ever: a result
        // is the only part of a command that a store can refuse.
        let results_refused = match cause {
            Cause::Returned(_) => self.refusals > 1,
            Cause::Nothing | Cause::GivesUp | Cause::Unmet(_) => self.refusals > 0,
        };
        let again = cause.after_refusal();
        let mut draft = Draft::new(&self.state);
        let missed = self.missed(env);
        match cause {
            Cause::Returned(message) => {
                let mut message = limits::checked(message, &self.state, &self.config, env);
                if missed.is_some() || self.is_killed_before(&message) {
                    message = overtaken(message);
                }
                self.settle_signals(&message, &mut draft);
                if missed.is_some() {
                    draft.keep_data(message.body.data, self.config.data_version, env);
                } else {
                    self.apply_returned(message, &mut draft, env);
                }
            }
            Cause::GivesUp | Cause::Unmet(_) if killed || missed.is_some() => {}
            Cause::GivesUp => self.give_up(&mut draft, env),
            Cause::Unmet(text) => fail(&mut draft, text, env),
            Cause::Nothing => {
                // A handler that was aborted for a command leaves its signals unanswered. A handler
                // that was aborted for its node leaves them to the next run.
                self.signals.run_ended(self.stop.is_some(), self.had());
                self.settle_decided(&mut draft);
                if missed.is_none() {
                    wake(&mut draft, env);
                }
            }
        }
        if let Some(text) = missed.as_ref().filter(|_| !killed) {
            expire(&mut draft, text.clone(), env);
        }
        if !killed {
            self.ask_policy(&mut draft, env);
        }
        let late = missed.as_deref();
        self.apply_commands(&mut draft, (results_refused, late), env);
        if !killed {
            self.wake_for_signal(&mut draft, env);
        }
        let parked = !matches!(draft.state.code(), StateKind::Runnable) && !draft.is_terminal();
        draft.state.kept_signals = if parked { self.signals.last_kept() } else { 0 };
        if self.stop.is_some() && !draft.drop_claim && !draft.state.code().is_terminal() {
            let _ = draft.apply(&Message::release(), None, env);
        }
        if self.config.claim_per_attempt {
            let ends = |to| {
                matches!(
                    to,
                    StateKind::Fault | StateKind::Sleeping | StateKind::Paused
                )
            };
            self.attempted |= draft.steps.iter().any(|step| ends(step.to));
        }
        draft.drop_claim |= match draft.state.status {
            _ if draft.state.code().is_terminal() => true,
            // Its commands and signals wait for the next claim.
            TaskStatus::Runnable if self.attempted && !self.has_turn() => true,
            // More commands are queued: the next write decides.
            _ if !self.queue.is_empty() => false,
            // A task with signals would be claimed again at once, so it keeps the claim.
            _ if !self.signals.is_empty() => false,
            TaskStatus::Runnable => false,
            TaskStatus::Sleeping { .. } if draft.state.is_waiting() => true,
            TaskStatus::Sleeping { until } => self.parks(until, env.now),
            _ => true,
        };
        self.store(draft, again, out);
    }

    /// Sends a write while no handler runs.
    pub(super) fn store(&mut self, draft: Draft, again: Cause, out: &mut Vec<Effect>) {
        let drop_claim = draft.drop_claim;
        let pending = self.persist(draft, out);
        self.phase = Phase::Storing(Settling {
            pending,
            drop_claim,
            again,
        });
    }

    /// Settles the replies of a handler that has returned, and the signals without a reply.
    fn settle_signals(&mut self, message: &Message, draft: &mut Draft) {
        // One place is reserved for the command that the message carries out.
        let most = self.config.max_outcomes.saturating_sub(1).max(1);
        for (order, reply) in &message.body.answers {
            self.signals.decide(*order, reply.clone());
        }
        self.signals.run_ended(message.keeps_signals(), self.had());
        while draft.outcomes.len() < most
            && let Some((open, outcome)) = self.signals.take_decided()
        {
            draft.settle_signal(open, outcome);
        }
    }

    /// Returns the order of the last command that the handler has seen: the last that it received, or the
    /// last for which it was asked to stop.
    fn had(&self) -> u64 {
        let stops = self.queue.iter().filter(|waiting| {
            let command = &waiting.command.command;
            waiting.is_delivered() && command.aborts()
        });
        let last = stops.map(|waiting| waiting.command.order).max();
        last.unwrap_or(0).max(self.took)
    }

    /// Wakes a parked task for the first signal that no handler has received. The commands before that
    /// signal have been applied.
    fn wake_for_signal(&mut self, draft: &mut Draft, env: Env) {
        let Some(order) = self.signals.first_new() else {
            return;
        };
        let waits = self.queue.front().is_some_and(|w| w.command.order < order);
        let code = draft.state.code();
        if !waits && matches!(code, StateKind::Sleeping | StateKind::Paused) && self.stop.is_none()
        {
            let _ = draft.apply(&Message::run(), Some(order), env);
        }
    }

    fn give_up(&self, draft: &mut Draft, env: Env) {
        let last = self.state.errors.last().map_or("", |e| e.error.as_str());
        let attempts = self.state.attempts;
        let text = format!("the retry policy gives up after {attempts} attempts: {last}");
        fail(draft, text, env);
    }

    /// Settles the queued commands, oldest first, as many as one write takes. Commands behind a signal
    /// that no handler has received stay in the queue. A task that is `late` has missed its deadline, so only
    /// a kill is applied to it.
    fn apply_commands(
        &mut self,
        draft: &mut Draft,
        (results_refused, late): (bool, Option<&str>),
        env: Env,
    ) {
        while draft.outcomes.len() < self.config.max_outcomes.max(1)
            && (self.has_turn() || draft.is_terminal())
            && let Some(waiting) = self.queue.pop_front()
        {
            let queued = &waiting.command;
            let late = late.filter(|_| queued.command != Command::Kill && !draft.is_terminal());
            let unfit = || self.unfit_result(&queued.command, draft, results_refused);
            let applied = match late.map(missed_deadline).or_else(unfit) {
                Some(reason) => Err(reason),
                None => draft
                    .apply(&queued.command.to_message(), Some(queued.order), env)
                    .map_err(|why| why.to_string()),
            };
            let outcome = match applied {
                Ok((from, to)) => Outcome::Applied { from, to },
                Err(reason) => Outcome::Rejected { reason },
            };
            draft.settle(waiting, outcome);
        }
    }
}

/// Why a command is rejected that waited for a task which has missed its deadline, and ends by a kill.
fn missed_deadline(text: &str) -> String {
    format!("the task {text}")
}

/// Fails a task whose handler did not run. Both steps are in the transition table: runnable → fault
/// → failed.
pub(super) fn fail(draft: &mut Draft, text: String, env: Env) {
    let _ = draft.apply(&Message::error(text), None, env);
    let _ = draft.apply(&Message::error(""), None, env);
}

/// Fails a task that has missed its deadline, from any live state. Each step is in the transition
/// table.
fn expire(draft: &mut Draft, text: String, env: Env) {
    if draft.state.code() == StateKind::Paused {
        let _ = draft.apply(&Message::run(), None, env);
    }
    fail(draft, text, env);
}

/// Ends a sleep whose time has come: the only transition that no message causes.
fn wake(draft: &mut Draft, env: Env) {
    if let TaskStatus::Sleeping { until } = draft.state.status
        && until <= env.now
    {
        draft.state.end_wait(WaitStage::Over);
        let _ = draft.apply(&Message::run(), None, env);
    }
}
