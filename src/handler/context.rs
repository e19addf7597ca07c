//! [`TaskContext`]: what a handler knows of its task, and what it can ask for while it runs.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use windlass_statemachine::{
    Action, ActionKind, ErrorEntry, Fence, Invalid, Json, Kind, Message, Meta, Outcome, Progress,
    StateKind, Task, TaskId, TaskState, Waited, Waits, state::LastCommand, task::Labels,
};

use super::{
    BoxError,
    asks::{Ask, AskRunner, Asked, Sent},
    signals::{Commands, Received, Stop},
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

/// One attempt at a task, as its runner starts it.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) task: Arc<Task>,
    pub(crate) order: u64,
    pub(crate) number: u32,
    pub(crate) fence: Fence,
    /// The version of the data that the handler writes.
    pub(crate) data_version: u32,
    pub(crate) lease_until: watch::Receiver<Instant>,
    pub(crate) span: tracing::Span,
}

/// The data of a task, and its version.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    pub(crate) json: Json,
    pub(crate) version: u32,
}

/// What a context is made of.
#[derive(Debug)]
pub(crate) struct ContextParts {
    pub(crate) task: Arc<Task>,
    pub(crate) order: u64,
    pub(crate) attempt: u32,
    pub(crate) incarnation: u32,
    /// The last command, if it has ended a pause: its place in the queue.
    pub(crate) resumed: Option<u64>,
    pub(crate) data: Mutex<Option<Data>>,
    /// The version of the data that the handler writes.
    pub(crate) writes_version: u32,
    pub(crate) last_error: Option<ErrorEntry>,
    pub(crate) waited: Vec<Waited>,
    pub(crate) fence: Fence,
    pub(crate) received: Received,
    pub(crate) asks: AskRunner,
    pub(crate) lease_until: watch::Receiver<Instant>,
    pub(crate) progress: Mutex<Option<Progress>>,
    /// The runner knows that there is progress which it has not read.
    pub(super) progress_sent: AtomicBool,
    /// Why the props could not be read the last time, if they could not.
    pub(crate) unreadable_props: Mutex<Option<Invalid>>,
    pub(crate) node_fault: Mutex<Option<String>>,
    pub(crate) span: tracing::Span,
}

impl ContextParts {
    /// The parts of an attempt that starts from this state.
    pub(crate) fn new(
        attempt: Attempt,
        state: &TaskState,
        received: Received,
        asks: AskRunner,
    ) -> Self {
        Self {
            task: attempt.task,
            order: attempt.order,
            attempt: attempt.number,
            incarnation: state.incarnation,
            resumed: state.last_command.as_ref().and_then(resumed_by),
            data: Mutex::new(state.data.clone().map(|json| Data {
                json,
                version: state.data_version,
            })),
            writes_version: attempt.data_version,
            last_error: state.errors.last().cloned(),
            waited: state.waits.as_deref().map_or_else(Vec::new, Waits::waited),
            fence: attempt.fence,
            received,
            asks,
            lease_until: attempt.lease_until,
            progress: Mutex::new(None),
            progress_sent: AtomicBool::new(false),
            unreadable_props: Mutex::new(None),
            node_fault: Mutex::new(None),
            span: attempt.span,
        }
    }

    /// The fault of the machine that this message of the handler reports.
    pub(crate) fn node_fault(&self, message: &Message) -> Option<String> {
        if message.kind() != ActionKind::Release {
            return None;
        }
        let fault = self.node_fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns the place of a command in the queue, if it has ended a pause.
fn resumed_by(last: &LastCommand) -> Option<u64> {
    let ends = matches!(
        last.outcome,
        Outcome::Applied {
            from: StateKind::Paused,
            to: StateKind::Runnable
        }
    );
    ends.then_some(last.order)
}

/// A task, as its running handler sees it. Clones are the same task.
#[derive(Debug, Clone)]
pub struct TaskContext {
    pub(super) parts: Arc<ContextParts>,
}

impl TaskContext {
    pub(crate) fn new(parts: Arc<ContextParts>) -> Self {
        Self { parts }
    }

    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.parts.task.id
    }

    /// The task's kind.
    pub fn kind(&self) -> &Kind {
        &self.parts.task.kind
    }

    /// The task's labels.
    pub fn labels(&self) -> &Labels {
        &self.parts.task.labels
    }

    /// Returns the text that travels with the task, such as `traceparent`.
    pub fn meta(&self) -> &Meta {
        &self.parts.task.meta
    }

    /// Returns the place in the queue of the command that has ended a pause of the task, if no other was applied since.
    pub(crate) fn resumed_by(&self) -> Option<u64> {
        self.parts.resumed
    }

    /// The task as it was submitted.
    pub fn task(&self) -> &Task {
        &self.parts.task
    }

    /// The task's place among all submits of its store. It never changes, and a task that is
    /// deleted and submitted again under the same id has another one: with the id it identifies
    /// what belongs to this task outside of the store.
    pub fn order(&self) -> u64 {
        self.parts.order
    }

    /// The task's props, as a type of yours.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `props`) when they are not of that type. An attempt that fails with this
    /// error (or with one whose text contains it) is not retried: props never change.
    pub fn props<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        let props = self.parts.task.props.get("props");
        *self.unreadable_props() = props.as_ref().err().cloned();
        props
    }

