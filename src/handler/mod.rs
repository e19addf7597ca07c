//! Handlers: the code that you write for a kind of task.
//!
//! A handler is an async function from a [`TaskContext`] to a [`Message`], or a type that
//! implements [`StatefulHandler`]. It may also return a `Result`: an error is the Error message.
//!
//! ```
//! use windlass::{Message, TaskContext};
//!
//! async fn greet(task: TaskContext) -> Result<Message, windlass::BoxError> {
//!     let name: String = task.props()?;
//!     Ok(Message::complete_with(&format!("hello, {name}")))
//! }
//! # fn is_handler(_: impl windlass::StatefulHandler) {}
//! # is_handler(greet);
//! ```
//!
//! # Stopping
//!
//! A handler is notified when it should stop: an operator sent a command, the node shuts down, the
//! claim is lost. It has the stop grace of its kind (30 s by default) to return; then it is
//! aborted, which for async code means: dropped at its next `.await`.
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
//! # Blocking work
//!
//! Code that blocks belongs on [`tokio::task::spawn_blocking`]; such code cannot be aborted, so it
//! has to look at [`TaskContext::should_stop`] now and then:
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
//!         Some(sum) => Message::complete_with(&sum),
//!         None => task.stop_requested().await.message(),
//!     })
//! }
//! # fn is_handler(_: impl windlass::StatefulHandler) {}
//! # is_handler(crunch);
//! ```

mod answer;
mod asks;
mod context;
mod progress;
mod signals;
mod waited;

use std::future::Future;

use async_trait::async_trait;
use windlass_statemachine::{Message, state::FIRST_DATA_VERSION};

pub use answer::AnswerError;
#[cfg(feature = "testing")]
pub(crate) use asks::Asked;
pub(crate) use asks::{Ask, AskRunner, Sent};
pub(crate) use context::{Attempt, ContextParts};
pub use context::{CheckpointError, TaskContext};
pub(crate) use signals::Signals;
pub use signals::{Commands, Stop};

/// Any error that a handler may return with `?`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler may return: a [`Message`], or a `Result` whose error becomes the Error message.
pub trait IntoMessage {
    /// The message.
    fn into_message(self) -> Message;
}

impl IntoMessage for Message {
    fn into_message(self) -> Message {
        self
    }
}

impl<E: std::fmt::Display> IntoMessage for Result<Message, E> {
    fn into_message(self) -> Message {
        self.unwrap_or_else(|error| Message::error(format_args!("{error:#}")))
    }
}

/// The code for one kind of task. Async functions and closures from [`TaskContext`] to anything
/// that is [`IntoMessage`] implement it.
///
/// # Guarantees
///
/// - It runs only while this node has the task's claim, and the state it starts from is durable.
/// - It runs at most once at a time for a task, in the whole namespace.
/// - What it returns is persisted before anything follows from it. If the claim was lost meanwhile,
///   what it returns changes nothing.
///
/// # Caveats
///
/// - Code between two persisted points can run again after a crash: at least once.
/// - A panic is an Error message with the panic's text and place.
///
/// # Example
///
/// ```
/// use windlass::{Message, StatefulHandler, TaskContext};
///
/// struct Mailer { from: String }
///
/// #[windlass::async_trait]
/// impl StatefulHandler for Mailer {
///     async fn run(&self, task: TaskContext) -> Message {
///         println!("mail from {} for {}", self.from, task.id());
///         Message::complete()
///     }
/// }
/// ```
#[async_trait]
pub trait StatefulHandler: Send + Sync + 'static {
    /// Works on a task until there is something to say about it.
    async fn run(&self, task: TaskContext) -> Message;

    /// Returns the version of the data that the handler writes: 1 by default. The handler reads every
    /// version from 1 to this one ([`TaskContext::data_version`]), and its node claims no task with data
    /// of a newer version. [`KindConfig::data_version`](crate::KindConfig::data_version) overrides it.
    fn data_version(&self) -> u32 {
        FIRST_DATA_VERSION
    }

    /// Returns whether the handler takes signals: true by default. Otherwise each signal to such a task is
    /// rejected, and wakes nothing.
    fn takes_signals(&self) -> bool {
        true
    }
}

#[async_trait]
impl<F, Fut> StatefulHandler for F
where
    F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoMessage,
{
    async fn run(&self, task: TaskContext) -> Message {
        self(task).await.into_message()
    }
}
