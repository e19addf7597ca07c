//! [`Draft`]: one write while it is being put together.

use super::{Env, Step, phase::Waiting, signals::Open};
use crate::{
    ActionKind, Command, Effects, Json, Message, Outcome, StateKind, TaskState, TransitionError,
    state::{LastCommand, Pause},
    transition,
};

/// A write while it is being put together.
pub(super) struct Draft {
    pub(super) state: TaskState,
    pub(super) steps: Vec<Step>,
    pub(super) outcomes: Vec<(u64, Outcome)>,
    /// The commands whose outcomes the write stores.
    pub(super) settles: Vec<Waiting>,
    /// The signals whose outcomes the write stores.
    pub(super) signals: Vec<Open>,
    pub(super) effects: Effects,
    pub(super) drop_claim: bool,
    /// Whether the retry policy decides on the error of the draft, if it has one.
    pub(super) retryable: bool,
}

impl Draft {
    /// Returns a write that changes nothing, on top of a durable state.
    pub(super) fn new(durable: &TaskState) -> Self {
        Self {
            state: durable.clone(),
            steps: Vec::new(),
            outcomes: Vec::new(),
            settles: Vec::new(),
            signals: Vec::new(),
            effects: Effects::default(),
            drop_claim: false,
            retryable: true,
        }
    }

    /// Applies a message. On an error, changes nothing.
    pub(super) fn apply(
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

    /// Keeps the data of a message that is not applied, because a kill or a missed deadline comes before it.
    pub(super) fn keep_data(&mut self, data: Option<Json>, version: u32, env: Env) {
        if let Some(data) = data {
            self.state.set_data(data, version, env.now);
        }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.state.code().is_terminal()
    }

    /// Applies a command that does not stop the running handler, and settles the command.
    pub(super) fn apply_while_running(&mut self, waiting: Waiting) {
        let code = self.state.code();
        self.steps.push(Step {
            message: waiting.command.command.kind(),
            from: code,
            to: code,
            command: Some(waiting.command.order),
        });
        let outcome = Outcome::Applied {
            from: code,
            to: code,
        };
        self.settle(waiting, outcome);
    }

    /// Records the outcome of a signal. Leaves the last command unchanged, because signals are
    /// settled out of order.
    pub(super) fn settle_signal(&mut self, open: Open, outcome: Outcome) {
        self.state.delivered(open.queued.order, open.received);
        self.outcomes.push((open.queued.order, outcome));
        self.signals.push(open);
    }

    /// Records the outcome of a command.
    pub(super) fn settle(&mut self, waiting: Waiting, outcome: Outcome) {
        let order = waiting.command.order;
        let is_pause = waiting.command.command == Command::Pause;
        if is_pause && outcome.is_applied() && self.state.code() == StateKind::Paused {
            let pause = Pause::of(&waiting.command).interrupting(&self.state);
            self.state.paused = Some(Box::new(pause));
        }
        self.state.last_command = Some(LastCommand {
            order,
            outcome: outcome.clone(),
        });
        self.state.delivered(order, waiting.received);
        self.outcomes.push((order, outcome));
        self.settles.push(waiting);
    }
}