    fn unreadable_props(&self) -> MutexGuard<'_, Option<Invalid>> {
        let unreadable = self.parts.unreadable_props.lock();
        unreadable.unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an error that reports unreadable props one that is not retried, and a wait for the task itself
    /// an error. Handlers have error types
    /// of their own, and panic: the text is the one thing that all of them pass on.
    pub(crate) fn judged(&self, message: Message) -> Message {
        if let Some(error) = self.waits_for_itself(&message) {
            return Message::fail(error);
        }
        let Action::Error { error, .. } = message.action() else {
            return message;
        };
        match &*self.unreadable_props() {
            Some(e) if error.contains(&e.to_string()) || error.contains(&format!("{e:?}")) => {
                message.not_retried()
            }
            _ => message,
        }
    }

    /// The data of the last checkpoint (or of the last message that brought data), as a type of
    /// yours; `None` when there has been none.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `data`) when it is not of that type.
    pub fn data<T: DeserializeOwned>(&self) -> Result<Option<T>, Invalid> {
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
        let data = self.parts.data.lock();
        data.unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces data of an older version by what `migrate` makes of it, for this run: the next data that
    /// the handler writes has the new version.
    pub(crate) fn migrate(
        &self,
        migrate: impl FnOnce(u32, Json) -> Result<Json, BoxError>,
    ) -> Result<(), Invalid> {
        let to = self.parts.writes_version;
        let Some(data) = self.stored().clone().filter(|data| data.version < to) else {
            return Ok(());
        };
        let from = data.version;
        let json = migrate(from, data.json).map_err(|error| {
            let reason = format!(
                "could not be migrated from version {from} to {to}: {error}; fix the migration, then \
                 retry the task"
            );
            Invalid::new("data", reason)
        })?;
        *self.stored() = Some(Data { json, version: to });
        Ok(())
    }

    /// The number of this attempt: 1 for the first. Failed and abandoned attempts in a row count; a
    /// graceful release does not.
    pub fn attempt(&self) -> u32 {
        self.parts.attempt
    }

    /// How often a retry has started the task again: 0 for the first time.
    pub fn incarnation(&self) -> u32 {
        self.parts.incarnation
    }

    /// The last error of the task, if there has been one.
    pub fn last_error(&self) -> Option<&ErrorEntry> {
        self.parts.last_error.as_ref()
    }

    /// Persists data and goes on. When it returns, the data is durable: a later run, on whatever
    /// node, starts with it.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; nothing was persisted then. Return a message soon: the claim may be
    /// gone.
    pub async fn checkpoint<T: Serialize + ?Sized>(&self, data: &T) -> Result<(), CheckpointError> {
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
        if !(self.parts.asks.0)(Sent::Ask(Ask { what, answer })) {
            return Err(gone());
        }
        answered.await.map_err(|_| gone())?
    }

    /// Keeps data that the store has.
    pub(super) fn has_stored(&self, json: Json) {
        let version = self.parts.writes_version;
        *self.stored() = Some(Data { json, version });
    }

    /// Resolves when the handler should stop, and says why. It stays resolved.
    pub async fn stop_requested(&self) -> Stop {
        self.parts.received.stop_requested().await
    }

    /// Whether the handler should stop: for code that cannot await.
    pub fn should_stop(&self) -> bool {
        self.parts.received.stop().is_some()
    }

    /// Returns the commands that are sent to the task while the handler runs, and the signals that wait for
    /// it, as a stream.
    pub fn commands(&self) -> Commands {
        Commands::new(self.parts.received.clone())
    }

    /// The number of the claim, to guard what the handler writes elsewhere: the other side refuses
    /// a number that is smaller than the greatest it has seen.
    pub fn fence(&self) -> Fence {
        self.parts.fence
    }

    /// How long the node's lease certainly still holds, by the node's own monotonic clock. It grows
    /// again with every renewal. Zero: stop, another node may have the task.
    pub fn lease_left(&self) -> Duration {
        self.parts
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
    pub fn node_fault(&self, reason: impl std::fmt::Display) -> Message {
        let fault = self.parts.node_fault.lock();
        *fault.unwrap_or_else(PoisonError::into_inner) = Some(reason.to_string());
        Message::release()
    }

    /// The tracing span of this run, with task, kind, attempt and fence. The handler runs inside
    /// it; take it along to what you spawn.
    pub fn span(&self) -> &tracing::Span {
        &self.parts.span
    }
}
