//! [`IntoMessage`]: the types that a handler may return.

use std::fmt::Display;

use windlass_statemachine::{Job, Message, Untyped};

/// A value that a handler may return: a [`Message`], the output of its [`Job`], or a `Result` of
/// either, whose error becomes the Error message.
///
/// A handler that returns the output alone, or a `Result` of it, cannot give its task back when it is asked to stop:
/// after the grace of its kind it is aborted, at no cost of an attempt.
///
/// The second parameter distinguishes the forms. It is always inferred.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{BoxError, Job, Message, TaskContext, testing};
///
/// #[derive(Serialize, Deserialize)]
/// struct Double(u64);
/// impl Job for Double {
///     const KIND: &str = "double";
///     type Data = ();
///     type Output = u64;
/// }
///
/// async fn output(task: TaskContext<Double>) -> u64 {
///     task.job().0 * 2
/// }
///
/// async fn result(task: TaskContext<Double>) -> Result<u64, BoxError> {
///     Ok(task.job().0.checked_mul(2).ok_or("too large")?)
/// }
///
/// async fn message(task: TaskContext<Double>) -> Message<Double> {
///     Message::complete_with(task.job().0 * 2)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// assert_eq!(testing::run(output, 21, None).await?.result()?, Some(42));
/// assert_eq!(testing::run(result, 21, None).await?.result()?, Some(42));
/// assert_eq!(testing::run(message, 21, None).await?.result()?, Some(42));
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler of `{J}` cannot return `{Self}`",
    note = "it returns a `Message<{J}>`, the output of its job, or a `Result` of either"
)]
pub trait IntoMessage<J = Untyped, M = ()> {
    /// Converts the value into a message.
    fn into_message(self) -> Message<J>;
}

/// Marks handlers that return the output of their job.
#[derive(Debug)]
pub enum Output {}

/// Marks handlers that return a `Result` of the output of their job.
#[derive(Debug)]
pub enum OutputResult {}

impl<J> IntoMessage<J> for Message<J> {
    fn into_message(self) -> Self {
        self
    }
}

impl<J, E: Display> IntoMessage<J> for Result<Message<J>, E> {
    fn into_message(self) -> Message<J> {
        self.unwrap_or_else(failed)
    }
}

impl<J: Job> IntoMessage<J, Output> for J::Output {
    fn into_message(self) -> Message<J> {
        Message::complete_with(self)
    }
}

impl<J: Job, E: Display> IntoMessage<J, OutputResult> for Result<J::Output, E> {
    fn into_message(self) -> Message<J> {
        self.map_or_else(failed, Message::complete_with)
    }
}

pub(super) fn failed<J>(error: impl Display) -> Message<J> {
    Message::error(format_args!("{error:#}"))
}
