//! [`StateStore`]: the states of tasks, for programs that keep them in their own place.

use async_trait::async_trait;
use windlass_statemachine::{Fence, TaskId, TaskState};

use super::Error;

/// One state to store.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StateWrite {
    /// The task of the state.
    pub task: TaskId,
    /// The state, with its version and the fence of the claim that writes it.
    pub state: TaskState,
}

impl StateWrite {
    /// Returns the write of a state.
    pub fn new(task: TaskId, state: TaskState) -> Self {
        Self { task, state }
    }
}

/// One stored state to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateRemoval {
    /// The task of the state.
    pub task: TaskId,
    /// Fence and version of the state that was loaded; `None` for a state that could not be read.
    /// The store removes only this state.
    pub seen: Option<(Fence, u64)>,
}

impl StateRemoval {
    /// Returns the removal of a state with this fence and version; `None` for a state that cannot be
    /// read.
    pub fn new(task: TaskId, seen: Option<(Fence, u64)>) -> Self {
        Self { task, seen }
    }
}

impl StateRemoval {
    /// Returns the removal of the state that [`StateStore::load`] returned for this task; `None`
    /// when there is nothing to remove, or when the state store could not be read.
    pub fn of(task: &TaskId, loaded: &Result<Option<TaskState>, Error>) -> Option<Self> {
        let seen = match loaded {
            Ok(Some(state)) => Some((state.fence, state.version)),
            Err(Error::Corrupt { .. }) => None,
            Ok(None) | Err(_) => return None,
        };
        let task = task.clone();
        Some(Self { task, seen })
    }

    /// Checks the removal against the present result of [`load`](StateStore::load). Returns whether
    /// the state is to be removed.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when another state is stored.
    pub fn check(&self, stored: &Result<Option<TaskState>, Error>) -> Result<bool, Error> {
        match (Self::of(&self.task, stored), stored) {
            (Some(stored), _) if stored == *self => Ok(true),
            (Some(_), _) => Err(Error::fenced(&self.task)),
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(_)) => Ok(false),
        }
    }
}

/// Loads and stores the states of tasks.
///
/// # Stability
///
/// Stable: a breaking change comes with a new major version, and the changelog says how to follow it
/// ([stability](crate#stability)).
///
/// # Duties of an implementation
///
/// 1. **Fenced.** A write whose `(fence, version)` is smaller than the stored one's is refused with
///    [`Error::Fenced`], in one atomic step with the write. An equal one replaces the stored state:
///    it is the same write again, or it follows a write of the same claim that the coordinator
///    refused. (The incarnation is not compared: fences grow across retries and replacements too,
///    but a late write of a replaced task may have a greater incarnation.) Cases:
///    `states::a_smaller_fence_is_refused`, `states::a_smaller_version_is_refused`,
///    `states::a_newer_state_is_stored`, `states::the_incarnation_does_not_matter`,
///    `states::the_same_write_again_succeeds`,
///    `states::another_write_of_the_same_version_is_stored`,
///    `states::writers_at_once_leave_the_greatest`.
/// 2. **Removes only what was seen.** A removal compares the stored state with
///    [`StateRemoval::seen`] in one atomic step with the removal ([`StateRemoval::check`]), and is
///    refused with [`Error::Fenced`] when another state is stored.
///    Cases: `states::a_removed_state_is_gone`, `states::only_the_state_that_was_seen_is_removed`,
///    `states::a_removal_does_not_take_a_write_along`.
/// 3. **Durable.** Acknowledged writes are durable. Cases: `states::states_are_durable`.
/// 4. **Items are independent**; results are in the order of the items. Two ids never share a
///    state. Cases: `states::items_are_independent`, `states::names_do_not_touch`.
/// 5. **Nothing is lost**: a state is read with every field, a state that is too large is refused,
///    and a record that cannot be read is returned as [`Error::Corrupt`] and left as it is. Cases:
///    `states::a_state_comes_back`, `states::large_states_are_stored_or_refused`,
///    `states::an_unreadable_state_is_left_as_it_is`.
///
/// A store need not remember anything about a state that was removed.
/// [`Split`](super::split::Split) explains why a late write then does no harm.
#[async_trait]
pub trait StateStore: Send + Sync + 'static {
    /// Loads states; `None` for a task that has no state yet.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::Corrupt`], [`Error::Unavailable`].
    async fn load(&self, tasks: &[TaskId]) -> Vec<Result<Option<TaskState>, Error>>;

    /// Stores states.
    ///
    /// # Errors
    ///
    /// Per write: [`Error::Fenced`], [`Error::TooLarge`], [`Error::Unavailable`].
    async fn store(&self, writes: Vec<StateWrite>) -> Vec<Result<(), Error>>;

    /// Removes the states of tasks that no longer exist. A task without a state is not an error.
    ///
    /// # Errors
    ///
    /// Per removal: [`Error::Fenced`], [`Error::Unavailable`].
    async fn remove(&self, removals: Vec<StateRemoval>) -> Vec<Result<(), Error>>;
}
