//! [`StateStore`]: states alone, for those who keep them in a place of their own.

use async_trait::async_trait;
use windlass_statemachine::{State, TaskId};

use super::Error;

/// One state to store.
#[derive(Debug, Clone, PartialEq)]
pub struct StateWrite {
    /// Whose.
    pub task: TaskId,
    /// The state; it carries the fence of the claim that writes it, and its version.
    pub state: State,
}

/// Loads and stores the states of tasks.
///
/// # Duties of an implementation
///
/// 1. **Fenced.** A write whose `(fence, version)` is smaller than the stored one's is refused with
///    [`Error::Fenced`], in one atomic step with the write. An equal one is the same write again: it
///    succeeds and changes nothing. (The incarnation is not compared: fences grow across retries
///    and replacements too, but a late write of a replaced task may have a greater incarnation.)
/// 2. **Durable before answered.**
/// 3. **Items are independent**; answers come in the order of the items.
/// 4. **Nothing is lost**: a record that cannot be read is answered with [`Error::Corrupt`] and left
///    as it is.
#[async_trait]
pub trait StateStore: Send + Sync + 'static {
    /// Loads states; `None` for a task that has none yet.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::Corrupt`], [`Error::Unavailable`].
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<State>, Error>>;

    /// Stores states.
    ///
    /// # Errors
    ///
    /// Per write: [`Error::Fenced`], [`Error::TooLarge`], [`Error::Unavailable`].
    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>>;

    /// Removes the states of tasks that are gone. One that has none is no error.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::Unavailable`].
    async fn remove(&self, tasks: &[TaskId]) -> Vec<Result<(), Error>>;
}
