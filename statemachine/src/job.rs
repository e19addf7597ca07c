//! [`Job`]: one type that names a kind, its props, its data and its output. [`TaskType`]: a job, or [`Untyped`].

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

pub use crate::json::FIRST_DATA_VERSION;
use crate::{Invalid, Json, Limit, Retry};

/// Any error that a handler may return with `?`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The type of a kind. Its values are the props; it also names the kind, its data and its output.
///
/// # Errors
///
/// A task of the kind whose props do not parse as this type (submitted by other code, say) fails at
/// once, with the reason.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass_statemachine::{Job, Message};
///
/// #[derive(Serialize, Deserialize)]
/// struct Countdown { from: u32 }
///
/// impl Job for Countdown {
///     const KIND: &str = "countdown";
///     type Data = u32;        // what a checkpoint keeps
///     type Output = String;   // what the task completes with
/// }
///
/// fn next(left: u32) -> Message<Countdown> {
///     match left {
///         0 => Message::complete_with("lift-off".to_owned()),
///         left => Message::run().with_data(&(left - 1)),
///     }
/// }
/// assert_eq!(next(3).data().unwrap().as_str(), "2");
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the kind, as [`Kind`](crate::Kind) requires it.
    const KIND: &'static str;

    /// The data that a checkpoint keeps. `()` for a handler that keeps nothing.
    type Data: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The result that the task completes with. `()` for a kind without a result.
    type Output: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The version of [`Data`](Self::Data), which is stored with the data: 1 by default. Raise it when
    /// the type changes, and implement [`migrate`](Self::migrate). A node whose program has a smaller
    /// version does not claim a task with data of this version.
    const DATA_VERSION: u32 = FIRST_DATA_VERSION;

    /// Converts data of an older version to the present version, before the handler runs. `from` is from
    /// 1 to `DATA_VERSION - 1`. By default the data is read as the present type, which is right when only
    /// fields with a default were added.
    ///
    /// Migrated data is not written on its own: it is stored, as the present version, with the next
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
    /// use windlass_statemachine::{BoxError, Job, Json};
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

    /// Returns the retry policy of new tasks of this type; `None`, the default, for the policy of the kind on the node that runs
    /// the task. A policy that a new task is given replaces it. Tasks of the kind that other programs submit without this
    /// type do not have it.
    fn retry() -> Option<Retry> {
        None
    }

    /// Returns the limits of a new task with these props: none by default. They are added to those that the new task is given.
    /// Tasks of the kind that other programs submit without this type do not have them.
    ///
    /// # Errors
    ///
    /// [`Invalid`] of a limit. The submit of the task fails with it.
    ///
    /// # Example
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass_statemachine::{Invalid, Job, Limit};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Call { customer: String }
    ///
    /// impl Job for Call {
    ///     const KIND: &str = "call";
    ///     type Data = ();
    ///     type Output = ();
    ///
    ///     fn limits(&self) -> Result<Vec<Limit>, Invalid> {
    ///         Ok(vec![Limit::at_once(format!("customer={}", self.customer), 3)?])
    ///     }
    /// }
    /// assert_eq!(Call { customer: "acme".into() }.limits()?[0].key(), "customer=acme");
    /// # Ok::<(), Invalid>(())
    /// ```
    fn limits(&self) -> Result<Vec<Limit>, Invalid> {
        Ok(Vec::new())
    }
}

/// Marks a task, a message or a context without a [`Job`]: the kind is a name, and props, data and
/// result are any JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untyped {}

/// The type of a task: a [`Job`], or [`Untyped`]. Nothing else implements it.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{TaskType, Untyped};
///
/// assert_eq!(<Untyped as TaskType>::NEWEST_DATA, 1);
/// ```
pub trait TaskType: sealed::Sealed + Send + Sync + 'static {
    /// The version of the data that the handler writes, which is also the newest that it reads.
    const NEWEST_DATA: u32;

    /// The props as a context holds them: those of a job, or `()` for an untyped task.
    type Props: Clone + Send + Sync + 'static;

    /// Reads the props of a task.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `props`) when they are not of the type of the job.
    fn read_props(props: &Json) -> Result<Self::Props, Invalid>;

    /// Converts data of an older version to the present one, by [`Job::migrate`]. Untyped data stays as it
    /// is.
    ///
    /// # Errors
    ///
    /// The error of [`Job::migrate`].
    fn migrate_data(from: u32, data: Json) -> Result<Json, BoxError>;
}

impl TaskType for Untyped {
    const NEWEST_DATA: u32 = FIRST_DATA_VERSION;
    type Props = ();

    fn read_props(_: &Json) -> Result<(), Invalid> {
        Ok(())
    }

    fn migrate_data(_: u32, data: Json) -> Result<Json, BoxError> {
        Ok(data)
    }
}

impl<J: Job> TaskType for J {
    const NEWEST_DATA: u32 = J::DATA_VERSION;
    type Props = Arc<J>;

    fn read_props(props: &Json) -> Result<Arc<J>, Invalid> {
        props.get("props").map(Arc::new)
    }

    fn migrate_data(from: u32, data: Json) -> Result<Json, BoxError> {
        let migrated = J::migrate(from, data)?;
        Ok(Json::new("data", &migrated)?)
    }
}

/// The data that a task of this type keeps: [`Job::Data`]; any type for an untyped task.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Message;
///
/// let message: Message = Message::run().with_data(&7).with_data("any type");
/// assert_eq!(message.data().unwrap().as_str(), "\"any type\"");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{T}` is not the data of `{Self}`",
    note = "the data of a job is its `Job::Data`"
)]
pub trait TaskData<T: ?Sized>: TaskType {}

impl<T: ?Sized> TaskData<T> for Untyped {}
impl<J: Job> TaskData<J::Data> for J {}

/// The output that a task of this type completes with: [`Job::Output`]; any type for an untyped task.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Action, Message};
///
/// let message: Message = Message::complete_with(7);
/// assert!(matches!(message.action(), Action::Complete { result: Some(_) }));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{T}` is not the output of `{Self}`",
    note = "the output of a job is its `Job::Output`"
)]
pub trait TaskOutput<T>: TaskType {}

impl<T> TaskOutput<T> for Untyped {}
impl<J: Job> TaskOutput<J::Output> for J {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Untyped {}
    impl<J: super::Job> Sealed for J {}
}
