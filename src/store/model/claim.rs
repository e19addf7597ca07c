//! Claims, and the writes that belong to them.

use std::sync::Arc;

use jiff::Timestamp;

use windlass_statemachine::{
    CommitId, Fence, QueuedCommand, Task, TaskId, TaskState, machine::Write,
};

use super::log_lines::Logged;

/// A claim of a task. Every write carries it, to prove that the writer is the live owner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The task.
    pub task: TaskId,
    /// The fence: greater than that of every earlier claim of the task.
    pub fence: Fence,
    /// The lease to which it is attached.
    pub lease: u64,
    /// A value that the store expects back with the claim (a row number, say).
    pub token: u64,
}

impl Claim {
    /// Returns the claim of a lease on a task.
    pub fn new(task: TaskId, fence: Fence, lease: u64, token: u64) -> Self {
        Self {
            task,
            fence,
            lease,
            token,
        }
    }
}

/// The result of a successful claim: everything that is needed to start the task.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claimed {
    /// The claim.
    pub claim: Claim,
    /// The task.
    pub task: Arc<Task>,
    /// The submit order of the task, as in [`TaskRecord::order`](super::TaskRecord::order). A task that is deleted
    /// and submitted again under the same id has another one.
    pub order: u64,
    /// Its state, after [`TaskState::claimed`].
    pub state: TaskState,
    /// The commands in its queue, in order.
    pub commands: Vec<QueuedCommand>,
    /// Since when it could be claimed ([`TaskState::ready`]); of a task whose wait for others has ended, since the last of
    /// them ended. How late its start is counts from here. `None` for a paused task, for one whose time is not known, and for
    /// a claim that was made before.
    pub ready: Option<Timestamp>,
    /// Whether the previous claim was lost, not released.
    pub abandoned: bool,
    /// Whether a limit of the task is full ([`Task::limits`](windlass_statemachine::Task::limits)). Then the
    /// task was claimed only for its queued commands, and must not run.
    pub over_limit: bool,
}

impl Claimed {
    /// Returns the claim of a task that was free, within its limits and without commands.
    pub fn new(claim: Claim, task: Arc<Task>, order: u64, state: TaskState) -> Self {
        Self {
            claim,
            task,
            order,
            state,
            commands: Vec::new(),
            ready: None,
            abandoned: false,
            over_limit: false,
        }
    }
}

/// One task's write, under a claim. The version that it follows ([`Write::follows`]) and its id
/// ([`TaskState::commit`]) order the writers of one claim.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Commit {
    /// The claim, which must be the live one.
    pub claim: Claim,
    /// The write.
    pub write: Write,
    /// Lines that the handler has logged since the write before.
    pub log: Option<Arc<[Logged]>>,
}

impl Commit {
    /// Returns the commit of a write, with its own id. Send the same commit again when its answer is lost.
    pub fn new(claim: Claim, mut write: Write) -> Self {
        write.state.commit = Some(CommitId(fastrand::u64(..)));
        let log = None;
        Self { claim, write, log }
    }
}

/// Lines of one task that are written without a transition, under a claim.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogWrite {
    /// The claim, which must be the live one.
    pub claim: Claim,
    /// The lines, in order.
    pub lines: Arc<[Logged]>,
}

impl LogWrite {
    /// Returns a write of these lines.
    pub fn new(claim: Claim, lines: impl Into<Arc<[Logged]>>) -> Self {
        Self {
            claim,
            lines: lines.into(),
        }
    }
}
