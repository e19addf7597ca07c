//! [`Message`]: what a handler returns, which causes a transition.

mod action;
mod effects;
mod replies;
mod signal;
mod submits;
mod waits;

use std::{fmt, marker::PhantomData, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

pub use crate::operation::SendCommand;
use crate::{
    AwaitedSignal, Invalid, Json,
    job::{FIRST_DATA_VERSION, TaskData, TaskOutput, Untyped},
    waits::Waits,
};
pub use action::{Action, ActionKind, Wake};
pub use effects::Effects;
pub use submits::SubmitTask;
pub(crate) use submits::Times;

/// What a handler returns: an action, with new data and effects if it has any. The data and the result of
/// a `Message<J>` have the types of the [`Job`](crate::Job).
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_statemachine::Message;
///
/// let message: Message = Message::sleep_for(Duration::from_secs(60)).with_data(&42);
/// assert_eq!(message.data().unwrap().as_str(), "42");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
pub struct Message<J = Untyped> {
    pub(crate) body: Body,
    job: PhantomData<fn() -> J>,
}

/// A message without the type of its task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Body {
    pub(crate) action: Action,
    pub(crate) data: Option<Json>,
    /// The version of the data. The machine sets it to the version that the kind writes.
    pub(crate) data_version: u32,
    /// Boxed: most messages have none.
    pub(crate) effects: Box<Effects>,
    /// The tasks to wait for, in a sleep.
    pub(crate) waits: Option<Box<Waits>>,
    /// The signal to wait for, in a pause or a sleep.
    pub(crate) awaited_signal: Option<Box<AwaitedSignal>>,
    /// Replies to signals, by their order.
    pub(crate) answers: Vec<(u64, Json)>,
    /// Whether signals without a reply stay in the queue.
    pub(crate) keeps_signals: bool,
    /// The submitted tasks with times that count from when the message is applied: their index, and the times.
    times: Vec<(usize, Times)>,
    /// Whether an effect had an invalid name. The message then takes no further effects.
    refused: bool,
}

impl<J> From<Action> for Message<J> {
    fn from(action: Action) -> Self {
        Self {
            body: Body {
                action,
                data: None,
                data_version: FIRST_DATA_VERSION,
                effects: Box::default(),
                waits: None,
                awaited_signal: None,
                answers: Vec::new(),
                keeps_signals: false,
                times: Vec::new(),
                refused: false,
            },
            job: PhantomData,
        }
    }
}

impl<J> Clone for Message<J> {
    fn clone(&self) -> Self {
        Self {
            body: self.body.clone(),
            job: PhantomData,
        }
    }
}

impl<J> PartialEq for Message<J> {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body
    }
}

impl<J> fmt::Debug for Message<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.fmt(f)
    }
}

impl<J> Message<J> {
    /// Returns a message that runs the handler again, from the top.
    pub fn run() -> Self {
        Action::Run.into()
    }

    /// Returns a message that sleeps until `until`. A time in the past wakes the task at once.
    pub fn sleep_until(until: Timestamp) -> Self {
        Action::Sleep {
            until: Wake::At(until),
        }
        .into()
    }

    /// Returns a message that sleeps for `wait`, counted from when the message is applied. A
    /// wake-up after `9999-12-30T22:00:00Z` makes it an [`error`](Self::error).
    pub fn sleep_for(wait: Duration) -> Self {
        Action::Sleep {
            until: Wake::After(wait),
        }
        .into()
    }

    /// Returns a message that pauses the task until the next command.
    pub fn pause() -> Self {
        Action::Pause.into()
    }

    /// Returns a message that releases the claim, so that another node (or this one, later)
    /// continues.
    pub fn release() -> Self {
        Action::Release.into()
    }

    /// Returns a message that persists data (see [`with_data`](Self::with_data)) and runs the
    /// handler again.
    pub fn checkpoint() -> Self {
        Action::Checkpoint.into()
    }

