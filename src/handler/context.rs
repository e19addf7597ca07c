//! [`TaskContext`]: a running handler's view of its task, and the requests that it can make.

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
    Trace, Untyped, task::Labels,
};

use crate::telemetry::traces;

use super::{
    asks::{Ask, Asked, Sent, Stored},
    run_data::{Data, RunData},
    signals::{Commands, Stop},
    state::MissingState,
};

/// Why a checkpoint was not stored.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The data has no JSON form.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The checkpoint was refused; the text is the reason (too large, the claim is gone, the
    /// handler is stopped).
    #[error("the checkpoint was not made: {0}")]
    Refused(String),
}

/// A task, as its running handler sees it. Clones refer to the same task.
///
/// `TaskContext` is a task of any kind. A `TaskContext<J>` has the props of a [`Job`], and checkpoints take
/// its data.
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
    /// Returns the props, as they were submitted.
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

    /// Replaces data of an older version by the migrated data, for this run. The next data that the
    /// handler writes has the new version.
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

    /// Makes the message of a panic about unreadable props an error that is not retried, and records a panic about a missing
    /// value.
    pub(crate) fn checked_panic(&self, message: Message) -> Message {
        let missing = self.missing_in_return();
        self.ends_without(missing.as_ref(), &message);
        match self.run.panicked_with_props_error() {
            true => message.not_retried(),
            false => message,
        }
    }

    /// Returns the missing value whose error the handler returns, or has panicked with. Must be called while the return
    /// value exists.
    pub(crate) fn missing_in_return(&self) -> Option<MissingState> {
        self.run.missing_in_return()
    }

    /// Records that a missing value has ended the run, if this message is its error.
    pub(crate) fn ends_without(&self, missing: Option<&MissingState>, message: &Message) {
        self.run.ends_without(missing, message);
    }

    /// Makes a message that waits for the task itself an error.
    pub(crate) fn checked_message(&self, message: Message) -> Message {
        match self.waits_for_itself(&message) {
            Some(error) => Message::fail(error),
            None => match self
                .trace()
                .filter(|_| !message.effects().submit.is_empty())
            {
                Some(trace) => trace.pass_on(message),
                None => message,
            },
        }
    }
}

impl<J: TaskType> TaskContext<J> {
    /// Returns the task's id.
    pub fn id(&self) -> &TaskId {
        &self.run.task.id
    }

    /// Returns the task's kind.
    pub fn kind(&self) -> &Kind {
        &self.run.task.kind
    }

    /// Returns the task's labels.
    pub fn labels(&self) -> &Labels {
        &self.run.task.labels
    }

    /// Returns the text that travels with the task, such as `traceparent`.
    pub fn meta(&self) -> &Meta {
        &self.run.task.meta
    }

    /// Returns the place in a trace to pass on to what the handler calls: that of this run, in a process that exports traces
    /// with the feature `opentelemetry`, else that from which the task was submitted.
    pub fn trace(&self) -> Option<Trace> {
        traces::place(&self.run.span).or_else(|| Trace::of(self.meta()))
    }

    /// Returns the time that names the command that ended a pause of the task, in microseconds since 1970, if no other command
    /// was applied since.
    pub(crate) fn resumed_at(&self) -> Option<i64> {
        self.run.resumed
    }

    /// Returns the task as it was submitted.
    pub fn task(&self) -> &Task {
        &self.run.task
    }

    /// Returns the task's submit order: its place among all submits of its store. It never changes,
    /// and a task that is deleted and submitted again under the same id gets another one. Id and
    /// order together identify what belongs to this task outside of the store.
    pub fn order(&self) -> u64 {
        self.run.order
    }

    /// Returns the data of the last checkpoint (or of the last message that brought data), as the data of
    /// the [`Job`] or as a type of your choice; `None` if there is none. A job's data of an older version
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

    /// Returns the version of the [`data`](Self::data), from 1 to the version that the handler
    /// writes ([`KindConfig::data_version`](crate::KindConfig::data_version)); `None` without data.
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

    /// Returns the number of this attempt: 1 for the first. Failed and abandoned attempts in a row
    /// count; a graceful release does not.
    pub fn attempt(&self) -> u32 {
        self.run.attempt
    }

    /// Returns how often a retry has started the task again: 0 for the first time.
    pub fn incarnation(&self) -> u32 {
        self.run.incarnation
    }

    /// Returns the last error of the task, if there has been one.
    pub fn last_error(&self) -> Option<&ErrorEntry> {
        self.run.last_error.as_ref()
    }

    /// Persists data and continues. When this returns, the data is durable: a later run, on any
    /// node, starts with it.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; nothing was persisted then. Return a message soon, because the claim
    /// may be gone.
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

    /// Requests a write from the runner. The error is the reason why it was not made.
    pub(super) async fn ask(&self, what: Asked) -> Result<(), String> {
        let gone = || "the claim on this task is gone".to_owned();
        let (answer, answered) = oneshot::channel();
        if !(self.run.asks.0)(Sent::Ask(Ask { what, answer })) {
            return Err(gone());
        }
        answered.await.map_err(|_| gone())?
    }

    /// Asks the runner to report when the message that the handler returns is stored.
    pub(crate) fn expect_stored(&self, stored: Stored) {
        // A runner that is gone drops the request, which reports that the claim is over.
        let _ = (self.run.asks.0)(Sent::Returns(stored));
    }

    /// Remembers data that the store has.
    pub(super) fn has_stored(&self, json: Json) {
        let version = self.run.writes_version;
        *self.stored() = Some(Data { json, version });
    }

    /// Resolves when the handler should stop, with the reason. It stays resolved.
    pub async fn stop_requested(&self) -> Stop {
        self.run.received.stop_requested().await
    }

    /// Returns whether the handler should stop. For code that cannot await
    /// [`stop_requested`](Self::stop_requested).
    pub fn should_stop(&self) -> bool {
        self.run.received.stop().is_some()
    }

    /// Returns a stream of the commands that are sent to the task while the handler runs, and of the
    /// signals in its queue.
    pub fn commands(&self) -> Commands {
        Commands::new(self.run.received.clone())
    }

    /// Returns the fence of the claim, to protect what the handler writes to other systems: such a
    /// system rejects a fence that is smaller than the greatest it has seen.
    pub fn fence(&self) -> Fence {
        self.run.fence
    }

    /// Returns the time for which the node's lease certainly still holds, by the node's own
    /// monotonic clock. Every renewal extends it. At zero, stop: another node may have the task.
    pub fn lease_left(&self) -> Duration {
        self.run
            .lease_until
            .borrow()
            .saturating_duration_since(Instant::now())
    }

    /// Returns a message that reports a fault of this machine (no memory, no file descriptors, a full
    /// disk), which is not a fault of the task: the task is released, and neither an attempt nor an
    /// error is counted.
    ///
    /// The node then claims no task of this kind for 0.5 to 1 s, then one task as a trial. Each trial
    /// that meets the fault again doubles the wait, up to 60 s. The node logs the reason when the
    /// fault begins, every 10 minutes, and when it ends. In the meantime other nodes claim the task.
    /// A [`Simulation`](crate::testing::Simulation) runs the task again after 1 s.
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
        self.run.set_node_fault(reason)
    }

    /// Returns the tracing span of this run, with task, kind, attempt and fence. The handler runs
    /// inside it; pass it to the tasks that you spawn.
    pub fn span(&self) -> &tracing::Span {
        &self.run.span
    }
}
