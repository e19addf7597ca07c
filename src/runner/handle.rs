//! What can be asked of a runner while it runs.

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::oneshot;
use windlass_statemachine::{Fence, Kind, NodeName, Progress, StateKind, TaskId};

/// A task that this node has claimed.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// Since when the handler runs, or the task is claimed.
    pub since: Timestamp,
    /// Whether the handler runs (otherwise it sleeps for a short time, or is being stored).
    pub running: bool,
    /// How far the handler says it is.
    pub progress: Option<Progress>,
}

/// A node, as it is at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// The node.
    pub node: NodeName,
    /// Its lease; `None` while it has none.
    pub lease: Option<u64>,
    /// It claims nothing until it is unfrozen.
    pub frozen: bool,
    /// It gives everything back.
    pub draining: bool,
    /// It has seen the whole list of tasks.
    pub listed: bool,
    /// How many unclaimed tasks it knows of.
    pub parked: usize,
    /// How many of them could be claimed now.
    pub ready: usize,
    /// What it has claimed, longest running first.
    pub tasks: Vec<RunningTask>,
}

/// A request to the engine.
pub(super) enum Control {
    Shutdown,
    Abort,
    Freeze,
    Unfreeze,
    Drain(oneshot::Sender<()>),
    Snapshot(oneshot::Sender<Snapshot>),
}
