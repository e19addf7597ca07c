//! [`Message`]: what causes a transition. A handler returns one.

mod effects;
mod replies;
mod waits;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use effects::{Effects, SendCommand, SubmitTask};

use crate::{Invalid, Json, state::FIRST_DATA_VERSION, time::LAST, waits::Waits};

/// When a sleep ends: at a time, or a while after the message is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At this time. A time that is past wakes at once.
    At(Timestamp),
    /// This long after the message is applied.
    After(Duration),
}

impl Wake {
    /// Returns the time of the wake-up of a message that is applied at `now`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `until`) when it is beyond the last time, `9999-12-30T22:00:00Z`.
    pub fn resolve(self, now: Timestamp) -> Result<Timestamp, Invalid> {
        match self {
            Self::At(at) => Ok(at),
            Self::After(wait) => SignedDuration::try_from(wait)
                .ok()
                .and_then(|wait| now.checked_add(wait).ok())
                .ok_or_else(|| {
                    let beyond = format!("is beyond {LAST}; sleep for a shorter time");
                    Invalid::new("until", beyond)
                }),
        }
    }
}

/// The name of a message, as it appears in tables, histories and outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Run the handler (again).
    Run,
    /// Sleep until a time.
    Sleep,
    /// Wait for a command.
    Pause,
    /// Release the claim; another node (or this one) goes on.
    Release,
    /// Persist and go on.
    Checkpoint,
    /// The attempt failed; the retry policy decides.
    Error,
    /// The task is done.
    Complete,
    /// The task is ended for good.
    Kill,
    /// A signal to the handler: a command only. It wakes the task as Run does.
    Signal,
}

impl ActionKind {
    /// Every message, in the order of the transition table. A signal is none: no handler returns it.
    pub const ALL: [Self; 8] = [
        Self::Run,
        Self::Sleep,
        Self::Pause,
        Self::Release,
        Self::Checkpoint,
        Self::Error,
        Self::Complete,
        Self::Kill,
    ];

    /// The lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Sleep => "sleep",
            Self::Pause => "pause",
            Self::Release => "release",
            Self::Checkpoint => "checkpoint",
            Self::Error => "error",
            Self::Complete => "complete",
            Self::Kill => "kill",
            Self::Signal => "signal",
        }
    }
}

impl std::fmt::Display for ActionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for ActionKind {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut all = Self::ALL.into_iter().chain([Self::Signal]);
        all.find(|a| a.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.iter().chain([&Self::Signal]);
            let names: Vec<_> = all.map(|a| a.as_str()).collect();
            Invalid::new(
                "message",
                format!("'{text}' is none of {}", names.join(", ")),
            )
        })
    }
}

/// What a message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run the handler (again).
    Run,
    /// Sleep until a time.
    Sleep {
        /// When to wake.
        until: Wake,
    },
    /// Wait for a command.
    Pause,
    /// Release the claim; another node (or this one) goes on.
    Release,
    /// Persist and go on.
    Checkpoint,
    /// The attempt failed.
    Error {
        /// What went wrong; kept in the task's error log.
        error: String,
        /// Whether the retry policy decides what follows. Otherwise the task fails at once.
        retryable: bool,
    },
    /// The task is done.
    Complete {
        /// The result of the task.
        result: Option<Json>,
    },
    /// The task is ended for good.
    Kill,
}

impl Action {
    /// The name of the action.
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Run => ActionKind::Run,
            Self::Sleep { .. } => ActionKind::Sleep,
            Self::Pause => ActionKind::Pause,
            Self::Release => ActionKind::Release,
            Self::Checkpoint => ActionKind::Checkpoint,
            Self::Error { .. } => ActionKind::Error,
            Self::Complete { .. } => ActionKind::Complete,
            Self::Kill => ActionKind::Kill,
        }
    }
}

/// What a handler returns: an action, with new data and effects if it has any.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_statemachine::Message;
///
/// let message = Message::sleep_for(Duration::from_secs(60)).with_data(&42);
/// assert_eq!(message.data().unwrap().as_str(), "42");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub(crate) action: Action,
    pub(crate) data: Option<Json>,
    /// The version of the data: the machine sets it to the one that the kind writes.
    pub(crate) data_version: u32,
    /// Boxed: most messages have none.
    pub(crate) effects: Box<Effects>,
    /// The tasks to wait for, of a sleep.
    pub(crate) waits: Option<Box<Waits>>,
    /// Replies to signals, by their order.
    pub(crate) answers: Vec<(u64, Json)>,
    /// Whether signals without a reply stay in the queue.
    pub(crate) keeps_signals: bool,
    /// The submitted tasks that start a while after the message is applied, by their index, with that
    /// while.
    starts: Vec<(usize, Duration)>,
    /// Whether an effect had an invalid name. The message then takes no further effects.
    refused: bool,
}

impl From<Action> for Message {
    fn from(action: Action) -> Self {
        Self {
            action,
            data: None,
            data_version: FIRST_DATA_VERSION,
            effects: Box::default(),
            waits: None,
            answers: Vec::new(),
            keeps_signals: false,
            starts: Vec::new(),
            refused: false,
        }
    }
}

