//! Applies a handler's return to the state and to the commands that were delivered to it.

use super::{Env, Machine, draft::Draft, limits::too_large, phase::Waiting};
use crate::{Action, ActionKind, Command, Effects, Message, Outcome, TaskStatus, message::Body};

/// Returns whether this return clears the outcomes of the wait before the run. A further attempt, a
/// further run after a checkpoint and a run on another node get the outcomes again; an ended task
/// keeps its wait for a retry.
fn clears_wait(returned: ActionKind) -> bool {
    matches!(
        returned,
        ActionKind::Run | ActionKind::Sleep | ActionKind::Pause
    )
}

/// Returns whether the handler was sent this command, and the command asks for completion.
fn is_delivered_complete(waiting: &Waiting) -> bool {
    waiting.is_delivered() && matches!(waiting.command.command, Command::Complete { .. })
}

/// Returns what counts of a message that a kill or a missed deadline comes before: its data and its replies. Of a message with
/// effects nothing counts, because the effects are not carried out, and a retry would take them for done.
pub(super) fn overtaken(mut message: Message) -> Message {
    if !message.body.effects.is_empty() {
        message.body.data = None;
        message.body.answers.clear();
        *message.body.effects = Effects::default();
    }
    message
}

impl Machine {
    /// Returns whether a queued kill comes before a message. A handler that completes because of a command before the kill takes
    /// precedence.
    pub(super) fn is_killed_before(&self, message: &Message) -> bool {
        let completes_as_asked = message.kind() == ActionKind::Complete
            && self.queue.front().is_some_and(is_delivered_complete);
        self.has_kill() && !completes_as_asked
    }

    pub(super) fn apply_returned(&mut self, message: Message, draft: &mut Draft, env: Env) {
        if self.is_killed_before(&message) {
            // A kill always ends in killed.
            draft.keep_data(message.body.data, self.config.data_version, env);
            return;
        }
        if message.kind() == ActionKind::Release && self.is_asked_to_make_room() {
            // The handler stopped as asked. The command takes effect, and the handler's data and
            // effects are kept.
            draft.keep_data(message.body.data, self.config.data_version, env);
            draft.effects = *message.body.effects;
            return;
        }
        if message.kind() == ActionKind::Complete {
            self.settle_before_complete(draft, env);
        }
        let Body {
            action,
            data,
            effects,
            waits,
            awaited_signal,
            ..
        } = message.body;
        let resets = matches!(
            action,
            Action::Run | Action::Sleep { .. } | Action::Pause | Action::Checkpoint
        );
        let mut message: Message = action.into();
        message.body.data = data;
        message.body.data_version = self.config.data_version;
        message.body.waits = waits;
        message.body.awaited_signal = awaited_signal;
        let (waits, signal) = (
            draft.state.waits.clone(),
            draft.state.awaited_signal.clone(),
        );
        if clears_wait(message.kind()) {
            (draft.state.waits, draft.state.awaited_signal) = (None, None);
        }
        let applied = match draft.apply(&message, None, env) {
            Ok((from, to)) => {
                let again = match draft.state.status {
                    TaskStatus::Runnable => message.kind() != ActionKind::Release,
                    TaskStatus::Sleeping { until } => until <= env.now,
                    _ => false,
                };
                let replied = !draft.signals.is_empty();
                let changes = replied || !effects.changes_nothing();
                let idle = again && !changes && draft.state.data == self.state.data;
                self.pace.ends(idle, self.config.idle_runs, env.elapsed);
                draft.effects = *effects;
                if resets {
                    draft.state.attempts = 0;
                    draft.state.attempts_left = None;
                }
                Outcome::Applied { from, to }
            }
            Err(why) => {
                (draft.state.waits, draft.state.awaited_signal) = (waits, signal);
                self.pace.reset();
                let text = format!("the handler returned a message that cannot be applied: {why}");
                message = Message::error(text);
                match draft.apply(&message, None, env) {
                    Ok((from, to)) => Outcome::Applied { from, to },
                    // An error is refused only in a state in which no handler runs; the state then
                    // stays.
                    Err(_) => return,
                }
            }
        };
        self.settle_oldest_delivered(message.kind(), applied, draft);
    }

    /// Settles the oldest command that was delivered to the handler: applied when the handler
    /// returned what the command asks for, otherwise overridden.
    fn settle_oldest_delivered(&mut self, by: ActionKind, applied: Outcome, draft: &mut Draft) {
        if !self.queue.front().is_some_and(Waiting::is_delivered) {
            return;
        }
        let Some(front) = self.queue.pop_front() else {
            return;
        };
        if front.command.command.kind() != by {
            return draft.settle(front, Outcome::Overridden { by });
        }
        if let Some(step) = draft.steps.last_mut() {
            step.command = Some(front.command.order);
        }
        draft.settle(front, applied);
    }

    /// Settles the commands before a `complete` command that was delivered, when the handler completes:
    /// its completion carries out that command. They are settled first, so that the completion does not
    /// reject itself.
    fn settle_before_complete(&mut self, draft: &mut Draft, env: Env) {
        let complete = self.queue.iter().position(is_delivered_complete);
        // One place is reserved for the completion itself. Commands that do not fit are rejected
        // because the task has ended, like later ones.
        let room = self.config.max_outcomes.saturating_sub(1);
        let room = room.saturating_sub(draft.outcomes.len());
        for waiting in self.queue.drain(..complete.unwrap_or(0).min(room)) {
            let command = &waiting.command.command;
            // A command that only asks to continue is applied by this write, before the end.
            let applied = (!command.aborts()).then(|| {
                let order = waiting.command.order;
                draft.apply(&command.to_message(), Some(order), env)
            });
            let outcome = match applied {
                Some(Ok((from, to))) => Outcome::Applied { from, to },
                Some(Err(_)) | None => Outcome::Overridden {
                    by: ActionKind::Complete,
                },
            };
            draft.settle(waiting, outcome);
        }
    }

    /// Returns whether a command other than a release was delivered for which the handler has to
    /// stop.
    fn is_asked_to_make_room(&self) -> bool {
        self.queue.iter().any(|waiting| {
            let command = &waiting.command.command;
            waiting.is_delivered() && command.aborts() && *command != Command::Release
        })
    }

    pub(super) fn has_kill(&self) -> bool {
        let mut queue = self.queue.iter();
        queue.any(|waiting| waiting.command.command == Command::Kill)
    }

    /// Returns the reason why the result of a command cannot be stored; `None` when it can. Also
    /// `None` for a finished task: it rejects every command, which is the better reason.
    pub(super) fn unfit_result(
        &self,
        command: &Command,
        draft: &Draft,
        refused: bool,
    ) -> Option<String> {
        let Command::Complete {
            result: Some(result),
        } = command
        else {
            return None;
        };
        if draft.state.code().is_terminal() {
            return None;
        }
        let bytes = result.len() + draft.state.data.as_ref().map_or(0, crate::Json::len);
        if bytes > self.config.max_data_bytes {
            return Some(too_large("result", bytes, self.config.max_data_bytes));
        }
        refused.then(|| "result: the store refused it; send a smaller one".to_owned())
    }
}
