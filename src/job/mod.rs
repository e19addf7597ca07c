//! Typed kinds: one Rust type is the props of a kind, and names the kind, its data and its output.
//!
//! A [`Job`] replaces three agreements that the compiler cannot check (the kind's name, the type of
//! the props, the type of the result) by one type:
//!
//! - [`Builder::job`](crate::runner::Builder::job) takes a handler of that type: an async function
//!   from a [`JobContext`] to a [`JobMessage`].
//! - [`Client::submit`](crate::Client::submit) takes a value of it and returns a
//!   [`Handle`](crate::client::Handle), whose `wait()` returns the output or the reason why there is
//!   none.
//!
//! The store holds the same JSON as for an untyped task, so typed and untyped code may share a kind.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{BoxError, Client, Job, JobContext, JobMessage, Runner, Store};
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
//! async fn count_down(task: JobContext<Countdown>) -> Result<JobMessage<Countdown>, BoxError> {
//!     let mut left = task.data()?.unwrap_or(task.job().from);
//!     while left > 0 {
//!         if task.should_stop() {
//!             return Ok(task.stop_requested().await.into());
//!         }
//!         left -= 1;
//!         task.checkpoint(&left).await?;
//!     }
//!     Ok(JobMessage::complete("lift-off".into()))
//! }
//!
//! # #[tokio::main] async fn main() -> Result<(), BoxError> {
//! let store = Store::open("memory:").await?;
//! let runner = Runner::builder(&store).job(count_down).start().await?;
//!
//! let client = Client::new(&store);
//! let flight = client.submit(Countdown { from: 3 }.id("apollo")).await?;
//! assert_eq!(flight.wait().await?, "lift-off");
//! # runner.shutdown().await;
//! # Ok(()) }
//! ```

mod context;
mod handler;
mod message;

use serde::{Serialize, de::DeserializeOwned};
use windlass_statemachine::{Json, state::FIRST_DATA_VERSION};

pub(crate) use handler::Typed;
pub use {
    context::JobContext,
    handler::{JobHandler, handler},
    message::{IntoJobMessage, JobMessage},
};

use crate::{BoxError, NewTask};

/// The type of a kind: its values are the props, and it names the kind, its data and its output.
///
/// # Errors
///
/// A task of the kind whose props are not of this type (submitted by other code) fails at once, with
/// the reason.
///
/// # Example
///
/// See the [module](self).
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the kind, as [`Kind`](crate::Kind) requires it.
    const KIND: &'static str;

    /// What a checkpoint keeps. `()` for a handler that keeps nothing.
    type Data: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// What the task completes with. `()` for a kind without a result.
    type Output: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The version of [`Data`](Self::Data), which is stored with it: 1 by default. Raise it when the type
    /// changes, and implement [`migrate`](Self::migrate). A node whose program has a smaller version does
    /// not claim a task with data of this version.
    const DATA_VERSION: u32 = FIRST_DATA_VERSION;

    /// Makes data of the present version of data of an older one, before the handler runs. `from` is
    /// from 1 to `DATA_VERSION - 1`. By default the data is read as the present type, which is right when
    /// only fields with a default were added.
    ///
    /// The migrated data is not written by itself: it is stored, as the present version, with the next
    /// checkpoint or message that brings data.
    ///
    /// # Errors
    ///
    /// Any error: the task fails without a retry and keeps its data. An explicit retry migrates it again.
    ///
    /// # Example
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{BoxError, Job, Json};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Poll { url: String }
    ///
    /// #[derive(Debug, PartialEq, Serialize, Deserialize)]
    /// struct Seen { pages: u64, last: Option<String> }
    ///
    /// impl Job for Poll {
    ///     const KIND: &str = "poll";
    ///     type Data = Seen;
    ///     type Output = ();
    ///     const DATA_VERSION: u32 = 2;
    ///
    ///     fn migrate(from: u32, data: Json) -> Result<Seen, BoxError> {
    ///         match from {
    ///             1 => Ok(Seen { pages: data.get("data")?, last: None }),   // version 1 was a number
    ///             _ => Err(format!("version {from} was never released").into()),
    ///         }
    ///     }
    /// }
    ///
    /// let migrated = Poll::migrate(1, Json::new("data", &7)?)?;
    /// assert_eq!(migrated, Seen { pages: 7, last: None });
    /// # Ok::<(), BoxError>(())
    /// ```
    fn migrate(from: u32, data: Json) -> Result<Self::Data, BoxError> {
        let _ = from;
        Ok(data.get("data")?)
    }

    /// Makes a task of the value, with the defaults of [`NewTask`].
    fn task(self) -> NewTask<Self> {
        NewTask::of(&self)
    }

    /// Makes a task of the value with this id. Short for `task().id(id)`.
    fn id(self, id: impl Into<String>) -> NewTask<Self> {
        self.task().id(id)
    }
}
