//! The props of an untyped task, and [`PropsError`] for unreadable ones.

use std::fmt;

use windlass_statemachine::Invalid;

use super::mark::Mark;

/// The props of a task do not parse as the type that its handler reads. Names the field (`props`) and
/// what is wrong.
///
/// An attempt that ends with this error is not retried, because props never change. That is so when the
/// handler returns this error, returns another error that contains it, or panics with it (`unwrap`). An
/// error made only of its text is retried.
///
/// # Example
///
/// ```
/// use windlass::{BoxError, Message, TaskContext, testing};
///
/// async fn add(task: TaskContext) -> Result<Message, BoxError> {
///     let (a, b): (u32, u32) = task.props()?;
///     Ok(Message::complete_with(a + b))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// let ran = testing::run(add, "two numbers", None).await?;
/// assert!(!ran.message().is_retryable());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PropsError {
    invalid: Invalid,
    _mark: Mark,
}

impl PropsError {
    pub(super) fn new(invalid: Invalid, mark: Mark) -> Self {
        Self {
            invalid,
            _mark: mark,
        }
    }

    /// Returns the error of the field `props`.
    pub fn invalid(&self) -> &Invalid {
        &self.invalid
    }
}

impl fmt::Display for PropsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.invalid.fmt(f)
    }
}

impl fmt::Debug for PropsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.invalid.fmt(f)
    }
}

impl std::error::Error for PropsError {}
