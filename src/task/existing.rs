//! What a submit does when its id or its unique key is taken.

use windlass_statemachine::IfExists;

use super::NewTask;

impl<J> NewTask<J> {
    /// Accepts an existing task with the id if it is the same work: the same kind, and props of the
    /// same value. The submit then succeeds, and makes no second task ([`IfExists::Same`]). Other work is refused, and the error
    /// says how it differs.
    pub fn idempotent(mut self) -> Self {
        self.if_exists = IfExists::Same;
        self
    }

    /// Replaces an existing task with the id if it has ended ([`IfExists::ReplaceFinished`]).
    pub fn replace_finished(mut self) -> Self {
        self.if_exists = IfExists::ReplaceFinished;
        self
    }

    /// Replaces the props and the time of a waiting task with the id, or with the unique key
    /// ([`IfExists::ReplaceWaiting`]): of many submits within a period, the last one runs, once. The waiting task keeps
    /// everything else, whatever the submit gives ([`Submit::not_taken_over`](crate::store::Submit::not_taken_over)); a key
    /// of a limit that contains a value of the props follows the new props.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Client, NewTask, store::{Filter, Page, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let (pause, day) = (Duration::from_secs(5), Duration::from_secs(86_400));
    /// for word in ["a", "an", "ann"] {
    ///     let index = NewTask::new("index").props(word).unique("index-7", day);
    ///     client.submit(index.start_in(pause).replace_waiting()).await?;
    /// }
    /// let waiting = client.list(&Filter::default(), Page::new(10)).await?;
    /// assert_eq!((waiting.len(), waiting[0].task.props.as_str()), (1, r#""ann""#));
    /// # Ok(()) }
    /// ```
    pub fn replace_waiting(mut self) -> Self {
        self.if_exists = IfExists::ReplaceWaiting;
        self
    }

    /// Accepts any existing task with the id, live or ended, whatever its kind and props are
    /// ([`IfExists::Skip`]).
    pub fn skip_existing(mut self) -> Self {
        self.if_exists = IfExists::Skip;
        self
    }
}
