//! [`run`] and [`Call`]: one run of a handler, without a node.

mod waited;

mod time;

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use windlass_statemachine::{
    Command, Fence, Invalid, Json, Message, StopReason, TaskType, machine::Signal,
};

use super::{abort::AbortOnDrop, ran::Ran};
use crate::{
    NewTask,
    handler::{
        Ask, AskRunner, Asked, Attempt, RunData, Sent, Shared, Signals, StatefulHandler,
        TaskContext, Typed,
    },
    runner::spawn::{self, Ended},
};

/// Runs a handler once with these props and data, without a node, and returns the result.
///
/// `data` is the data of the last run; `None` for a first run. [`Call`] sets everything else.
///
/// # Errors
///
/// [`Invalid`] (field `props`) when the props have no JSON form.
///
/// # Example
///
/// ```
/// use windlass::{ActionKind, BoxError, Message, TaskContext, testing};
///
/// async fn countdown(task: TaskContext) -> Result<Message, BoxError> {
///     let left: u32 = task.data()?.unwrap_or(task.props()?);
///     match left {
///         0 => Ok(Message::complete()),
///         _ => Ok(Message::run().with_data(&(left - 1))),
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// let ran = testing::run(countdown, 3, None).await?;
/// assert_eq!(ran.kind(), ActionKind::Run);
/// assert_eq!(ran.data()?, Some(2));
/// let ran = testing::run(countdown, 3, Some(0.into())).await?;
/// assert_eq!(ran.kind(), ActionKind::Complete);
/// # Ok(()) }
/// ```
pub async fn run<J: TaskType, M: 'static>(
    handler: impl StatefulHandler<J, M>,
    props: impl Serialize,
    data: Option<serde_json::Value>,
) -> Result<Ran, Invalid> {
    let call = Call::new().props(&props);
    let call = match data {
        Some(data) => call.data(&data),
        None => call,
    };
    call.run(handler).await
}

/// One run of a handler: its task, its data and the signals that it gets.
///
/// # Flow
///
/// 1. The handler starts as on a node: in its own task, with its panics caught.
/// 2. Each checkpoint is recorded and acknowledged.
/// 3. After the number of checkpoints set by [`after_checkpoints`](Self::after_checkpoints), the
///    handler gets the commands of [`command`](Self::command) and the stop of [`stop`](Self::stop).
/// 4. [`run`](Self::run) returns the message.
///
/// # Defaults
///
/// Kind and id `test`, props `null`, no data, attempt 1, incarnation 0, fence 1, 12 s of lease, no
/// commands, no wait before the run, 2030-01-01T00:00:00Z, and an empty store in memory for the
/// [client](TaskContext::client) of the handler.
///
/// # Caveats
///
/// A handler that ignores a stop is not aborted: `run` returns when the handler returns.
///
/// # Example
///
/// ```
/// use windlass::{ActionKind, BoxError, Command, Message, TaskContext, testing::Call};
///
/// async fn digest(task: TaskContext) -> Result<Message, BoxError> {
///     for n in task.data()?.unwrap_or(0)..1000 {
///         if task.should_stop() {
///             return Ok(task.stop_requested().await.message());
///         }
///         task.checkpoint(&(n + 1)).await?;
///     }
///     Ok(Message::complete())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// let call = Call::new().data(&7).command(Command::Pause).after_checkpoints(2);
/// let ran = call.run(digest).await?;
/// assert_eq!(ran.kind(), ActionKind::Pause);
/// assert_eq!(ran.checkpoints::<u32>()?, [8, 9]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Call {
    task: NewTask,
    data: Result<Option<Json>, Invalid>,
    /// The data version; `None` for the version that the handler writes.
    data_version: Option<u32>,
    attempt: u32,
    incarnation: u32,
    fence: u64,
    lease_left: Duration,
    around: waited::Around,
    time: time::Time,
    signals: Vec<Signal>,
    after_checkpoints: usize,
    shared: Shared,
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}

impl Call {
    /// Prepares the first run of a task without props.
    pub fn new() -> Self {
        Self {
            task: NewTask::new("test").id("test"),
            data: Ok(None),
            data_version: None,
            attempt: 1,
            incarnation: 0,
            fence: 1,
            lease_left: Duration::from_secs(12),
            around: waited::Around::default(),
            time: time::Time::default(),
            signals: Vec::new(),
            after_checkpoints: 0,
            shared: Shared::default(),
        }
    }

    /// Sets the whole task: kind, id, labels and props.
    pub fn task(mut self, task: NewTask) -> Self {
        self.task = task;
        self
    }

    /// Sets the props of the task.
    pub fn props<T: Serialize + ?Sized>(mut self, props: &T) -> Self {
        self.task = self.task.props(props);
        self
    }