    /// Fails the attempt; the retry policy decides what follows. The text (an error, or anything that
    /// implements `Display`) is kept in the task's error log. Use [`fail`](Self::fail) for an error
    /// that a retry cannot fix.
    pub fn error(error: impl std::fmt::Display) -> Self {
        Action::Error {
            error: error.to_string(),
            retryable: true,
        }
        .into()
    }

    /// Fails the task at once, whatever its retry policy says, because a retry cannot fix the
    /// error. The task keeps props, data and errors, and an explicit retry runs it again.
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

    /// Turns an error into one that a retry cannot fix, like [`fail`](Self::fail). Other messages
    /// stay as they are.
    #[must_use]
    pub fn not_retried(mut self) -> Self {
        if let Action::Error { retryable, .. } = &mut self.body.action {
            *retryable = false;
        }
        self
    }

    /// Completes the task without a result. A typed task then has the output `()`.
    pub fn complete() -> Self
    where
        J: TaskOutput<()>,
    {
        Action::Complete { result: None }.into()
    }

    /// Completes the task with a result: the output of the [`Job`](crate::Job), or any value with a JSON
    /// form. A value without one (a map whose keys are not text) makes the message a [`fail`](Self::fail)
    /// that says so.
    pub fn complete_with<T: Serialize>(result: T) -> Self
    where
        J: TaskOutput<T>,
    {
        match Json::new("result", &result) {
            Ok(json) => Action::Complete { result: Some(json) }.into(),
            Err(error) => Self::refused(error),
        }
    }

    /// Ends the task for good, as killed.
    pub fn kill() -> Self {
        Action::Kill.into()
    }

    /// Adds new data, which replaces the data of the task. A value without a JSON form (a map whose keys
    /// are not text) makes the message a [`fail`](Self::fail) that says so, without effects.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self
    where
        J: TaskData<T>,
    {
        match Json::new("data", data) {
            Ok(json) => {
                self.body.data = Some(json);
                self
            }
            Err(error) => Self::refused(error),
        }
    }

    /// Returns a failure for a value that has no JSON form. It takes no effects.
    fn refused(error: Invalid) -> Self {
        let mut failed = Self::fail(error);
        failed.body.refused = true;
        failed
    }

    /// Adds new data that is already JSON.
    #[must_use]
    pub fn with_json(mut self, data: Json) -> Self {
        self.body.data = Some(data);
        self
    }

    /// Returns the action of the message.
    pub fn action(&self) -> &Action {
        &self.body.action
    }

    /// Returns the name of the action.
    pub fn kind(&self) -> ActionKind {
        self.body.action.kind()
    }

    /// Returns whether the retry policy decides on an error: false for [`fail`](Self::fail), true
    /// otherwise.
    pub fn is_retryable(&self) -> bool {
        let Action::Error { retryable, .. } = &self.body.action else {
            return true;
        };
        *retryable
    }

    /// Returns the new data; `None` keeps the data of the task.
    pub fn data(&self) -> Option<&Json> {
        self.body.data.as_ref()
    }

    /// Returns the same message without the type of its task.
    pub fn untyped(self) -> Message {
        Message {
            body: self.body,
            job: PhantomData,
        }
    }

    /// Returns the effects of the message, which happen in the same write. The durations of a [`SubmitTask`] become times
    /// when the message is applied.
    pub fn effects(&self) -> &Effects {
        &self.body.effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Kind, Task, TaskId};

    #[test]
    fn each_effect_alone_is_an_effect() {
        let (id, kind): (TaskId, Kind) = ("t".parse().unwrap(), "k".parse().unwrap());
        let submits: Message = Message::run().and_submit(Task::new(id.clone(), kind));
        let sends: Message = Message::run().and_send(id, "c", Command::Run);
        assert!(Message::<Untyped>::run().effects().is_empty());
        assert!(!submits.effects().is_empty());
        assert!(!sends.effects().is_empty());
        let change = crate::Reschedule::new("t".parse().unwrap());
        for message in [
            Message::<Untyped>::run().and_delete("t"),
            Message::run().and_retry("t"),
            Message::run().and_reschedule(change),
            Message::run().and_require("t", crate::Require::Absent),
        ] {
            assert!(!message.effects().is_empty(), "{message:?}");
        }
    }
}
