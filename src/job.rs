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
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(kind = "countdown", data = u32, output = String)]   // what a checkpoint keeps, what the task completes with
//! struct Countdown { from: u32 }
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
//!
//! The derive implements the trait [`Job`]; an `impl Job for Countdown` does the same by hand.

pub use windlass_statemachine::job::{Job, TaskData, TaskOutput, TaskType, Untyped};

/// Implements [`Job`] for a struct or an enum, as its attribute `#[job(…)]` says. The type also has to implement
/// [`Serialize`](serde::Serialize) and [`Deserialize`](serde::Deserialize).
///
/// | attribute | takes | by default |
/// |---|---|---|
/// | `kind` | the name under which tasks are stored: `kind = "countdown"` | none: it is required, so that a renamed type keeps its tasks |
/// | `data` | [`Job::Data`], a type: `data = u32` | `()` |
/// | `output` | [`Job::Output`], a type: `output = String` | `()` |
/// | `data_version` | [`Job::DATA_VERSION`], a number | 1 |
/// | `migrate` | [`Job::migrate`], the path of a function: `migrate = older_poll` | the data is read as the present type |
/// | `retry` | [`Job::retry`], code that makes a [`Retry`](crate::Retry) | the policy of the kind on the node |
/// | `limits` | [`Job::limits`], code that makes an array of [`Limit`](crate::Limit)s; it may use `self` and `?` | no limits |
/// | `crate` | the path of the library: `crate = my_crate::windlass` | `::windlass` |
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use serde::{Deserialize, Serialize};
/// use windlass::{Job, Limit, NewTask, Retry};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(kind = "call", data = u32, output = String)]
/// #[job(retry = Retry::exponential(3, Duration::from_secs(60)))]
/// #[job(limits = [Limit::at_once(format!("customer={}", self.customer), 2)?])]
/// struct Call { customer: String }
///
/// let task = NewTask::of(Call { customer: "acme".into() }).build()?.task;
/// assert_eq!((task.kind.as_str(), task.limits[0].key()), ("call", "customer=acme"));
/// assert_eq!(task.retry, Some(Retry::exponential(3, Duration::from_secs(60))));
/// # Ok::<(), windlass::Invalid>(())
/// ```
///
/// A name that is no attribute does not compile: `a job has no attribute `name`; the attributes are kind, data, output, …`.
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, windlass::Job)]
/// #[job(name = "call")]
/// struct Call;
/// ```
pub use windlass_macros::Job;

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
