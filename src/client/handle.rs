//! [`Handle`]: a task that was submitted, with the type of its output.

use std::{fmt, marker::PhantomData};

use serde::de::DeserializeOwned;
use windlass_statemachine::{Invalid, Json, StateKind, TaskId, TaskOutput, TaskStatus, Untyped};

use super::{Client, Done};
use crate::store::{Error, Submitted};

/// A task that was submitted. Holds the id and a client; dropping it has no effect.
///
/// Every method of [`Client`] that takes an id takes a reference to a handle.
///
/// # Example
///
/// ```
/// use windlass::{Client, Command, NewTask, store::Store};
///
/// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let task = client.submit(NewTask::new("mail").id("welcome-7")).await?;
/// assert!(task.is_new());
/// client.command(&task, Command::Kill).await?;
/// assert_eq!(client.get("welcome-7").await?.task.id, *task.id());
/// # Ok(()) }
/// ```
pub struct Handle<J = Untyped> {
    client: Client,
    id: TaskId,
    submitted: Option<Submitted>,
    job: PhantomData<fn() -> J>,
}

impl<J> Handle<J> {
    pub(super) fn new(client: Client, id: TaskId, submitted: Option<Submitted>) -> Self {
        Self {
            client,
            id,
            submitted,
            job: PhantomData,
        }
    }

    /// Returns the id of the task.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Returns the id of the task, and drops the client.
    pub fn into_id(self) -> TaskId {
        self.id
    }

    /// Returns whether the submit made a new task. False when the same task existed
    /// ([`NewTask::idempotent`](crate::NewTask::idempotent)), and for a handle of
    /// [`Client::handle`].
    pub fn is_new(&self) -> bool {
        self.submitted == Some(Submitted::New)
    }

    /// Returns the state of the existing task that the submit found; `None` when the submit made a
    /// new task.
    pub fn existing(&self) -> Option<StateKind> {
        match self.submitted {
            Some(Submitted::Existing(code) | Submitted::Other { state: code, .. }) => Some(code),
            Some(Submitted::New) | None => None,
        }
    }

    /// Waits until the task has ended, and returns its record, as [`Client::wait`].
    ///
    /// # Errors
    ///
    /// Those of [`Client::wait`].
    pub async fn done(&self) -> Result<Done, Error> {
        self.client.wait(&self.id).await
    }
}

impl<J> Handle<J> {
    /// Waits until the task has ended, and returns its output, as the output type of the
    /// [`Job`](crate::Job) or as a type of your choice.
    ///
    /// # Errors
    ///
    /// [`WaitError`]: the task has failed or was killed, its result is of another type, or the store
    /// reports an error.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Message, NewTask, Runner, Store, TaskContext};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let answer = |_: TaskContext| async { Message::complete_with(42) };
    /// let runner = Runner::builder(&store).handler("answer", answer).start().await?;
    /// let task = Client::new(&store).submit(NewTask::new("answer")).await?;
    /// let output: u32 = task.wait().await?;
    /// assert_eq!(output, 42);
    /// runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn wait<T: DeserializeOwned>(&self) -> Result<T, WaitError>
    where
        J: TaskOutput<T>,
    {
        self.done().await?.result()
    }
}

impl<J> Clone for Handle<J> {
    fn clone(&self) -> Self {
        Self::new(self.client.clone(), self.id.clone(), self.submitted.clone())
    }
}

impl<J> fmt::Debug for Handle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("id", &self.id)
            .field("submitted", &self.submitted)
            .finish_non_exhaustive()
    }
}

impl<J> fmt::Display for Handle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl<J> From<Handle<J>> for TaskId {
    fn from(handle: Handle<J>) -> Self {
        handle.id
    }
}

impl<J> From<&Handle<J>> for TaskId {
    fn from(handle: &Handle<J>) -> Self {
        handle.id.clone()
    }
}

/// A task that ended without a result: it failed, or was killed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
#[non_exhaustive]
pub struct TaskFailed {
    /// The task.
    pub id: TaskId,
    /// How it ended: failed or killed.
    pub code: StateKind,
    /// The last error, if there has been one.
    pub error: Option<String>,
}

impl TaskFailed {
    fn text(&self) -> String {
        let Self { id, code, error } = self;
        match error {
            Some(error) if *code == StateKind::Failed => format!("task '{id}' failed: {error}"),
            Some(error) => format!("task '{id}' was {code}; its last error: {error}"),
            None if *code == StateKind::Failed => format!("task '{id}' failed"),
            None => format!("task '{id}' was {code}"),
        }
    }
}

/// Why a task has no output.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The task ended without a result.
    #[error(transparent)]
    Failed(#[from] TaskFailed),
    /// The task completed, but its result is of another type.
    #[error("the task completed, but its result cannot be read: {0}")]
    Unreadable(#[source] Invalid),
    /// The store reports an error.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Done {
    /// Returns how a task ended that did not complete.
    pub(crate) fn failed(&self) -> TaskFailed {
        TaskFailed {
            id: self.task.id.clone(),
            code: self.code(),
            error: self.error().map(str::to_owned),
        }
    }

    /// Returns the result with which the task completed, as JSON; `None` when it completed without
    /// one, or did not complete.
    pub fn result_json(&self) -> Option<&Json> {
        match &self.state.status {
            TaskStatus::Completed { result } => result.as_ref(),
            _ => None,
        }
    }

    /// Returns the result with which the task completed, as a type of your choice. A task that
    /// completed without one has the result `null`: use `()` or an `Option`.
    ///
    /// # Errors
    ///
    /// [`WaitError::Failed`] when the task failed or was killed, [`WaitError::Unreadable`] when the
    /// result is not of that type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, WaitError> {
        let TaskStatus::Completed { result } = &self.state.status else {
            return Err(WaitError::Failed(self.failed()));
        };
        let result = result.clone().unwrap_or_else(Json::null);
        result.get("result").map_err(WaitError::Unreadable)
    }
}
