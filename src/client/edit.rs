//! Changes what a task is: reschedules, retries with other data and props, and deletions of claimed tasks.

use windlass_statemachine::{Delete, Invalid, Reschedule, RetryTask, StateKind, TaskId};

use super::{Client, name, only};
use crate::store::{Applied, Done, Error, Operation};

impl Client {
    /// Changes a task that no node has claimed: its due time, priority, kind, limits, data or props. Returns its state.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with the reason; [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::{Reschedule, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("inbox").id("mail-7")).await?;
    /// let aside = Reschedule::new("mail-7".parse()?).kind("inbox/err".parse()?);
    /// client.reschedule(aside).await?;
    /// assert_eq!(client.get("mail-7").await?.task.kind.as_str(), "inbox/err");
    /// # Ok(()) }
    /// ```
    pub async fn reschedule(&self, change: Reschedule) -> Result<StateKind, Error> {
        only(self.reschedule_many(vec![change]).await)
    }

    /// Changes unclaimed tasks in one call, and returns the new state of each in their order. Each succeeds or fails on
    /// its own, as [`reschedule`](Self::reschedule).
    pub async fn reschedule_many(&self, changes: Vec<Reschedule>) -> Vec<Result<StateKind, Error>> {
        let ids: Vec<TaskId> = changes.iter().map(|change| change.task.clone()).collect();
        let answers = self.apply_each(changes, Operation::Reschedule).await;
        let state = |(answer, id): (Result<Applied, Error>, &TaskId)| match answer
            .map_err(Error::of_operation)?
            .done()
        {
            [Done::Rescheduled(state)] => Ok(*state),
            other => Err(Error::Unusable(format!(
                "could not reschedule task '{id}': the store returned the results {other:?} of other operations; \
                 report it to the author of the store"
            ))),
        };
        answers.into_iter().zip(&ids).map(state).collect()
    }

    /// Retries a task, also with other data or props.
    ///
    /// # Errors
    ///
    /// As [`retry`](Self::retry). With other data or props [`Error::Refused`] has the reason.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Command, Json, NewTask, store::{RetryTask, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("report").id("may")).await?;
    /// # client.command("may", Command::Kill).await?;
    /// let corrected = RetryTask::new("may".parse()?).props(Json::parse("props", r#"{"month":5}"#)?);
    /// let refused = client.retry_with(corrected).await.unwrap_err();
    /// assert!(refused.to_string().contains("is runnable"), "{refused}");
    /// # Ok(()) }
    /// ```
    pub async fn retry_with(&self, retry: RetryTask) -> Result<(), Error> {
        let answers = self.apply_each(vec![retry], Operation::Retry).await;
        only(answers).map(drop).map_err(Error::of_operation)
    }

    /// Deletes a task, also one that a node has claimed: its handler is stopped, and what it returns is lost.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn force_delete(
        &self,
        id: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<(), Error> {
        only(self.force_delete_many(vec![name(id)?]).await)
    }

    /// As [`delete_many`](Self::delete_many), also for tasks that a node has claimed: the nodes stop their handlers.
    pub async fn force_delete_many(&self, tasks: Vec<TaskId>) -> Vec<Result<(), Error>> {
        let tasks = tasks.into_iter().map(|task| Delete::new(task).forced());
        self.delete_each(tasks.collect()).await
    }
}