    /// Sets the data of the last run.
    pub fn data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = Json::new("data", data).map(Some);
        self
    }

    /// Sets the version of the data, for a test of a migration. By default it is the version that the
    /// handler writes.
    ///
    /// # Example
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{BoxError, Job, Json, TaskContext, testing::Call};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Wait;
    ///
    /// impl Job for Wait {
    ///     const KIND: &str = "wait";
    ///     type Data = u64;                    // milliseconds; version 1 had seconds
    ///     type Output = u64;
    ///     const DATA_VERSION: u32 = 2;
    ///     fn migrate(_from: u32, seconds: Json) -> Result<u64, BoxError> {
    ///         Ok(seconds.get::<u64>("data")? * 1000)
    ///     }
    /// }
    ///
    /// async fn wait(task: TaskContext<Wait>) -> Result<u64, BoxError> {
    ///     Ok(task.data()?.unwrap_or(0))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let call = Call::new().props(&Wait).data(&7);
    /// let ran = call.clone().data_version(1).run(wait).await?;
    /// assert_eq!(ran.result()?, Some(7000));
    /// let ran = call.run(wait).await?;
    /// assert_eq!(ran.result()?, Some(7));
    /// # Ok(()) }
    /// ```
    pub fn data_version(mut self, version: u32) -> Self {
        self.data_version = Some(version);
        self
    }

    /// Sets the number of the attempt.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Sets the number of retries by an operator.
    pub fn incarnation(mut self, incarnation: u32) -> Self {
        self.incarnation = incarnation;
        self
    }

    /// Sets the fence of the claim.
    pub fn fence(mut self, fence: u64) -> Self {
        self.fence = fence;
        self
    }

    /// Sets the remaining time of the lease when the handler starts. The lease is not renewed.
    pub fn lease_left(mut self, left: Duration) -> Self {
        self.lease_left = left;
        self
    }

    /// Adds a command, or a signal, that the handler gets.
    pub fn command(mut self, command: Command) -> Self {
        let order = self.signals.len() as u64 + 1;
        let command = match command {
            Command::Signal(signal) => Command::Signal(signal.at(order)),
            other => other,
        };
        self.signals.push(Signal::Command { order, command });
        self
    }

    /// Adds a stop that the handler gets, as from a node that shuts down or loses its lease.
    pub fn stop(mut self, reason: StopReason) -> Self {
        self.signals.push(Signal::Stop(reason));
        self
    }

    /// Sets the number of checkpoints after which commands and stops are delivered; before the
    /// handler starts by default.
    pub fn after_checkpoints(mut self, checkpoints: usize) -> Self {
        self.after_checkpoints = checkpoints;
        self
    }

    /// Adds a shared value, which the handler gets with [`TaskContext::state`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Message, TaskContext, testing::Call};
    ///
    /// async fn rate(task: TaskContext) -> Result<Message, BoxError> {
    ///     Ok(Message::complete_with(*task.state::<u64>()?))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// assert_eq!(Call::new().state(7_u64).run(rate).await?.result()?, Some(7));
    /// assert!(Call::new().run(rate).await?.error().unwrap().contains("no state of the type u64"));
    /// # Ok(()) }
    /// ```
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.shared.insert(value);
        self
    }

    /// Runs the handler until it returns. A panic becomes an Error message, as on a node.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field: props or data have no JSON form, a name of the task is invalid, or the wait before
    /// the run is.
    pub async fn run<J: TaskType, M: 'static>(
        self,
        handler: impl StatefulHandler<J, M>,
    ) -> Result<Ran, Invalid> {
        let handler = Typed::new(handler);
        let task = Arc::new(self.task.build()?.task);
        let clock = self.time.clock();
        let mut state = self.time.state(&self.around.waited()?)?;
        let store = self.around.into_store(clock.clone()).await?;
        state.data = self.data?;
        state.data_version = self.data_version.unwrap_or(handler.data_version());
        state.incarnation = self.incarnation;
        state.fence = Fence(self.fence);
        let before = state.data.clone();
        let (tx, mut rx) = mpsc::unbounded_channel();
        let (signals, received) = Signals::new();
        let asks = tx.clone();
        let asks = AskRunner(Box::new(move |sent| match sent {
            Sent::Ask(ask) => asks.send(Event::Ask(ask)).is_ok(),
            Sent::Progress | Sent::Logged | Sent::Returns(_) => true,
        }));
        let (_lease, lease_until) = watch::channel(Instant::now() + self.lease_left);
        let span = tracing::info_span!("task", task = %task.id, kind = %task.kind,
            fence = self.fence, attempt = self.attempt);
        let attempt = Attempt {
            task,
            order: 1,
            number: self.attempt,
            fence: state.fence,
            data_version: handler.data_version(),
            lease_until,
            shared: self.shared,
            store: Arc::new(store),
            span,
            clock,
            logged: 0,
        };
        let data = Arc::new(RunData::new(attempt, &state, received, asks));
        let (mut checkpoints, mut replies) = (Vec::new(), Vec::new());
        let mut pending = Some(self.signals);
        let mut deliver = |made: usize| {
            if made >= self.after_checkpoints {
                for signal in pending.take().into_iter().flatten() {
                    signals.deliver(signal);
                }
            }
        };
        deliver(0);
        let context = TaskContext::new(data.clone());
        let abort = spawn::spawn(Arc::new(handler), context, move |ended| {
            // Fails only when the call was dropped.
            let _ = tx.send(Event::Ended(ended));
        });
        let _abort = AbortOnDrop(abort);
        let message = loop {
            match rx.recv().await {
                Some(Event::Ask(Ask { what, answer })) => {
                    match what {
                        Asked::Checkpoint(data) => checkpoints.push(data),
                        Asked::Answer(answer) => {
                            replies.push(answer.reply);
                            checkpoints.extend(answer.data);
                        }
                    }
                    deliver(checkpoints.len());
                    // Fails when the handler has stopped waiting.
                    let _ = answer.send(Ok(()));
                }
                Some(Event::Ended(Ended::Returned(message))) => break message,
                Some(Event::Ended(Ended::Aborted)) | None => {
                    break Message::error("the handler was aborted");
                }
            }
        };
        replies.extend(message.answers().map(|(_, reply)| reply.clone()));
        Ok(Ran {
            before,
            message,
            checkpoints,
            replies,
            progress: data.progress(),
        })
    }
}

/// A message of the running handler.
enum Event {
    Ask(Ask),
    Ended(Ended),
}
