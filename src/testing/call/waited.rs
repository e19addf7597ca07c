//! The tasks that a run has waited for, and the store of its client.

use std::sync::Arc;

use serde::Serialize;
use windlass_statemachine::{
    Fence, Invalid, Json, Kind, Task, TaskId, TaskState, TaskStatus, WaitOutcome, Waited,
};

use super::Call;
use crate::{
    clock::Clock,
    store::{Error, Exported, Store},
};

/// The kind of the tasks that a run has waited for.
const KIND: &str = "waited";

/// The tasks that a run has waited for, and the store of its client.
#[derive(Debug, Clone, Default)]
pub(super) struct Around {
    waited: Vec<Other>,
    store: Option<Store>,
}

/// A task that a run has waited for.
#[derive(Debug, Clone)]
struct Other {
    task: Result<TaskId, Invalid>,
    outcome: WaitOutcome,
    result: Result<Option<Json>, Invalid>,
    error: Option<String>,
}

impl Around {
    /// Returns the tasks that the run has waited for, with their outcomes.
    pub(super) fn waited(&self) -> Result<Vec<Waited>, Invalid> {
        let waited = self.waited.iter();
        let waited = waited.map(|other| Ok(Waited::new(other.task.clone()?, other.outcome)));
        waited.collect()
    }

    /// Returns the store of the client, with the tasks that the run has waited for.
    pub(super) async fn into_store(self, clock: Arc<dyn Clock>) -> Result<Store, Invalid> {
        let store = self.store.unwrap_or_else(|| Store::in_memory(clock));
        for other in self.waited {
            let id = other.task.clone()?;
            if let Some(state) = other.state(&store)? {
                put(&store, id, state).await?;
            }
        }
        Ok(store)
    }
}

impl Other {
    /// Returns the state of the task; `None` for one that does not exist.
    fn state(self, store: &Store) -> Result<Option<TaskState>, Invalid> {
        let now = store.clock().now();
        let mut state = TaskState::new(now);
        state.status = match self.outcome {
            WaitOutcome::Unknown => return Ok(None),
            WaitOutcome::Live => TaskStatus::Runnable,
            WaitOutcome::Completed => TaskStatus::Completed {
                result: self.result?,
            },
            WaitOutcome::Failed => TaskStatus::Failed,
            WaitOutcome::Killed => TaskStatus::Killed,
        };
        if let Some(error) = self.error {
            state.errors.push(now, error, 1);
        }
        Ok(Some(state))
    }
}

/// Puts a task into a store, unless it has one with this id.
async fn put(store: &Store, id: TaskId, state: TaskState) -> Result<(), Invalid> {
    let failed = |error: Error| {
        let reason = format!("'{id}' could not be put into the store of the call: {error}");
        Invalid::new("waited", reason)
    };
    match store.registry().get(&id).await {
        Ok(_) => return Ok(()),
        Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(failed(error)),
    }
    let exported = Exported {
        task: Task::new(id.clone(), Kind::new(KIND)?),
        submitted_at: store.clock().now(),
        state,
        order: 0,
        fence: Fence::default(),
        lost_by: None,
        commands: Vec::new(),
        history: Vec::new(),
        log: Vec::new(),
        holds_key: None,
        replaces: None,
    };
    let imported = store
        .transfer()
        .map_err(failed)?
        .import(vec![exported])
        .await;
    imported.into_iter().try_for_each(|one| one.map_err(failed))
}

impl Call {
    /// Adds a task that the run has waited for, with its outcome: without a result if it completed, without an error if it
    /// failed. [`waited_output`](Self::waited_output) and [`waited_failure`](Self::waited_failure) add tasks with those.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Message, TaskContext, WaitOutcome, testing::Call};
    ///
    /// async fn join(task: TaskContext) -> Message {
    ///     let waited = task.waited().iter();
    ///     Message::complete_with(waited.filter(|one| one.outcome == WaitOutcome::Completed).count())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let call = Call::new()
    ///     .waited("a".parse()?, WaitOutcome::Completed)
    ///     .waited("b".parse()?, WaitOutcome::Failed);
    /// assert_eq!(call.run(join).await?.result()?, Some(1));
    /// # Ok(()) }
    /// ```
    pub fn waited(self, task: TaskId, outcome: WaitOutcome) -> Self {
        self.waited_for(Ok(task), outcome, Ok(None), None)
    }

    /// Adds a task that the run has waited for, and that completed with this output.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Message, TaskContext, testing::Call};
    ///
    /// async fn sum(task: TaskContext) -> Result<Message, BoxError> {
    ///     let parts: Vec<u64> = task.waited().outputs().all().await?;
    ///     Ok(Message::complete_with(parts.iter().sum::<u64>()))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let call = Call::new().waited_output("a", &40).waited_output("b", &2);
    /// assert_eq!(call.run(sum).await?.result()?, Some(42));
    /// # Ok(()) }
    /// ```
    pub fn waited_output<T: Serialize + ?Sized>(
        self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        output: &T,
    ) -> Self {
        let task = task.try_into().map_err(Into::into);
        let result = Json::new("result", output).map(Some);
        self.waited_for(task, WaitOutcome::Completed, result, None)
    }

    /// Adds a task that the run has waited for, and that failed with this error.
    pub fn waited_failure(
        self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        error: impl Into<String>,
    ) -> Self {
        let task = task.try_into().map_err(Into::into);
        self.waited_for(task, WaitOutcome::Failed, Ok(None), Some(error.into()))
    }

    fn waited_for(
        mut self,
        task: Result<TaskId, Invalid>,
        outcome: WaitOutcome,
        result: Result<Option<Json>, Invalid>,
        error: Option<String>,
    ) -> Self {
        self.around.waited.push(Other {
            task,
            outcome,
            result,
            error,
        });
        self
    }

    /// Sets the store of [`TaskContext::client`](crate::TaskContext::client): an empty store in memory by default. The tasks
    /// that the run has waited for are put into the store, except those that it has.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Client, Message, NewTask, Store, TaskContext, testing::Call};
    ///
    /// async fn notify(task: TaskContext) -> Result<Message, BoxError> {
    ///     let mail = NewTask::new("mail").id(format!("{}-mail", task.id()));
    ///     task.client().submit(mail.idempotent()).await?;
    ///     Ok(Message::complete())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let store = Store::open("memory:").await?;
    /// Call::new().store(&store).run(notify).await?;
    /// assert_eq!(Client::new(&store).get("test-mail").await?.task.kind.as_str(), "mail");
    /// # Ok(()) }
    /// ```
    pub fn store(mut self, store: &Store) -> Self {
        self.around.store = Some(store.clone());
        self
    }
}
