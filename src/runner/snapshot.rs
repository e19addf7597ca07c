//! The reports of a running node about itself.

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{Fence, Kind, NodeName, Progress, StateKind, TaskId};

/// A task that this node has claimed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunningTask {
    /// The task.
    pub id: TaskId,
    /// Its kind.
    pub kind: Kind,
    /// Its durable state.
    pub state: StateKind,
    /// The number of the attempt.
    pub attempt: u32,
    /// The claim's fence.
    pub fence: Fence,
    /// Since when the handler runs, or since when the task is claimed if none runs.
    pub since: Timestamp,
    /// Whether the handler runs. Otherwise the task is in a short sleep, or is being stored.
    pub running: bool,
    /// The progress that the handler has reported.
    pub progress: Option<Progress>,
}

/// A node, as it is at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The node.
    pub node: NodeName,
    /// Its lease; `None` while it has none.
    pub lease: Option<u64>,
    /// Whether it claims no task until it is unfrozen.
    pub frozen: bool,
    /// Whether it releases every task.
    pub draining: bool,
    /// Whether it has received the whole list of tasks.
    pub listed: bool,
    /// How many unclaimed tasks it knows of.
    pub parked: usize,
    /// How many of these could be claimed now.
    pub ready: usize,
    /// The tasks that it has claimed, longest running first.
    pub tasks: Vec<RunningTask>,
}

/// The tasks whose handlers have returned here, and whose results the store does not accept at present
/// (because of a full disk, or a cluster without a quorum). The node keeps sending the results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unstored {
    /// The tasks; empty while the store accepts writes.
    pub tasks: Vec<TaskId>,
    /// Why the store does not accept the results.
    pub reason: String,
    /// Whether the node has stopped without storing them: the tasks keep their last persisted state, and
    /// run again.
    pub given_up: bool,
}
