//! [`Change`]: the lines of the history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{ActionKind, Author, Fence, Kind, NodeName, Note, StateKind, TaskId};

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Change {
    /// Its place in the history of the namespace; it only grows.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The changed task.
    pub task: TaskId,
    /// The author of the change; `None` for changes that a node makes on its own (the fence names its claim), and if
    /// the program named no author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// The note of the command that was sent. [`Client::history`](crate::Client::history) adds the notes; a stream of
    /// changes has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// What happened.
    #[serde(flatten)]
    pub what: ChangeKind,
}

impl Change {
    /// Returns a change without an author.
    pub fn new(seq: u64, at: Timestamp, task: TaskId, what: ChangeKind) -> Self {
        Self {
            seq,
            at,
            task,
            by: None,
            note: None,
            what,
        }
    }

    /// Sets the author.
    #[must_use]
    pub fn by(mut self, by: impl Into<Option<Author>>) -> Self {
        self.by = by.into();
        self
    }
}

impl ChangeKind {
    /// Returns the fence of the claim that made the change, or that the change made; `None` for a
    /// change without a claim.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Fence, store::ChangeKind};
    ///
    /// assert_eq!(ChangeKind::Checkpointed { fence: Fence(7) }.fence(), Some(Fence(7)));
    /// assert_eq!(ChangeKind::Deleted.fence(), None);
    /// ```
    pub fn fence(&self) -> Option<Fence> {
        match self {
            Self::Claimed { fence, .. }
            | Self::Moved { fence, .. }
            | Self::Checkpointed { fence }
            | Self::Dropped { fence }
            | Self::Lost { fence } => Some(*fence),
            _ => None,
        }
    }
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// The task was submitted.
    Submitted {
        /// Its first state.
        state: StateKind,
    },
    /// A node claimed the task.
    Claimed {
        /// The node.
        node: NodeName,
        /// The claim's fence.
        fence: Fence,
        /// Whether the previous claim was lost, not released.
        abandoned: bool,
    },
    /// The task made a transition.
    Moved {
        /// The message that caused it.
        message: ActionKind,
        /// The state before.
        from: StateKind,
        /// The state after.
        to: StateKind,
        /// The fence of the claim.
        fence: Fence,
        /// The order of the command that caused it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<u64>,
    },
    /// A running handler made a checkpoint.
    Checkpointed {
        /// The fence of the claim.
        fence: Fence,
    },
    /// The claim was released.
    Dropped {
        /// The fence of the claim.
        fence: Fence,
    },
    /// The claim was lost with its lease.
    Lost {
        /// The fence of the claim.
        fence: Fence,
    },
    /// A command was sent to the task.
    Commanded {
        /// The command's order.
        command: u64,
    },
    /// Another program wrote a command that cannot be read, on etcd. A node rejects it when it has the task.
    MalformedCommand {
        /// The command's order.
        command: u64,
        /// The beginning of its text.
        text: String,
    },
    /// An explicit retry started the task in a new incarnation.
    Retried,
    /// A client changed the unclaimed task: its due time, priority, kind, limits, data or props.
    Rescheduled {
        /// The state before.
        from: StateKind,
        /// The state after: the same, or another one when the due time changed.
        to: StateKind,
        /// The new kind, if the kind changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<Kind>,
    },
    /// The record of the task cannot be read: the task was quarantined.
    Quarantined,
    /// The task was deleted, or pruned after its retention.
    Deleted,
}
