//! Tasks and commands as a store knows them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    Command, CommandId, Fence, Kind, NodeName, Outcome, StateKind, Task, TaskId, TaskState,
};

use crate::store::Error;

/// A command as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// Its id.
    pub id: CommandId,
    /// The task it was sent to.
    pub task: TaskId,
    /// Its place in the queue.
    pub order: u64,
    /// What is asked.
    pub command: Command,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// The outcome; `None` while it waits.
    pub outcome: Option<Outcome>,
}

/// A task as the store knows it.
#[derive(Debug, Clone)]
pub struct TaskRecord {
    /// The task.
    pub task: Task,
    /// Its state, or why that cannot be read ([`Error::Corrupt`]: the task is quarantined).
    pub state: Result<TaskState, Error>,
    /// Its place among all submits.
    pub order: u64,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// The node that has claimed it.
    pub node: Option<NodeName>,
    /// The fence of its last claim.
    pub fence: Fence,
    /// How many commands wait for it.
    pub commands: u64,
}

/// How many tasks of a kind are in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCount {
    /// The kind.
    pub kind: Kind,
    /// The state; `None` for those that are quarantined.
    pub state: Option<StateKind>,
    /// How many.
    pub tasks: u64,
    /// How many of them are claimed.
    pub claimed: u64,
}
