//! [`JobMessage`]: a [`Message`] whose result and data have the types of a [`Job`].

use std::{fmt, marker::PhantomData, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{
    Command, CommandId, Invalid, Message, Require, Reschedule, Signal, SubmitTask, TaskId,
};

use super::Job;
use crate::Stop;

/// What the handler of a typed kind returns: a [`Message`] whose result and data have the types of
/// the kind.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use windlass::{ActionKind, Job, JobMessage, Message};
///
/// #[derive(Serialize, Deserialize)]
/// struct Poll { url: String }
/// impl Job for Poll {
///     const KIND: &str = "poll";
///     type Data = u64;
///     type Output = Vec<String>;
/// }
///
/// fn next(found: Vec<String>, polls: u64) -> JobMessage<Poll> {
///     if found.is_empty() {
///         return JobMessage::sleep_for(Duration::from_secs(60)).with_data(&polls);
///     }
///     JobMessage::complete(found)
/// }
/// assert_eq!(Message::from(next(vec![], 1)).data().unwrap().as_str(), "1");
/// assert_eq!(Message::from(next(vec!["a".into()], 2)).kind(), ActionKind::Complete);
/// ```
pub struct JobMessage<J> {
    message: Message,
    job: PhantomData<fn() -> J>,
}

impl<J> JobMessage<J> {
    fn of(message: Message) -> Self {
        Self {
            message,
            job: PhantomData,
        }
    }

    /// Runs the handler again, from the top.
    pub fn run() -> Self {
        Self::of(Message::run())
    }

    /// Sleeps until a time; a time that is past wakes at once.
    pub fn sleep_until(until: Timestamp) -> Self {
        Self::of(Message::sleep_until(until))
    }

    /// Sleeps for `wait` from when the message is applied.
    pub fn sleep_for(wait: Duration) -> Self {
        Self::of(Message::sleep_for(wait))
    }

    /// Waits for a command.
    pub fn pause() -> Self {
        Self::of(Message::pause())
    }

    /// Releases the claim, so that another node (or this one, later) goes on.
    pub fn release() -> Self {
        Self::of(Message::release())
    }

    /// Reports a failed attempt; the retry policy decides what follows.
    pub fn error(error: impl fmt::Display) -> Self {
        Self::of(Message::error(error))
    }

    /// Fails the task at once: a retry cannot fix the error.
    pub fn fail(error: impl fmt::Display) -> Self {
        Self::of(Message::fail(error))
    }

    /// Ends the task as killed.
    pub fn kill() -> Self {
        Self::of(Message::kill())
    }

    /// Sleeps until none of these tasks is live, then runs the handler again, as [`Message::wait_for`]:
    /// [`TaskContext::waited`](crate::TaskContext::waited) lists the outcome of each.
    ///
    /// # Example
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::{BoxError, Client, Job, JobContext, JobMessage, Runner, store::Store};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Square(u64);
    /// impl Job for Square {
    ///     const KIND: &str = "square";
    ///     type Data = ();
    ///     type Output = u64;
    /// }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Sum(Vec<u64>);
    /// impl Job for Sum {
    ///     const KIND: &str = "sum";
    ///     type Data = ();
    ///     type Output = u64;
    /// }
    ///
    /// async fn square(task: JobContext<Square>) -> Result<JobMessage<Square>, BoxError> {
    ///     let Square(n) = task.job();
    ///     Ok(JobMessage::complete(n * n))
    /// }
    ///
    /// async fn sum(task: JobContext<Sum>, client: Client) -> Result<JobMessage<Sum>, BoxError> {
    ///     // A wait for no task ends at once and leaves `waited` empty: without this line, the handler of an empty
    ///     // sum would run again for ever.
    ///     if task.job().0.is_empty() {
    ///         return Ok(JobMessage::complete(0));
    ///     }
    ///     if task.waited().is_empty() {
    ///         let id = |n: &u64| format!("{}-{n}", task.id());
    ///         let message = JobMessage::wait_for_ok(task.job().0.iter().map(id));
    ///         let children = task.job().0.iter().map(|n| Square(*n).id(id(n)));
    ///         return Ok(children.fold(message, JobMessage::and_submit));
    ///     }
    ///     let mut sum = 0;
    ///     for child in task.waited() {
    ///         sum += client.handle::<Square>(&child.task)?.wait().await?;
    ///     }
    ///     Ok(JobMessage::complete(sum))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let client = Client::new(&store);
    /// let reads = client.clone();
    /// let runner = Runner::builder(&store)
    ///     .job(square)
    ///     .job(move |task| sum(task, reads.clone()))
    ///     .start()
    ///     .await?;
    /// assert_eq!(client.submit(Sum(vec![1, 2, 3])).await?.wait().await?, 14);
    /// assert_eq!(client.submit(Sum(vec![])).await?.wait().await?, 0);
    /// runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn wait_for<I>(tasks: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        Self::of(Message::wait_for(tasks))
    }

    /// As [`wait_for`](Self::wait_for). The task fails, without a run of its handler, when one of the tasks does
    /// not complete.
    pub fn wait_for_ok<I>(tasks: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        Self::of(Message::wait_for_ok(tasks))
    }

    /// Sets the time at which a [`wait_for`](Self::wait_for) ends at the latest, by default none. Other messages
    /// stay as they are.
    #[must_use]
    pub fn deadline(self, at: Timestamp) -> Self {
        Self::of(self.message.deadline(at))
    }

    /// Adds an effect: submits a task in the same write, or not at all, as [`Message::and_submit`].
    #[must_use]
    pub fn and_submit<T>(self, task: T) -> Self
    where
        T: TryInto<SubmitTask>,
        T::Error: Into<Invalid>,
    {
        Self::of(self.message.and_submit(task))
    }

    /// Adds an effect: sends a command to another task in the same write, or not at all, as
    /// [`Message::and_send`].
    #[must_use]
    pub fn and_send<T, I>(self, task: T, id: I, command: Command) -> Self
    where
        T: TryInto<TaskId>,
        T::Error: Into<Invalid>,
        I: TryInto<CommandId>,
        I::Error: Into<Invalid>,
    {
        Self::of(self.message.and_send(task, id, command))
    }

    /// Adds an effect: deletes another task in the same write, or not at all, as [`Message::and_delete`].
    #[must_use]
    pub fn and_delete(self, task: impl TryInto<TaskId, Error: Into<Invalid>>) -> Self {
        Self::of(self.message.and_delete(task))
    }

    /// Adds an effect: starts an ended task again in the same write, or not at all, as
    /// [`Message::and_retry`].
    #[must_use]
    pub fn and_retry(self, task: impl TryInto<TaskId, Error: Into<Invalid>>) -> Self {
        Self::of(self.message.and_retry(task))
    }

    /// Adds an effect: gives an unclaimed task another due time or priority in the same write, or not at
    /// all, as [`Message::and_reschedule`].
    #[must_use]
    pub fn and_reschedule(self, change: Reschedule) -> Self {
        Self::of(self.message.and_reschedule(change))
    }

    /// Requires something of another task: otherwise the message is refused with all its effects, as
    /// [`Message::and_require`].
    #[must_use]
    pub fn and_require(
        self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        require: Require,
    ) -> Self {
        Self::of(self.message.and_require(task, require))
    }
}

