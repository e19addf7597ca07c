//! Asks the retry policy, and catches its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Env, Machine, draft::Draft};
use crate::{
    Action, Decision, Failure, Message, Retry, RetryPolicy, StateKind, TaskState,
    errors::DEFAULT_KEPT,
};

/// Returns the failure that the retry policy decides on.
fn failure(state: &TaskState, env: Env) -> Failure<'_> {
    Failure {
        errors: state.errors.entries(),
        attempts: state.attempts,
        now: env.now,
        jitter: env.jitter,
    }
}

impl Machine {
    /// Asks the retry policy about a `fault` at once, unless a retry cannot fix the error.
    pub(super) fn ask_policy(&self, draft: &mut Draft, env: Env) {
        if draft.state.code() != StateKind::Fault {
            return;
        }
        draft.state.attempts = draft.state.attempts.saturating_add(1);
        let policy = &*self.config.retry;
        let decision = if draft.retryable {
            self.decide(&draft.state, env)
        } else {
            Decision::Fail
        };
        draft.state.attempts_left = match decision {
            Decision::Fail => None,
            Decision::Run | Decision::Sleep(_) => {
                let failure = failure(&draft.state, env);
                catch_unwind(AssertUnwindSafe(|| policy.left(&failure))).unwrap_or_default()
            }
        };
        let answer = match decision {
            Decision::Run => Message::run(),
            Decision::Sleep(until) => Action::Sleep { until }.into(),
            // The log already has the error.
            Decision::Fail => Message::error(""),
        };
        if draft.apply(&answer, None, env).is_err() {
            // A sleep beyond `9999-12-30T22:00:00Z` counts as giving up.
            let error = Message::error("the retry policy asked for an endless sleep");
            let _ = draft.apply(&error, None, env);
        }
    }

    fn decide(&self, state: &TaskState, env: Env) -> Decision {
        let failure = failure(state, env);
        catch_unwind(AssertUnwindSafe(|| self.config.retry.decide(&failure)))
            .unwrap_or_else(|_| Retry::default().decide(&failure))
    }

    /// Returns whether the retry policy gives up after an abandoned claim, which counts as an
    /// attempt. Then the task has failed. Otherwise it runs at once, because its handler is not
    /// known to be at fault.
    pub(super) fn gives_up_after_abandonment(&self, env: Env) -> bool {
        self.abandoned
            && self.state.code() == StateKind::Runnable
            && self.decide(&self.state, env) == Decision::Fail
    }

    /// Returns how many errors the log of the task keeps.
    pub(super) fn kept_errors(&self) -> usize {
        let keeps = catch_unwind(AssertUnwindSafe(|| self.config.retry.keeps()));
        keeps.unwrap_or(DEFAULT_KEPT)
    }
}
