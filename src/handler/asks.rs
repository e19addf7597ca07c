//! [`Ask`]: what a running handler asks its runner to write.

use tokio::sync::oneshot;
use windlass_statemachine::{
    Json,
    machine::{Answer, Input},
};

/// A request of a running handler to its runner.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) what: Asked,
    pub(crate) answer: oneshot::Sender<Result<(), String>>,
}

/// What a running handler asks its runner to write.
#[derive(Debug)]
pub(crate) enum Asked {
    /// This data.
    Checkpoint(Json),
    /// The reply to a signal.
    Answer(Answer),
}

impl Asked {
    /// Returns the input of the machine that writes it.
    pub(crate) fn input(self, ticket: u64) -> Input {
        match self {
            Self::Checkpoint(data) => Input::Checkpoint { ticket, data },
            Self::Answer(answer) => Input::Answer { ticket, answer },
        }
    }
}

/// What a running handler sends to its runner.
#[derive(Debug)]
pub(crate) enum Sent {
    /// A request that is answered.
    Ask(Ask),
    /// It has reported progress, which the runner reads when it stores it.
    Progress,
}

/// Takes what a handler sends to the runner; false when the runner is gone.
pub(crate) struct AskRunner(pub(crate) Box<dyn Fn(Sent) -> bool + Send + Sync>);

impl std::fmt::Debug for AskRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AskRunner")
    }
}
