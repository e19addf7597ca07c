//! The rows of a namespace: plain data.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::Notify;
use windlass_statemachine::{
    Fence, Kind, NodeName, QueuedCommand, StateKind, Task, TaskId, TaskState,
};

use crate::store::{
    Applied, CommandRecord, Error, LogPart, NodeCommand, NodeCommandId, NodeSpec, NodeStatus,
    Speaker, TaskView, rules::limits::fair_key,
};

/// A stored state. Text of [`MemoryStore::damage`](super::MemoryStore::damage) stays text until it is
/// read.
pub(super) enum Saved {
    State(Box<TaskState>),
    Text(String),
}

impl Saved {
    /// Returns the state, or the reason why it cannot be read.
    pub(super) fn read(&self) -> Result<TaskState, String> {
        match self {
            Self::State(state) => Ok(TaskState::clone(state)),
            Self::Text(text) => serde_json::from_str(text).map_err(|e| e.to_string()),
        }
    }
}

impl From<TaskState> for Saved {
    fn from(state: TaskState) -> Self {
        Self::State(Box::new(state))
    }
}

/// The live claim of a task.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) lease: u64,
    pub(super) fence: Fence,
    /// Whether the previous claim was lost, and the owner has not written since.
    pub(super) abandoned: bool,
    /// Whether the claim was made for commands, without slots of the limits of the task.
    pub(super) over_limit: bool,
}

/// A task with everything that belongs to it.
pub(super) struct Row {
    pub(super) task: Arc<Task>,
    pub(super) saved: Saved,
    /// The version of the last write, known even when the state cannot be read.
    pub(super) version: u64,
    /// The state in which it has ended, and when, known even when the state cannot be read.
    pub(super) ended: Option<(StateKind, Timestamp)>,
    /// Why it was quarantined.
    pub(super) quarantine: Option<String>,
    pub(super) order: u64,
    pub(super) submitted_at: Timestamp,
    pub(super) owner: Option<Owner>,
    /// The fence of the last claim.
    pub(super) fence: Fence,
    /// The node that lost the last claim.
    pub(super) abandoned: Option<NodeName>,
    pub(super) commands: BTreeMap<u64, CommandRecord>,
    /// The commands without an outcome.
    pub(super) waiting: BTreeSet<u64>,
    /// The positions of its changes in the history.
    pub(super) history: VecDeque<u64>,
    /// The lines that its handlers have logged.
    pub(super) log: Vec<LogPart>,
}

impl Row {
    /// Returns its state without its data. A state that cannot be read counts as runnable, because
    /// it is live.
    pub(super) fn code(&self) -> StateKind {
        match (&self.saved, self.ended) {
            (_, Some((code, _))) => code,
            (Saved::State(state), None) => state.code(),
            (Saved::Text(_), None) => StateKind::Runnable,
        }
    }

    /// Returns whether it has ended, even when its state cannot be read.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns the state, or the error why it cannot be read.
    pub(super) fn state(&self) -> Result<TaskState, Error> {
        let reason = match &self.quarantine {
            Some(reason) => reason.clone(),
            None => match self.saved.read() {
                Ok(state) => return Ok(state),
                Err(reason) => reason,
            },
        };
        Err(Error::corrupt_task(&self.task.id, reason))
    }

    pub(super) fn waiting_commands(&self) -> Vec<QueuedCommand> {
        let records = self.waiting.iter().filter_map(|o| self.commands.get(o));
        records.map(CommandRecord::queued).collect()
    }

    /// Returns the view of the task for nodes; `None` for a task that is not live, or that cannot
    /// be read.
    pub(super) fn view(&self) -> Option<TaskView> {
        let Saved::State(state) = &self.saved else {
            return None;
        };
        if self.quarantine.is_some() || state.code().is_terminal() {
            return None;
        }
        let task = &self.task;
        Some(TaskView {
            id: task.id.clone(),
            kind: task.kind.clone(),
            labels: (!task.labels.is_empty()).then(|| Arc::new(task.labels.clone())),
            data_version: state.data_version,
            priority: task.priority,
            order: self.order,
            due: state.due(),
            deadline: state.deadline(),
            sleeping: state.code() == StateKind::Sleeping,
            claimed_by: self.owner.map(|o| o.lease),
            commanded: !self.waiting.is_empty(),
            fair_key: fair_key(&task.limits),
        })
    }
}

/// A command that was sent to a node.
pub(super) struct NodeCommandRow {
    pub(super) lease: u64,
    pub(super) command: NodeCommand,
    pub(super) outcome: Option<String>,
}

/// A live node.
pub(super) struct LeaseRow {
    pub(super) spec: NodeSpec,
    pub(super) status: NodeStatus,
    pub(super) joined_at: Timestamp,
    pub(super) ttl: Duration,
    pub(super) ends_at: Timestamp,
    pub(super) claims: BTreeSet<TaskId>,
    /// Set for a remote worker.
    pub(super) worker: Option<WorkerRow>,
}

/// What is kept of a remote worker beside its lease.
pub(super) struct WorkerRow {
    /// The hash of its secret.
    pub(super) secret: String,
    pub(super) speaker: Speaker,
}

/// The watch of a node.
pub(super) struct Watcher {
    pub(super) lease: u64,
    pub(super) kinds: Option<Vec<Kind>>,
    /// The tasks that have changed since the last read, with their orders, because an id may be
    /// used again.
    pub(super) changed: BTreeSet<(TaskId, u64)>,
    /// The order of the last node command that was reported.
    pub(super) node_command: NodeCommandId,
    pub(super) notify: Arc<Notify>,
}

impl Watcher {
    /// Returns whether the node gets events of this task.
    pub(super) fn cares_for(&self, row: &Row) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.contains(&row.task.kind))
            || row.owner.is_some_and(|owner| owner.lease == self.lease)
    }
}

/// An applied transaction, remembered for repeats.
pub(super) struct Remembered {
    pub(super) at: Timestamp,
    pub(super) applied: Applied,
    pub(super) fingerprint: String,
}
