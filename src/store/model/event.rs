//! [`Event`]: what a watch delivers.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::{
    Fence, Kind, QueuedCommand, TaskId, state::FIRST_DATA_VERSION, task::Labels,
};

use super::node::QueuedNodeCommand;

/// A task as a node needs to know it: whether, when and by whom it can be claimed.
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
    /// ([`TaskState::data_version`](windlass_statemachine::TaskState::data_version)): only nodes that read
    /// it claim the task.
    pub data_version: u32,
    /// Its priority.
    pub priority: i32,
    /// Its place among all submits.
    pub order: u64,
    /// Its place among the claimable tasks of one priority, earliest first: the wake-up of a
    /// sleeping task, about the time since which any other could be claimed. `None` for one that is
    /// paused, and for one without a deadline that waits for a live task.
    pub due: Option<Timestamp>,
    /// When it fails unless it has started or ended by then
    /// ([`TaskState::deadline`](windlass_statemachine::TaskState::deadline)): from then on a node claims it, as
    /// one with a command.
    pub deadline: Option<Timestamp>,
    /// Whether it sleeps: only then is `due` a time to wait for. Any other task that has a `due` can
    /// be claimed at once, since that time may come from a clock that is ahead.
    pub sleeping: bool,
    /// The lease to which its claim is attached, if it is claimed.
    pub claimed_by: Option<u64>,
    /// Whether commands wait for it.
    pub commanded: bool,
    /// The key of its first limit on tasks at once
    /// ([`Task::limits`](windlass_statemachine::Task::limits)); `None` when it has none. Among the claimable
    /// tasks of one priority, keys take turns.
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

/// A report of a watch. Events are levels, not edges: each gives the present state, so seeing one
/// twice, or only the last of several, makes no difference.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Forget every task that you know of: a list follows (at the start, and whenever the history
    /// that the watch resumes from is gone).
    Reset,
    /// The list is complete.
    Listed,
    /// A live task as it is now.
    Task(TaskView),
    /// The task has ended, was deleted or was quarantined. A task with the same id and a greater
    /// order is another task: this event does not concern it.
    Gone {
        /// The task.
        id: TaskId,
        /// Its [`TaskRecord::order`](super::TaskRecord::order).
        order: u64,
        /// Every claim up to this fence is over: a task that was retried may have a later one.
        /// `None` when the task was deleted: every claim of it is over.
        fence: Option<Fence>,
    },
    /// Commands wait for a task that this lease has claimed.
    Commands {
        /// The task.
        id: TaskId,
        /// Its [`TaskRecord::order`](super::TaskRecord::order): no other task with this id may get the commands.
        order: u64,
        /// The commands, in order.
        commands: Vec<QueuedCommand>,
    },
    /// A command for this node; to be answered with `acknowledge`.
    Node(QueuedNodeCommand),
    /// Another node came, went, or reported something new: `peers` returns it. A store that
    /// cannot tell at no cost does not: nodes ask now and then all the same.
    Peers,
}