impl<J> JobMessage<J> {
    /// Replies to a signal in the same write, as [`Message::answer`].
    #[must_use]
    pub fn answer<T: Serialize + ?Sized>(self, signal: &Signal, reply: &T) -> Self {
        Self::of(self.message.answer(signal, reply))
    }

    /// Keeps signals without a reply in the queue, as [`Message::keep_signals`].
    #[must_use]
    pub fn keep_signals(self) -> Self {
        Self::of(self.message.keep_signals())
    }
}

impl<J: Job> JobMessage<J> {
    /// Completes the task with its output.
    ///
    /// A value without a JSON form fails the task with that reason.
    pub fn complete(output: J::Output) -> Self {
        Self::of(Message::complete_with(&output))
    }

    /// Adds new data, which replaces the data of the task.
    ///
    /// A value without a JSON form turns the message into a [`fail`](Self::fail) with that reason.
    #[must_use]
    pub fn with_data(self, data: &J::Data) -> Self {
        Self::of(self.message.with_data(data))
    }
}

impl<J> From<JobMessage<J>> for Message {
    fn from(typed: JobMessage<J>) -> Self {
        typed.message
    }
}

impl<J> From<Stop> for JobMessage<J> {
    /// The message that does what is asked: the command's own, or a release.
    fn from(stop: Stop) -> Self {
        Self::of(stop.message())
    }
}

impl<J> Clone for JobMessage<J> {
    fn clone(&self) -> Self {
        Self::of(self.message.clone())
    }
}

impl<J> PartialEq for JobMessage<J> {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}

impl<J> fmt::Debug for JobMessage<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

/// What the handler of a typed kind may return: a [`JobMessage`], or a `Result` whose error becomes
/// the Error message.
pub trait IntoJobMessage<J> {
    /// Returns the message.
    fn into_job_message(self) -> JobMessage<J>;
}

impl<J> IntoJobMessage<J> for JobMessage<J> {
    fn into_job_message(self) -> Self {
        self
    }
}

impl<J, E: fmt::Display> IntoJobMessage<J> for Result<JobMessage<J>, E> {
    fn into_job_message(self) -> JobMessage<J> {
        self.unwrap_or_else(|error| JobMessage::error(format_args!("{error:#}")))
    }
}
