//! [`TaskContext`]: what a handler knows of its task, and what it can ask for while it runs.

mod values;

use std::{
    fmt,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::oneshot, time::Instant};
use windlass_statemachine::{
    ErrorEntry, Fence, Invalid, Job, Json, Kind, Message, Meta, Task, TaskData, TaskId, TaskType,
    Untyped, task::Labels,
};

use super::{
    asks::{Ask, Asked, Sent},
    run_data::{Data, RunData},
    signals::{Commands, Stop},
};

/// Why a checkpoint was not made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The data has no JSON form.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It was refused; the text says why (too large, the claim is gone, the handler is stopped).
    #[error("the checkpoint was not made: {0}")]
    Refused(String),
}

/// A task, as its running handler sees it. Clones are the same task.
///
/// `TaskContext` is a task of any kind; a `TaskContext<J>` has the props, and takes the data, of a [`Job`].
///
/// # Example
///
/// See [`job`](crate::job).
pub struct TaskContext<J: TaskType = Untyped> {
    pub(super) run: Arc<RunData>,
    props: J::Props,
}

impl<J: TaskType> Clone for TaskContext<J> {
    fn clone(&self) -> Self {
        Self {
            run: self.run.clone(),
            props: self.props.clone(),
        }
    }
}

impl<J: TaskType> fmt::Debug for TaskContext<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext")
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl<J: Job> TaskContext<J> {
    /// Returns the props: the value that was submitted.
    pub fn job(&self) -> &J {
        &self.props
    }
}

impl TaskContext {
    pub(crate) fn new(run: Arc<RunData>) -> Self {
        Self { run, props: () }
    }

    /// Reads the props as those of a job, and migrates the data.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: field `props` when they are not of this type, field `data` when older data could not
    /// be migrated.
    pub(super) fn typed<J: TaskType>(self) -> Result<TaskContext<J>, Invalid> {
        let props = J::read_props(&self.run.task.props)?;
        self.migrate::<J>()?;
        Ok(TaskContext {
            run: self.run,
            props,
        })
    }

    /// Replaces data of an older version by the migrated one, for this run: the next data that the handler
    /// writes has the new version.
    fn migrate<J: TaskType>(&self) -> Result<(), Invalid> {
        let to = self.run.writes_version;
        let Some(data) = self.stored().clone().filter(|data| data.version < to) else {
            return Ok(());
        };
        let from = data.version;
        let json = J::migrate_data(from, data.json).map_err(|error| {
            let reason = format!(
                "could not be migrated from version {from} to {to}: {error}; fix the migration, then \
                 retry the task"
            );
            Invalid::new("data", reason)
        })?;
        *self.stored() = Some(Data { json, version: to });
        Ok(())
    }

    /// Makes the message of a panic about unreadable props one that is not retried.
    pub(crate) fn judged_panic(&self, message: Message) -> Message {
        match self.run.panicked_with_props_error() {
            true => message.not_retried(),
            false => message,
        }
    }

    /// Makes a wait for the task itself an error.
    pub(crate) fn judged(&self, message: Message) -> Message {
        match self.waits_for_itself(&message) {
            Some(error) => Message::fail(error),
            None => message,
        }
    }
}

