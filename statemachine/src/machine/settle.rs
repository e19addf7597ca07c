//! What a handler's return and the commands that wait make of the state: one write.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Effect, Env, Machine, Phase, Step, Waiting};
use crate::{
    Action, ActionKind, Command, Decision, Effects, Failure, Json, Message, Outcome, Retry,
    RetryPolicy, StateKind, TaskState, TaskStatus, TransitionError, size::Size, state::LastCommand,
    transition,
};

pub(super) fn too_large(field: &str, bytes: usize, limit: usize) -> String {
    format!("{field}: has {bytes} bytes; at most {limit} are allowed (with the task's props)")
}

pub(super) fn record(
    state: &mut TaskState,
    outcomes: &mut Vec<(u64, Outcome)>,
    order: u64,
    outcome: Outcome,
) {
    state.last_command = Some(LastCommand {
        order,
        outcome: outcome.clone(),
    });
    outcomes.push((order, outcome));
}

/// Why a new state is worked out.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// The handler returned.
    Returned(Message),
    /// The handler was aborted, or did not run: only commands, the stop and the time count.
    Nothing,
    /// The claim before this one was abandoned, once too often for the retry policy.
    GivesUp,
}

/// A write as it comes together.
struct Draft {
    state: TaskState,
    steps: Vec<Step>,
    outcomes: Vec<(u64, Outcome)>,
    settles: Vec<Waiting>,
    effects: Effects,
    drop_claim: bool,
    /// Whether the retry policy decides on the error, if there is one.
    retryable: bool,
}

impl Draft {
    /// Applies a message; on an error nothing has changed.
    fn apply(
        &mut self,
        message: &Message,
        command: Option<u64>,
        env: Env,
    ) -> Result<(StateKind, StateKind), TransitionError> {
        let next = transition(&self.state, message, env.now)?;
        let (from, to) = (self.state.code(), next.code());
        self.steps.push(Step {
            message: message.kind(),
            from,
            to,
            command,
        });
        self.state = next;
        self.drop_claim |= message.kind() == ActionKind::Release;
        self.retryable &= message.is_retryable();
        Ok((from, to))
    }
}

/// What the retry policy is asked about.
fn failure(state: &TaskState, env: Env) -> Failure<'_> {
    Failure {
        errors: state.errors.entries(),
        attempts: state.attempts,
        now: env.now,
        jitter: env.jitter,
    }
}

impl Machine {
    /// Applies what the handler returned (nothing, if it was aborted or did not run), then the
    /// commands that wait (as many as one write takes), then the stop; what comes of it is written.
    pub(super) fn settle(&mut self, cause: Cause, env: Env, out: &mut Vec<Effect>) {
        self.phase = Phase::Storing;
        // Kill always ends in killed: it waits for nobody's judgement of a failure.
        let killed = self.kill_waits();
        // What was refused once must not be sent again for ever: a result is the one thing in a
        // command that a store can find fault with.
        let results_refused = match cause {
            Cause::Returned(_) => self.refusals > 1,
            Cause::Nothing | Cause::GivesUp => self.refusals > 0,
        };
        let again = match cause {
            // The message itself is not sent again: an error takes its place.
            Cause::Returned(ref message) if !message.is_retryable() => {
                Cause::Returned(Message::fail(""))
            }
            Cause::Returned(_) => Cause::Returned(Message::error("")),
            Cause::Nothing => Cause::Nothing,
            Cause::GivesUp => Cause::GivesUp,
        };
        let mut draft = Draft {
            state: self.state.clone(),
            steps: Vec::new(),
            outcomes: Vec::new(),
            settles: Vec::new(),
            effects: Effects::default(),
            drop_claim: false,
            retryable: true,
        };
        match cause {
            Cause::Returned(message) => self.apply_returned(message, &mut draft, env),
            Cause::GivesUp if killed => {}
            Cause::GivesUp => {
                // Both steps are in the table: runnable → fault → failed.
                let last = self.state.errors.last().map_or("", |e| e.error.as_str());
                let attempts = self.state.attempts;
                let text = format!("the retry policy gives up after {attempts} attempts: {last}");
                let _ = draft.apply(&Message::error(text), None, env);
                let _ = draft.apply(&Message::error(""), None, env);
            }
            Cause::Nothing => {
                if let TaskStatus::Sleeping { until } = draft.state.status
                    && until <= env.now
                {
                    // A sleep that is over: the one transition that nobody sends.
                    let _ = draft.apply(&Message::run(), None, env);
                }
            }
        }
        if !killed {
            self.ask_policy(&mut draft, env);
        }
        while draft.outcomes.len() < self.config.max_outcomes.max(1)
            && let Some(waiting) = self.queue.pop_front()
        {
            let command = &waiting.command;
            let applied = match self.unfit_result(&command.command, &draft.state, results_refused) {
                Some(reason) => Err(reason),
                None => draft
                    .apply(&command.command.to_message(), Some(command.order), env)
                    .map_err(|why| why.to_string()),
            };
            let outcome = match applied {
                Ok((from, to)) => Outcome::Applied { from, to },
                Err(reason) => Outcome::Rejected { reason },
            };
            record(
                &mut draft.state,
                &mut draft.outcomes,
                command.order,
                outcome,
            );
            draft.settles.push(waiting);
        }
        if self.stop.is_some() && !draft.drop_claim && !draft.state.code().is_terminal() {
            let _ = draft.apply(&Message::release(), None, env);
        }
        draft.drop_claim |= match draft.state.status {
            _ if draft.state.code().is_terminal() => true,
            // There is more to be settled: the next write decides.
            _ if !self.queue.is_empty() => false,
            TaskStatus::Runnable => false,
            TaskStatus::Sleeping { until } => self.parks(until, env.now),
            _ => true,
        };
        let Draft {
            state,
            steps,
            outcomes,
            settles,
            effects,
            drop_claim,
            retryable: _,
        } = draft;
        self.persist(
            state,
            steps,
            outcomes,
            settles,
            drop_claim,
            effects,
            None,
            Some(again),
            out,
        );
    }

