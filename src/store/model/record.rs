//! Tasks and commands as a store knows them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    Author, Command, CommandId, Fence, Kind, Limit, NodeName, Outcome, QueuedCommand, StateKind,
    Task, TaskId, TaskState, fingerprint,
};

use crate::store::Error;

/// A command as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
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
    /// Who sent it, if the sender said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// The outcome; `None` while it waits.
    pub outcome: Option<Outcome>,
}

impl CommandRecord {
    /// Returns a command that waits, without an author.
    pub fn new(task: TaskId, queued: QueuedCommand, sent_at: Timestamp) -> Self {
        Self {
            id: queued.id,
            task,
            order: queued.order,
            command: queued.command,
            sent_at,
            by: None,
            outcome: None,
        }
    }
}

/// A task as the store knows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
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
    /// The limit that holds it back; `None` when none does, or no node has tried to claim it.
    pub limited_by: Option<LimitedBy>,
}

impl TaskRecord {
    /// Returns a task that no node has claimed.
    pub fn new(
        task: Task,
        state: Result<TaskState, Error>,
        order: u64,
        submitted_at: Timestamp,
    ) -> Self {
        Self {
            fence: state
                .as_ref()
                .map_or_else(|_| Fence::default(), |state| state.fence),
            task,
            state,
            order,
            submitted_at,
            node: None,
            commands: 0,
            limited_by: None,
        }
    }
}

impl TaskRecord {
    /// Returns the [fingerprint](windlass_statemachine::fingerprint) of its last error, or of the reason why its record
    /// cannot be read; `None` without an error. Tasks that failed for the same reason have the same one.
    pub fn fingerprint(&self) -> Option<String> {
        match &self.state {
            Ok(state) => state.errors.last().map(|last| fingerprint(&last.error)),
            // The text of the error names the task.
            Err(Error::Corrupt { reason, .. }) => Some(fingerprint(reason)),
            Err(other) => Some(fingerprint(&other.to_string())),
        }
    }
}

/// The limit that holds a task back: no slot was free when a node claimed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LimitedBy {
    /// The limit.
    pub limit: Limit,
    /// When the next slot of a limit on starts is free; `None` for a limit on tasks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl LimitedBy {
    /// Returns a limit that holds a task back, without a time.
    pub fn new(limit: Limit) -> Self {
        Self { limit, until: None }
    }
}

/// A limit that tasks use at present: some claim has a slot of it, or some task waits for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LimitUse {
    /// Its key.
    pub key: String,
    /// What it counts.
    pub form: LimitForm,
    /// The limit as a task has it that waits in its line or is claimed: of several, the one with the greatest
    /// number. `None` for a limit on starts when there is no such task; a store may know it even then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How many claims have a slot: of a limit on starts, those that began within the period.
    pub taken: u32,
    /// How many tasks wait in its line.
    pub waiting: u64,
    /// When the next slot of a limit on starts is free; `None` when one is, for a limit on tasks at once, and
    /// while [`limit`](Self::limit) is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
}

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitForm {
    /// Tasks that are claimed at the same time.
    AtOnce,
    /// Claims that begin within a period.
    Starts,
}

/// How many tasks of a kind are in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
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

impl TaskCount {
    /// Returns the number of tasks of a kind and a state, none of them claimed.
    pub fn new(kind: Kind, state: Option<StateKind>, tasks: u64) -> Self {
        Self {
            kind,
            state,
            tasks,
            claimed: 0,
        }
    }
}
