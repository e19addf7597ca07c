//! Typed kinds: one Rust type is the props of a kind, and names the kind, its data and its output.
//!
//! A [`Job`] replaces three agreements that the compiler cannot check (the kind's name, the type of
//! the props, the type of the result) by one type:
//!
//! - [`Builder::job`](crate::runner::Builder::job) takes a handler of that type: an async function
//!   from a [`TaskContext`](crate::TaskContext) of the job to its output, or to a
//!   [`Message`](crate::Message) of the job.
//! - [`Client::submit`](crate::Client::submit) takes a value of it and returns a
//!   [`Handle`](crate::client::Handle), whose `wait()` returns the output, or the reason why there
//!   is none.
//!
//! The store holds the same JSON as for an untyped task, so typed and untyped code may share a kind.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{BoxError, Client, Job, Message, NewTask, Runner, Store, TaskContext};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Countdown { from: u32 }
//!
//! impl Job for Countdown {
//!     const KIND: &str = "countdown";
//!     type Data = u32;        // what a checkpoint keeps
//!     type Output = String;   // what the task completes with
//! }
//!
//! async fn count_down(task: TaskContext<Countdown>) -> Result<Message<Countdown>, BoxError> {
//!     let mut left = task.data()?.unwrap_or(task.job().from);
//!     while left > 0 {
//!         if task.should_stop() {
//!             return Ok(task.stop_requested().await.into());
//!         }
//!         left -= 1;
//!         task.checkpoint(&left).await?;
//!     }
//!     Ok(Message::complete_with("lift-off".into()))
//! }
//!
//! # #[tokio::main] async fn main() -> Result<(), BoxError> {
//! let store = Store::open("memory:").await?;
//! let runner = Runner::builder(&store).job(count_down).start().await?;
//!
//! let client = Client::new(&store);
//! let flight = client.submit(NewTask::of(Countdown { from: 3 }).id("apollo")).await?;
//! assert_eq!(flight.wait().await?, "lift-off");
//! # runner.shutdown().await;
//! # Ok(()) }
//! ```

pub use windlass_statemachine::job::{Job, TaskData, TaskOutput, TaskType, Untyped};

use crate::{StatefulHandler, handler::Typed};

/// Converts the handler of a job into one of untyped tasks, for code that needs such a handler:
/// [`Builder::default_handler`](crate::runner::Builder::default_handler), or a wrapper.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Job, StatefulHandler, TaskContext, job};
///
/// #[derive(Serialize, Deserialize)]
/// struct Double(u64);
/// impl Job for Double {
///     const KIND: &str = "double";
///     type Data = ();
///     type Output = u64;
/// }
/// async fn double(task: TaskContext<Double>) -> u64 {
///     task.job().0 * 2
/// }
/// # fn takes(_: impl StatefulHandler) {}
/// takes(job::handler(double));
/// ```
pub fn handler<J: TaskType, M: 'static>(
    handler: impl StatefulHandler<J, M>,
) -> impl StatefulHandler {
    Typed::new(handler)
}
