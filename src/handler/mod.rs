//! Handlers: the code that you write for a kind of task.
//!
//! A handler is an async function from a [`TaskContext`] to a [`Message`], or a type that
//! implements [`StatefulHandler`]. It may also return a `Result`: an error then becomes the Error
//! message.
//!
//! ```
//! use windlass::{Message, TaskContext};
//!
//! async fn greet(task: TaskContext) -> Result<Message, windlass::BoxError> {
//!     let name: String = task.props()?;
//!     Ok(Message::complete_with(format!("hello, {name}")))
//! }
//! # fn is_handler(_: impl windlass::StatefulHandler) {}
//! # is_handler(greet);
//! ```
//!
//! The handler of a [`job`](crate::job) takes a `TaskContext<J>` instead. It may return the output of the
//! job instead of a message.
//!
//! # Stopping
//!
//! A handler is notified when it should stop: an operator sent a command, the node shuts down, or
//! the claim is lost. It has the stop grace of its kind (30 s by default) to return. After that it
//! is aborted: async code is dropped at its next `.await`.
//!
//! ```
//! use windlass::{Message, TaskContext};
//!
//! async fn poll(task: TaskContext) -> Message {
//!     tokio::select! {
//!         stop = task.stop_requested() => stop.message(),
//!         () = work() => Message::sleep_for(std::time::Duration::from_secs(60)),
//!     }
//! }
//! # async fn work() {}
//! # fn is_handler(_: impl windlass::StatefulHandler) {}
//! # is_handler(poll);
//! ```
//!
//! A handler that returns the output of its job and no message cannot give its task back: it ends within the grace, or is
//! aborted. The next run begins with the last stored data, and no attempt is used. An error that it returns is a failed attempt.
//!
//! # Blocking work
//!
//! Run blocking code on [`tokio::task::spawn_blocking`]. Such code cannot be aborted, so it has to
//! check [`TaskContext::should_stop`] regularly:
//!
//! ```
//! use windlass::{Message, TaskContext};
//!
//! async fn crunch(task: TaskContext) -> Result<Message, windlass::BoxError> {
//!     let inner = task.clone();
//!     let sum = tokio::task::spawn_blocking(move || {
//!         let mut sum = 0u64;
//!         for n in 0..1000 {
//!             if inner.should_stop() {
//!                 return None;
//!             }
//!             sum += n;
//!         }
//!         Some(sum)
//!     })
//!     .await?;
//!     Ok(match sum {
//!         Some(sum) => Message::complete_with(sum),
//!         None => task.stop_requested().await.message(),
//!     })
//! }
//! # fn is_handler(_: impl windlass::StatefulHandler) {}
//! # is_handler(crunch);
//! ```

mod answer;
mod asks;
mod batch;
mod client;
mod context;
mod log;
mod log_buffer;
mod mark;
mod outputs;
mod progress;
mod props;
mod returned;
mod run_data;
mod signals;
mod state;
mod time;
mod typed;
mod waited;

use std::future::Future;

use async_trait::async_trait;
use windlass_statemachine::{Message, TaskType, Untyped};

pub use answer::AnswerError;
#[cfg(feature = "testing")]
pub(crate) use asks::Asked;
pub(crate) use asks::{Ask, AskRunner, Sent, Stored};
pub use batch::{IntoMessages, TaskBatch};
pub use context::{CheckpointError, TaskContext};
pub(crate) use log_buffer::Waiting;
pub use outputs::{NoOutput, Outputs, OutputsError, WaitedTask, WaitedTasks};
pub use props::PropsError;
pub use returned::{IntoMessage, Output, OutputResult};
pub(crate) use run_data::{Attempt, RunData};
pub(crate) use signals::Signals;
pub use signals::{Commands, Stop};
pub use state::MissingState;
pub(crate) use state::{Needed, Shared};
pub(crate) use typed::Typed;
pub use windlass_statemachine::BoxError;

/// The code for one kind of task. Async functions and closures from [`TaskContext`] to anything
/// that is [`IntoMessage`] implement it.
///
/// `StatefulHandler` runs tasks of any kind, `StatefulHandler<J>` those of one [`Job`](crate::Job).
/// The second parameter distinguishes functions by their return type; a type that implements the
/// trait leaves it out.
///
/// # Guarantees
///
/// - It runs only while this node has the task's claim, and the state it starts from is durable.
/// - It runs at most once at a time for a task, in the whole namespace.
/// - What it returns is persisted before anything follows from it. If the claim was lost in the
///   meantime, the returned message changes nothing.
///
/// # Caveats
///
/// - Code between two persisted points can run again after a crash: it runs at least once.
/// - A panic becomes an Error message with the panic's text and place.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Job, Message, StatefulHandler, TaskContext};
///
/// #[derive(Serialize, Deserialize)]
/// struct Mail { to: String }
/// impl Job for Mail {
///     const KIND: &str = "mail";
///     type Data = ();
///     type Output = ();
/// }
///
/// struct Mailer { from: String }
///
/// #[windlass::async_trait]
/// impl StatefulHandler<Mail> for Mailer {
///     async fn run(&self, task: TaskContext<Mail>) -> Message<Mail> {
///         println!("mail from {} to {}", self.from, task.job().to);
///         Message::complete()
///     }
/// }
///
/// struct Anything;
///
/// #[windlass::async_trait]
/// impl StatefulHandler for Anything {
///     async fn run(&self, task: TaskContext) -> Message {
///         println!("{} of the kind {}", task.id(), task.kind());
///         Message::complete()
///     }
/// }
/// ```
#[async_trait]
pub trait StatefulHandler<J: TaskType = Untyped, M: 'static = ()>: Send + Sync + 'static {
    /// Works on a task, and returns a message when it is done or should wait.
    async fn run(&self, task: TaskContext<J>) -> Message<J>;

    /// Returns the version of the data that the handler writes: by default
    /// [`Job::DATA_VERSION`](crate::Job::DATA_VERSION), and 1 without a job. The handler reads every
    /// version from 1 to this one ([`TaskContext::data_version`]), and its node claims no task with data
    /// of a newer version. [`KindConfig::data_version`](crate::KindConfig::data_version) overrides it.
    fn data_version(&self) -> u32 {
        J::NEWEST_DATA
    }

    /// Returns whether the handler takes signals: true by default. If false, each signal to a task of the
    /// kind is rejected, and does not wake the task.
    fn takes_signals(&self) -> bool {
        true
    }
}

#[async_trait]
impl<J, M, F, Fut> StatefulHandler<J, M> for F
where
    J: TaskType,
    M: 'static,
    F: Fn(TaskContext<J>) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoMessage<J, M>,
{
    async fn run(&self, task: TaskContext<J>) -> Message<J> {
        let run = task.run.clone();
        let returned = self(task).await;
        // Must be checked before an error becomes text.
        let (holds_props_error, missing) = (run.holds_props_error(), run.missing_in_return());
        let message = returned.into_message();
        run.ends_without(missing.as_ref(), &message);
        match holds_props_error {
            true => message.not_retried(),
            false => message,
        }
    }
}
