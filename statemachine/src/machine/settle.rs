//! What a handler's return, the commands that wait and a stop make of the state: one write.

use super::{
    Effect, Env, Machine,
    draft::Draft,
    phase::{Cause, Phase, Settling},
};
use crate::{Message, Outcome, TaskStatus};

impl Machine {
    /// Applies what the handler returned (nothing, if it was aborted or did not run), then the
    /// commands that wait (as many as one write takes), then the stop; writes the result.
    pub(super) fn settle(&mut self, cause: Cause, env: Env, out: &mut Vec<Effect>) {
        // Kill always ends in killed, whatever the policy decides on a failure.
        let killed = self.has_kill();
        // A refused write must not be sent again for ever: a result is the only part of a command that
        // a store can refuse.
        let results_refused = match cause {
            Cause::Returned(_) => self.refusals > 1,
            Cause::Nothing | Cause::GivesUp => self.refusals > 0,
        };
        let again = cause.after_refusal();
        let mut draft = Draft::new(&self.state);
        match cause {
            Cause::Returned(message) => self.apply_returned(message, &mut draft, env),
            Cause::GivesUp if killed => {}
            Cause::GivesUp => self.give_up(&mut draft, env),
            Cause::Nothing => wake(&mut draft, env),
        }
        if !killed {
            self.ask_policy(&mut draft, env);
        }
        self.apply_commands(&mut draft, results_refused, env);
        if self.stop.is_some() && !draft.drop_claim && !draft.state.code().is_terminal() {
            let _ = draft.apply(&Message::release(), None, env);
        }
        draft.drop_claim |= match draft.state.status {
            _ if draft.state.code().is_terminal() => true,
            // More commands wait: the next write decides.
            _ if !self.queue.is_empty() => false,
            TaskStatus::Runnable => false,
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

    /// Both steps are in the table: runnable → fault → failed.
    fn give_up(&self, draft: &mut Draft, env: Env) {
        let last = self.state.errors.last().map_or("", |e| e.error.as_str());
        let attempts = self.state.attempts;
        let text = format!("the retry policy gives up after {attempts} attempts: {last}");
        let _ = draft.apply(&Message::error(text), None, env);
        let _ = draft.apply(&Message::error(""), None, env);
    }

    /// Settles the commands that wait, oldest first, as many as one write takes.
    fn apply_commands(&mut self, draft: &mut Draft, results_refused: bool, env: Env) {
        while draft.outcomes.len() < self.config.max_outcomes.max(1)
            && let Some(waiting) = self.queue.pop_front()
        {
            let queued = &waiting.command;
            let applied = match self.unfit_result(&queued.command, draft, results_refused) {
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

/// Ends a sleep whose time has come: the one transition without a sender.
fn wake(draft: &mut Draft, env: Env) {
    if let TaskStatus::Sleeping { until } = draft.state.status
        && until <= env.now
    {
        let _ = draft.apply(&Message::run(), None, env);
    }
}