    fn kill_waits(&self) -> bool {
        self.queue
            .iter()
            .any(|w| w.command.command == Command::Kill)
    }

    /// Why the result that a command brings cannot be stored, if it cannot. A finished task takes
    /// no command at all, which is the better answer then.
    fn unfit_result(&self, command: &Command, state: &TaskState, refused: bool) -> Option<String> {
        let Command::Complete {
            result: Some(result),
        } = command
        else {
            return None;
        };
        if state.code().is_terminal() {
            return None;
        }
        let bytes = result.len() + state.data.as_ref().map_or(0, Json::len);
        if bytes > self.config.max_data_bytes {
            return Some(too_large("result", bytes, self.config.max_data_bytes));
        }
        refused.then(|| "result: the store refused it; send a smaller one".to_owned())
    }

    /// Whether the handler was told of a command that it has to stop for, other than a release.
    fn is_told_to_make_room(&self) -> bool {
        self.queue.iter().any(|w| {
            let command = &w.command.command;
            w.deadline.is_some() && command.aborts() && *command != Command::Release
        })
    }

    fn apply_returned(&mut self, message: Message, draft: &mut Draft, env: Env) {
        let message = self.within_limits(message, env);
        // A handler that does what the command before the kill asks, and completes, was first.
        let completes_as_told = message.kind() == ActionKind::Complete
            && self.queue.front().is_some_and(|w| {
                w.deadline.is_some() && matches!(w.command.command, Command::Complete { .. })
            });
        if self.kill_waits() && !completes_as_told {
            // Kill always ends in killed. The data is kept for whoever looks at the task later;
            // the effects are not carried out.
            if let Some(data) = message.data {
                draft.state.set_data(data, self.config.data_version);
            }
            return;
        }
        if message.kind() == ActionKind::Release && self.is_told_to_make_room() {
            // It gives way, whichever word it has for that: the command has its effect, and what
            // the handler brings along is kept.
            if let Some(data) = message.data {
                draft.state.set_data(data, self.config.data_version);
            }
            draft.effects = message.effects;
            return;
        }
        if message.kind() == ActionKind::Complete {
            self.answer_before_complete(draft, env);
        }
        let Message {
            action,
            data,
            effects,
            ..
        } = message;
        let resets = matches!(
            action,
            Action::Run | Action::Sleep { .. } | Action::Pause | Action::Checkpoint
        );
        let mut message = Message::from(action);
        message.data = data;
        message.data_version = self.config.data_version;
        let applied = match draft.apply(&message, None, env) {
            Ok(codes) => {
                let again = match draft.state.status {
                    TaskStatus::Runnable => message.kind() != ActionKind::Release,
                    TaskStatus::Sleeping { until } => until <= env.now,
                    _ => false,
                };
                let idle = again && effects.is_empty() && draft.state.data == self.state.data;
                self.pace.ends(idle, self.config.idle_runs, env.elapsed);
                draft.effects = effects;
                if resets {
                    draft.state.attempts = 0;
                    draft.state.attempts_left = None;
                }
                codes
            }
            Err(why) => {
                self.pace.reset();
                let text = format!("the handler returned a message that cannot be applied: {why}");
                message = Message::error(text);
                match draft.apply(&message, None, env) {
                    Ok(codes) => codes,
                    // Only a state in which no handler runs refuses an error; then the state stays.
                    Err(_) => return,
                }
            }
        };
        // The oldest command that the handler was told of is answered by what it returned.
        if self.queue.front().is_some_and(|w| w.deadline.is_some())
            && let Some(front) = self.queue.pop_front()
        {
            let asked = front.command.command.kind();
            let outcome = if asked == message.kind() {
                Outcome::Applied {
                    from: applied.0,
                    to: applied.1,
                }
            } else {
                Outcome::Overridden { by: message.kind() }
            };
            if let (Outcome::Applied { .. }, Some(step)) = (&outcome, draft.steps.last_mut()) {
                step.command = Some(front.command.order);
            }
            record(
                &mut draft.state,
                &mut draft.outcomes,
                front.command.order,
                outcome,
            );
            draft.settles.push(front);
        }
    }