impl Message {
    /// Run the handler again, from the top.
    pub fn run() -> Self {
        Action::Run.into()
    }

    /// Sleep until `until`; a time that is past wakes at once.
    pub fn sleep_until(until: Timestamp) -> Self {
        Action::Sleep {
            until: Wake::At(until),
        }
        .into()
    }

    /// Sleep for `wait` from when the message is applied. Beyond the last time the message becomes
    /// an [`error`](Self::error).
    pub fn sleep_for(wait: Duration) -> Self {
        Action::Sleep {
            until: Wake::After(wait),
        }
        .into()
    }

    /// Wait for a command.
    pub fn pause() -> Self {
        Action::Pause.into()
    }

    /// Release the claim, so that another node (or this one, later) goes on.
    pub fn release() -> Self {
        Action::Release.into()
    }

    /// Persist (with [`with_data`](Self::with_data)) and run the handler again.
    pub fn checkpoint() -> Self {
        Action::Checkpoint.into()
    }

    /// The attempt failed; the retry policy decides what follows. The text (an error, or anything
    /// that prints) is kept in the task's error log. [`fail`](Self::fail) is for an error that a retry
    /// cannot fix.
    pub fn error(error: impl std::fmt::Display) -> Self {
        Action::Error {
            error: error.to_string(),
            retryable: true,
        }
        .into()
    }

    /// The attempt failed, and a retry cannot fix the error: the task fails at once, whatever its
    /// retry policy says. It keeps props, data and errors, and an explicit retry runs it again.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{StateKind, Message};
    ///
    /// fn deliver(address: &str) -> Message {
    ///     match address.parse::<std::net::SocketAddr>() {
    ///         Ok(_) => Message::error("timed out"),
    ///         Err(e) => Message::fail(format_args!("{address}: {e}")),
    ///     }
    /// }
    /// assert!(deliver("127.0.0.1:25").is_retryable());
    /// assert!(!deliver("nowhere").is_retryable());
    /// ```
    pub fn fail(error: impl std::fmt::Display) -> Self {
        Action::Error {
            error: error.to_string(),
            retryable: false,
        }
        .into()
    }

    /// The same message; an error is one that a retry cannot fix, as of [`fail`](Self::fail).
    #[must_use]
    pub fn not_retried(mut self) -> Self {
        if let Action::Error { retryable, .. } = &mut self.action {
            *retryable = false;
        }
        self
    }

    /// The task is done.
    pub fn complete() -> Self {
        Action::Complete { result: None }.into()
    }

    /// Completes the task with a result: anything that has a JSON form. A value without one (a map
    /// whose keys are not text) makes it a [`fail`](Self::fail) that says so.
    pub fn complete_with<T: Serialize + ?Sized>(result: &T) -> Self {
        match Json::new("result", result) {
            Ok(json) => Action::Complete { result: Some(json) }.into(),
            Err(error) => Self::refused(error),
        }
    }

    /// The task is ended for good.
    pub fn kill() -> Self {
        Action::Kill.into()
    }

    /// Adds new data, which replaces the data of the task. A value without a JSON form (a map whose keys
    /// are not text) turns the message into a [`fail`](Self::fail) that says so, without effects.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        match Json::new("data", data) {
            Ok(json) => {
                self.data = Some(json);
                self
            }
            Err(error) => Self::refused(error),
        }
    }

    /// A failure for a value that has no JSON form. It takes no effects.
    fn refused(error: Invalid) -> Self {
        let mut failed = Self::fail(error);
        failed.refused = true;
        failed
    }

    /// The same message with data that is JSON already.
    #[must_use]
    pub fn with_json(mut self, data: Json) -> Self {
        self.data = Some(data);
        self
    }

    /// What the message asks for.
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// The name of what the message asks for.
    pub fn kind(&self) -> ActionKind {
        self.action.kind()
    }

    /// Whether the retry policy decides if the message is an error: true for all but
    /// [`fail`](Self::fail).
    pub fn is_retryable(&self) -> bool {
        let Action::Error { retryable, .. } = &self.action else {
            return true;
        };
        *retryable
    }

    /// The new data; `None` keeps the data of the task.
    pub fn data(&self) -> Option<&Json> {
        self.data.as_ref()
    }

    /// The effects that happen in the same write. A task with a [`start_in`](SubmitTask::start_in) gets
    /// its `start_at` when the message is applied.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Kind, Task, TaskId};

    #[test]
    fn each_effect_alone_is_an_effect() {
        let (id, kind): (TaskId, Kind) = ("t".parse().unwrap(), "k".parse().unwrap());
        let submits = Message::run().and_submit(Task::new(id.clone(), kind));
        let sends = Message::run().and_send(id, "c", Command::Run);
        assert!(Message::run().effects().is_empty());
        assert!(!submits.effects().is_empty());
        assert!(!sends.effects().is_empty());
        let change = crate::Reschedule::new("t".parse().unwrap());
        for message in [
            Message::run().and_delete("t"),
            Message::run().and_retry("t"),
            Message::run().and_reschedule(change),
            Message::run().and_require("t", crate::Require::Absent),
        ] {
            assert!(!message.effects().is_empty(), "{message:?}");
        }
    }
}
