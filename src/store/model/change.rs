//! [`Change`]: the lines of the history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{ActionKind, Author, Fence, Kind, NodeName, StateKind, TaskId};

/// One line of history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Change {
    /// Its place in the history of the namespace; it only grows.
    pub seq: u64,
    /// When it was.
    pub at: Timestamp,
    /// The task it is about.
    pub task: TaskId,
    /// Who made it; `None` for what a node does on its own (its fence names the claim), and where the program gave no
    /// author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
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
            what,
        }
    }
}

impl ChangeKind {
    /// Returns the fence of the claim that the change was made by, or made; `None` for a change without
    /// a claim.
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
    /// It was submitted.
    Submitted {
        /// The state it began in.
        state: StateKind,
    },
    /// A node claimed it.
    Claimed {
        /// Which.
        node: NodeName,
        /// The claim's fence.
        fence: Fence,
        /// The claim before was lost, not released.
        abandoned: bool,
    },
    /// It took a transition.
    Moved {
        /// By this message.
        message: ActionKind,
        /// From this state.
        from: StateKind,
        /// To this state.
        to: StateKind,
        /// By this claim.
        fence: Fence,
        /// By the command of this order, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<u64>,
    },
    /// A running handler made a checkpoint.
    Checkpointed {
        /// By this claim.
        fence: Fence,
    },
    /// The claim was released.
    Dropped {
        /// This one.
        fence: Fence,
    },
    /// The claim was lost with its lease.
    Lost {
        /// This one.
        fence: Fence,
    },
    /// A command was sent to it.
    Commanded {
        /// The command's order.
        command: u64,
    },
    /// An explicit retry started a new incarnation.
    Retried,
    /// A client changed the unclaimed task: its due time, priority, kind, limits, data or props.
    Rescheduled {
        /// The state before.
        from: StateKind,
        /// The state since then: the same, or another one when the due time changed.
        to: StateKind,
        /// The new kind, if the kind changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<Kind>,
    },
    /// Its record cannot be read: it was quarantined.
    Quarantined,
    /// It was deleted, or pruned when its retention was over.
    Deleted,
}
