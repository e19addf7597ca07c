//! [`Guard`]: what must hold for a transaction to be applied.

use windlass_statemachine::{Fence, Kind, StateKind, TaskId};

/// A condition on one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The task.
    pub task: TaskId,
    /// What must hold for it.
    pub require: Require,
}

/// What must hold for a task before a transaction changes anything. Every condition but
/// [`Absent`](Self::Absent) fails for a task that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Require {
    /// The task exists, live or ended.
    Exists,
    /// No task has the id.
    Absent,
    /// The task is in this state.
    State(StateKind),
    /// Its state has this version ([`TaskState::version`](windlass_statemachine::TaskState::version)): no claim
    /// and no retry has written it since that version was read. A command that waits and a reschedule
    /// leave the version as it is.
    Version(u64),
    /// Its last claim has this fence ([`TaskRecord::fence`](crate::store::TaskRecord::fence)): it was not
    /// claimed since that fence was read. `Fence(0)` for a task that was never claimed.
    Fence(Fence),
    /// It has this kind.
    Kind(Kind),
    /// No node has claimed it.
    Unclaimed,
}
