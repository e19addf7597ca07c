//! [`Event`]: a report of a watch.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::{
    Fence, Kind, QueuedCommand, TaskId, state::FIRST_DATA_VERSION, task::Labels,
};

use super::node::QueuedNodeCommand;

/// A task, as far as a node needs to know it: whether, when and by which nodes it can be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskView {
    /// The task.
    pub id: TaskId,
    /// Its kind.
    pub kind: Kind,
    /// Its labels; `None` when it has none.
    pub labels: Option<Arc<Labels>>,
    /// The version of its data
    /// ([`TaskState::data_version`](windlass_statemachine::TaskState::data_version)): only nodes that can
    /// read it claim the task.
    pub data_version: u32,
    /// Its priority.
    pub priority: i32,
    /// Its submit order.
    pub order: u64,
    /// Its position among the claimable tasks of one priority, earliest first: the wake-up of a
    /// sleeping task; for other tasks, about the time since which they can be claimed. `None` for a
    /// paused task, and for a task without a deadline that waits for a live task.
    pub due: Option<Timestamp>,
    /// The time at which the task fails unless it has started or ended
    /// ([`TaskState::deadline`](windlass_statemachine::TaskState::deadline)). From then on a node claims it,
    /// like a task with a command.
    pub deadline: Option<Timestamp>,
    /// Whether the task sleeps. Only then is `due` a time to wait for. Any other task with a `due`
    /// can be claimed at once, even if that time is in the future: it may come from a clock that is
    /// ahead.
    pub sleeping: bool,
    /// The lease to which its claim is attached, if it is claimed.
    pub claimed_by: Option<u64>,
    /// Whether commands are queued for the task.
    pub commanded: bool,
    /// The key of its first limit on tasks at once ([`Task::limits`](windlass_statemachine::Task::limits));
    /// `None` when it has none. Among the claimable tasks of one priority, these keys take turns.
    pub fair_key: Option<Arc<str>>,
}

impl TaskView {
    /// Returns the view of a task that can be claimed now.
    pub fn new(id: TaskId, kind: Kind, order: u64) -> Self {
        Self {
            id,
            kind,
            labels: None,
            data_version: FIRST_DATA_VERSION,
            priority: 0,
            order,
            due: None,
            deadline: None,
            sleeping: false,
            claimed_by: None,
            commanded: false,
            fair_key: None,
        }
    }
}

/// A report of a watch. Events are level-triggered: each contains the present state, so receiving
/// one twice, or only the last of several, makes no difference.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Drop all known tasks: a list follows. Sent at the start, and whenever the history from which
    /// the watch would resume is gone.
    Reset,
    /// The list is complete.
    Listed,
    /// The present state of a live task.
    Task(TaskView),
    /// The task has ended, was deleted or was quarantined. A task with the same id and a greater
    /// order is another task, which this event does not concern.
    Gone {
        /// The task.
        id: TaskId,
        /// Its submit order ([`TaskRecord::order`](super::TaskRecord::order)).
        order: u64,
        /// Every claim up to this fence has ended. A task that was retried may have a later claim.
        /// `None` when the task was deleted: every claim of it has ended.
        fence: Option<Fence>,
    },
    /// Commands are queued for a task that this lease has claimed.
    Commands {
        /// The task.
        id: TaskId,
        /// Its submit order ([`TaskRecord::order`](super::TaskRecord::order)): no other task with this id may
        /// get the commands.
        order: u64,
        /// The commands, in order.
        commands: Vec<QueuedCommand>,
    },
    /// A command for the node of this watch, or for a remote worker. A node leaves those of workers to the servers.
    /// The command is answered with `acknowledge`.
    Node(QueuedNodeCommand),
    /// Another node joined, left, or changed: call `peers`. A store that cannot notice this at no
    /// cost does not send the event, so nodes also call `peers` regularly.
    Peers,
}
