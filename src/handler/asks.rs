//! [`Ask`]: a write that a running handler requests from its runner.

use tokio::sync::oneshot;
use windlass_statemachine::{
    Json, StateKind,
    machine::{Answer, Input},
};

/// A request of a running handler to its runner.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) what: Asked,
    pub(crate) answer: oneshot::Sender<Result<(), String>>,
}

/// The write that is requested.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Stores this data.
    Checkpoint(Json),
    /// Stores the reply to a signal.
    Answer(Answer),
}

impl Asked {
    /// Returns the machine's input for the write.
    pub(crate) fn input(self, ticket: u64) -> Input {
        match self {
            Self::Checkpoint(data) => Input::Checkpoint { ticket, data },
            Self::Answer(answer) => Input::Answer { ticket, answer },
        }
    }
}

/// A message from a running handler to its runner.
#[derive(Debug)]
pub(crate) enum Sent {
    /// A request that the runner replies to.
    Ask(Ask),
    /// The handler has reported progress, which the runner reads when it stores it.
    Progress,
    /// The handler has logged lines, which the runner takes when it writes them.
    Logged,
    /// The handler is about to return a message, and a caller waits until it is stored.
    Returns(Stored),
}

/// Receives the state of the task when the message of a handler is stored, or the reason why the store refused the
/// message. Dropped if the claim ends before that.
#[derive(Debug)]
pub(crate) struct Stored(pub(crate) oneshot::Sender<Result<StateKind, String>>);

/// Passes a message of the handler to the runner. Returns false when the runner is gone.
pub(crate) struct AskRunner(pub(crate) Box<dyn Fn(Sent) -> bool + Send + Sync>);

impl std::fmt::Debug for AskRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AskRunner")
    }
}
