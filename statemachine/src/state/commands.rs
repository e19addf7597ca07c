//! What a state says of the commands that were applied to its task.

use serde::{Deserialize, Serialize};

use crate::Outcome;

/// The last command that was applied to a task; signals are not counted. It shows whether a command has taken effect
/// to a reader that has only a state store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LastCommand {
    /// The place of the command in the queue.
    pub order: u64,
    /// The outcome of the command.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl LastCommand {
    /// Returns a command by its place in the queue, with its outcome.
    pub fn new(order: u64, outcome: Outcome) -> Self {
        Self { order, outcome }
    }
}

/// A signal that got its outcome in the same write as the state, when the state is stored apart from
/// the queue. After a crash between the two writes the queue gets the outcome from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettledSignal {
    /// The place of the signal in the queue.
    pub order: u64,
    /// The outcome of the signal.
    pub outcome: Outcome,
}