    /// A handler that was told of a `complete` command and completes has done what it asks, also when
    /// it was told of other commands before: those are answered first, so that the completion is
    /// not rejected by itself.
    fn answer_before_complete(&mut self, draft: &mut Draft, env: Env) {
        let told = |w: &Waiting| w.deadline.is_some();
        let complete = self
            .queue
            .iter()
            .position(|w| told(w) && matches!(w.command.command, Command::Complete { .. }));
        // One place is left for the completion itself. What there is no room for is rejected by the
        // end, as what was sent later is.
        let room = self.config.max_outcomes.saturating_sub(1);
        for waiting in self.queue.drain(..complete.unwrap_or(0).min(room)) {
            let order = waiting.command.order;
            // What asks only to go on is done by this very write, before the end.
            let applied = (!waiting.command.command.aborts())
                .then(|| draft.apply(&waiting.command.command.to_message(), Some(order), env));
            let outcome = match applied {
                Some(Ok((from, to))) => Outcome::Applied { from, to },
                Some(Err(_)) | None => Outcome::Overridden {
                    by: ActionKind::Complete,
                },
            };
            record(&mut draft.state, &mut draft.outcomes, order, outcome);
            draft.settles.push(waiting);
        }
    }

    /// Data or a result that the store would refuse makes an Error of the message, and so does a start
    /// of a task beyond the year 9999. A retry does not change any of them.
    fn within_limits(&self, mut message: Message, env: Env) -> Message {
        let result = match &message.action {
            Action::Complete { result } => result.as_ref(),
            _ => None,
        };
        let parts = [(message.data.as_ref(), "data"), (result, "result")];
        for (part, field) in parts {
            if let Some(Err(e)) = part.map(|part| part.check_depth(field)) {
                return Message::fail(e);
            }
        }
        if let Err(e) = message.resolve_starts(env.now) {
            return Message::fail(e);
        }
        let limit = self.config.max_data_bytes;
        let data = message
            .data
            .as_ref()
            .or(self.state.data.as_ref())
            .map_or(0, |d| d.len());
        let result = match &message.action {
            Action::Complete {
                result: Some(result),
            } => result.len(),
            _ => 0,
        };
        let size = Size { data, result };
        if size.fits(limit) || (message.data.is_none() && result == 0) {
            return message;
        }
        Message::fail(too_large(size.largest(), size.bytes(), limit))
    }

    /// `fault` asks the retry policy at once, unless a retry cannot fix the error.
    fn ask_policy(&self, draft: &mut Draft, env: Env) {
        if draft.state.code() != StateKind::Fault {
            return;
        }
        draft.state.attempts = draft.state.attempts.saturating_add(1);
        let policy = &*self.config.retry;
        let decision = if draft.retryable {
            self.decide(&draft.state, policy, env)
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
            // The error is in the log already.
            Decision::Fail => Message::error(""),
        };
        if draft.apply(&answer, None, env).is_err() {
            // The policy asked for a sleep beyond the year 9999: that is giving up.
            let _ = draft.apply(
                &Message::error("the retry policy asked for an endless sleep"),
                None,
                env,
            );
        }
    }

    fn decide(&self, state: &TaskState, policy: &dyn RetryPolicy, env: Env) -> Decision {
        let failure = failure(state, env);
        catch_unwind(AssertUnwindSafe(|| policy.decide(&failure)))
            .unwrap_or_else(|_| Retry::default().decide(&failure))
    }

    /// An abandoned claim counts as an attempt: when the policy would give up now, the task has
    /// failed; otherwise it runs at once, since its own handler is not known to be at fault.
    pub(super) fn gives_up_after_abandonment(&self, env: Env) -> bool {
        self.abandoned
            && self.state.code() == StateKind::Runnable
            && self.decide(&self.state, &*self.config.retry, env) == Decision::Fail
    }
}
