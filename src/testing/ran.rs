//! [`Ran`]: the result of one run of a handler.

use serde::de::DeserializeOwned;
use windlass_statemachine::{Action, ActionKind, Invalid, Json, Message, Progress};

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    pub(super) before: Option<Json>,
    pub(super) message: Message,
    pub(super) checkpoints: Vec<Json>,
    pub(super) replies: Vec<Json>,
    pub(super) progress: Option<Progress>,
}

impl Ran {
    /// Returns the message of the handler.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the kind of the message.
    pub fn kind(&self) -> ActionKind {
        self.message.kind()
    }

    /// Returns the data of the checkpoints, oldest first.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `data`) when one is not of that type.
    pub fn checkpoints<T: DeserializeOwned>(&self) -> Result<Vec<T>, Invalid> {
        self.checkpoints.iter().map(|c| c.get("data")).collect()
    }

    /// Returns the replies to signals, in the order of the replies; those of the message come last.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `reply`) when one is not of that type.
    pub fn replies<T: DeserializeOwned>(&self) -> Result<Vec<T>, Invalid> {
        self.replies.iter().map(|r| r.get("reply")).collect()
    }

    /// Returns the data for the next run: that of the message, or else of the last checkpoint, or else
    /// of the call.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `data`) when it is not of that type.
    pub fn data<T: DeserializeOwned>(&self) -> Result<Option<T>, Invalid> {
        let data = self.message.data().or(self.checkpoints.last());
        let data = data.or(self.before.as_ref());
        data.map(|json| json.get("data")).transpose()
    }

    /// Returns the result of a Complete message; `None` when it has none, and for other messages.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `result`) when it is not of that type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, Invalid> {
        match self.message.action() {
            Action::Complete {
                result: Some(result),
            } => result.get("result").map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the text of an Error message; `None` for other messages.
    pub fn error(&self) -> Option<&str> {
        match self.message.action() {
            Action::Error { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns the last progress that the handler reported.
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }
}
