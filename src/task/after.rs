//! The tasks that a new task waits for.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Invalid, TaskId, Waits, Wake, waits::deadline_without_wait};

use super::NewTask;

impl<J> NewTask<J> {
    /// Starts the task only after these tasks have ended, whatever their outcomes are. The first run gets the
    /// outcome of each ([`TaskContext::waited`](crate::TaskContext::waited)). An id without a task counts as a
    /// task that has ended, so submit the other tasks first, or in the same transaction. Replaces
    /// [`after_ok`](Self::after_ok).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("fetch").id("page")).await?;
    /// client.submit(NewTask::new("sum").id("report").after(["page"])).await?;
    /// assert!(client.get("report").await?.state?.is_waiting());
    ///
    /// let itself = NewTask::new("sum").id("report").after(["report"]).build();
    /// assert_eq!(itself.unwrap_err().field(), "after");
    /// # Ok(()) }
    /// ```
    pub fn after<I>(mut self, tasks: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        self.waits = some(tasks).map(|tasks| Waits::new("after", tasks));
        self
    }

    /// Starts the task only after these tasks have completed. The task fails, without a run of its handler,
    /// when one of them does not complete. Otherwise like [`after`](Self::after).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::NewTask;
    ///
    /// let task = NewTask::new("sum").after_ok(["page-1", "page-2"]).build()?.task;
    /// assert!(task.waits.unwrap().ok);
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn after_ok<I>(mut self, tasks: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        self.waits = some(tasks).map(|tasks| Ok(Waits::new("after_ok", tasks)?.ok()));
        self
    }

    /// Sets the time at which a wait of [`after`](Self::after) or [`after_ok`](Self::after_ok) ends at the
    /// latest; no such time by default. Replaces [`after_within`](Self::after_within).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::NewTask;
    ///
    /// let at = "2030-01-01T00:00:00Z".parse()?;
    /// let task = NewTask::new("sum").after(["page"]).after_deadline(at).build()?.task;
    /// assert_eq!(task.waits.unwrap().deadline, Some(at));
    /// # Ok::<(), windlass::BoxError>(())
    /// ```
    pub fn after_deadline(mut self, at: Timestamp) -> Self {
        self.deadline = Some(Wake::At(at));
        self
    }

    /// Sets how long a wait of [`after`](Self::after) or [`after_ok`](Self::after_ok) lasts at most; without a limit by
    /// default. The duration is counted as that of [`start_in`](Self::start_in). Replaces
    /// [`after_deadline`](Self::after_deadline).
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("fetch").id("page")).await?;
    /// let sum = NewTask::new("sum").id("report").after(["page"]).after_within(Duration::from_secs(3600));
    /// client.submit(sum).await?;
    /// let waits = client.get("report").await?.state?.waits.unwrap();
    /// assert!(waits.deadline.unwrap() > client.now());
    /// # Ok(()) }
    /// ```
    pub fn after_within(mut self, wait: Duration) -> Self {
        self.deadline = Some(Wake::After(wait));
        self
    }
}

/// Returns the items, if there are any.
fn some<I: IntoIterator>(items: I) -> Option<impl Iterator<Item = I::Item>> {
    let mut items = items.into_iter().peekable();
    items.peek().is_some().then_some(items)
}

/// Returns the wait of a new task, without its deadline.
///
/// # Errors
///
/// [`Invalid`] for a deadline without a wait.
pub(super) fn waits(
    waits: Option<Result<Waits, Invalid>>,
    deadline: Option<Wake>,
) -> Result<Option<Box<Waits>>, Invalid> {
    match waits {
        Some(waits) => Ok(Some(Box::new(waits?))),
        None if deadline.is_some() => Err(deadline_without_wait()),
        None => Ok(None),
    }
}