impl<J: TaskType> TaskContext<J> {
    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.run.task.id
    }

    /// The task's kind.
    pub fn kind(&self) -> &Kind {
        &self.run.task.kind
    }

    /// The task's labels.
    pub fn labels(&self) -> &Labels {
        &self.run.task.labels
    }

    /// Returns the text that travels with the task, such as `traceparent`.
    pub fn meta(&self) -> &Meta {
        &self.run.task.meta
    }

    /// Returns the place in the queue of the command that has ended a pause of the task, if no other was applied since.
    pub(crate) fn resumed_by(&self) -> Option<u64> {
        self.run.resumed
    }

    /// The task as it was submitted.
    pub fn task(&self) -> &Task {
        &self.run.task
    }

    /// The task's place among all submits of its store. It never changes, and a task that is
    /// deleted and submitted again under the same id has another one: with the id it identifies
    /// what belongs to this task outside of the store.
    pub fn order(&self) -> u64 {
        self.run.order
    }

    /// Returns the data of the last checkpoint (or of the last message that brought data): the data of
    /// the [`Job`], or a type of yours; `None` when there has been none. A job's data of an older version
    /// was migrated by [`Job::migrate`].
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `data`) when it is not of that type.
    pub fn data<T: DeserializeOwned>(&self) -> Result<Option<T>, Invalid>
    where
        J: TaskData<T>,
    {
        let data = self.stored().clone();
        data.map(|data| data.json.get("data")).transpose()
    }

    /// Returns the version of the [`data`](Self::data): 1 to the version that the handler writes
    /// ([`KindConfig::data_version`](crate::KindConfig::data_version)); `None` without data.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, KindConfig, Message, TaskContext};
    ///
    /// // Version 1 was a number of seconds, version 2 is a number of milliseconds.
    /// async fn wait(task: TaskContext) -> Result<Message, BoxError> {
    ///     let millis: u64 = match task.data_version() {
    ///         Some(1) => task.data::<u64>()?.unwrap_or(0) * 1000,
    ///         _ => task.data()?.unwrap_or(0),
    ///     };
    ///     Ok(Message::run().with_data(&(millis + 1)))
    /// }
    /// # fn is_handler(_: impl windlass::StatefulHandler) {}
    /// # is_handler(wait);
    /// let config = KindConfig::default().data_version(2);
    /// ```
    pub fn data_version(&self) -> Option<u32> {
        self.stored().as_ref().map(|data| data.version)
    }

    fn stored(&self) -> MutexGuard<'_, Option<Data>> {
        let data = self.run.data.lock();
        data.unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of this attempt: 1 for the first. Failed and abandoned attempts in a row count; a
    /// graceful release does not.
    pub fn attempt(&self) -> u32 {
        self.run.attempt
    }

    /// How often a retry has started the task again: 0 for the first time.
    pub fn incarnation(&self) -> u32 {
        self.run.incarnation
    }

    /// The last error of the task, if there has been one.
    pub fn last_error(&self) -> Option<&ErrorEntry> {
        self.run.last_error.as_ref()
    }

    /// Persists data and goes on. When it returns, the data is durable: a later run, on whatever
    /// node, starts with it.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; nothing was persisted then. Return a message soon: the claim may be
    /// gone.
    pub async fn checkpoint<T: Serialize + ?Sized>(&self, data: &T) -> Result<(), CheckpointError>
    where
        J: TaskData<T>,
    {
        let data = Json::new("data", data)?;
        let asked = Asked::Checkpoint(data.clone());
        self.ask(asked).await.map_err(CheckpointError::Refused)?;
        self.has_stored(data);
        Ok(())
    }

    /// Asks the runner for a write. Returns why it was not made, if so.
    pub(super) async fn ask(&self, what: Asked) -> Result<(), String> {
        let gone = || "the claim on this task is gone".to_owned();
        let (answer, answered) = oneshot::channel();
        if !(self.run.asks.0)(Sent::Ask(Ask { what, answer })) {
            return Err(gone());
        }
        answered.await.map_err(|_| gone())?
    }

    /// Keeps data that the store has.
    pub(super) fn has_stored(&self, json: Json) {
        let version = self.run.writes_version;
        *self.stored() = Some(Data { json, version });
    }

    /// Resolves when the handler should stop, and says why. It stays resolved.
    pub async fn stop_requested(&self) -> Stop {
        self.run.received.stop_requested().await
    }

    /// Whether the handler should stop: for code that cannot await.
    pub fn should_stop(&self) -> bool {
        self.run.received.stop().is_some()
    }

    /// Returns the commands that are sent to the task while the handler runs, and the signals that wait for
    /// it, as a stream.
    pub fn commands(&self) -> Commands {
        Commands::new(self.run.received.clone())
    }

    /// The number of the claim, to guard what the handler writes elsewhere: the other side refuses
    /// a number that is smaller than the greatest it has seen.
    pub fn fence(&self) -> Fence {
        self.run.fence
    }

    /// How long the node's lease certainly still holds, by the node's own monotonic clock. It grows
    /// again with every renewal. Zero: stop, another node may have the task.
    pub fn lease_left(&self) -> Duration {
        self.run
            .lease_until
            .borrow()
            .saturating_duration_since(Instant::now())
    }

    /// Returns the message that reports a fault of this machine (no memory, no file descriptors, a
    /// full disk), which is not the task's: the task is released, and neither an attempt nor an error
    /// is counted.
    ///
    /// The node then claims no task of this kind for 0.5 to 1 s, then one task as a trial. Each trial
    /// that meets the fault again doubles the wait, up to 60 s. The node logs the reason when the
    /// fault begins, every 10 minutes, and when it ends. Other nodes claim the task meanwhile. A
    /// [`Simulation`](crate::testing::Simulation) runs the task again after 1 s.
    ///
    /// # Example
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use windlass::{BoxError, Message, TaskContext};
    ///
    /// async fn spool(task: TaskContext) -> Result<Message, BoxError> {
    ///     match std::fs::write("/var/spool/job", "…") {
    ///         Err(e) if e.kind() == ErrorKind::StorageFull => Ok(task.node_fault(e)),
    ///         written => Ok(written.map(|()| Message::complete())?),
    ///     }
    /// }
    /// # fn is_handler(_: impl windlass::StatefulHandler) {}
    /// # is_handler(spool);
    /// ```
    pub fn node_fault(&self, reason: impl fmt::Display) -> Message<J> {
        let fault = self.run.node_fault.lock();
        *fault.unwrap_or_else(PoisonError::into_inner) = Some(reason.to_string());
        Message::release()
    }

    /// The tracing span of this run, with task, kind, attempt and fence. The handler runs inside
    /// it; take it along to what you spawn.
    pub fn span(&self) -> &tracing::Span {
        &self.run.span
    }
}
