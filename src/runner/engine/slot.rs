//! [`Slot`]: one claimed task of this node, with its machine and its handler.

use std::{collections::VecDeque, sync::Arc};

use futures::future::AbortHandle;
use jiff::Timestamp;
use tokio::{sync::oneshot, time::Instant};
use windlass_statemachine::{FailedAttempt, Machine, Progress, Task};

use super::{Heard, KindEntry, timers};
use crate::{
    handler::{ContextParts, Signals},
    runner::handle::RunningTask,
    store::{Claim, NodeCommandId},
};

/// A handler that runs.
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) abort: AbortHandle,
    pub(super) signals: Signals,
    pub(super) parts: Arc<ContextParts>,
    pub(super) since: Timestamp,
    pub(super) began: Instant,
}

pub(super) struct Slot {
    pub(super) claim: Claim,
    pub(super) task: Arc<Task>,
    /// The task's submit order: which task of this id it is.
    pub(super) order: u64,
    pub(super) machine: Machine,
    pub(super) kind: Arc<KindEntry>,
    pub(super) run: Option<Run>,
    /// Whether it counts against the limits.
    pub(super) active: bool,
    pub(super) timers: timers::Set,
    pub(super) next_ticket: u64,
    pub(super) asks: VecDeque<(u64, oneshot::Sender<Result<(), String>>)>,
    /// What was heard of the task since it is here: it counts when the slot is gone.
    pub(super) latest: Option<Heard>,
    /// The failed attempt in the write under way: it is reported when it is durable.
    pub(super) failed: Option<FailedAttempt>,
    /// Node commands that are answered when the slot is gone.
    pub(super) stop_orders: Vec<NodeCommandId>,
    pub(super) claimed_at: Timestamp,
    pub(super) claimed: Instant,
}

impl Slot {
    /// What the handler said of its progress since the last write.
    pub(super) fn take_progress(&self) -> Option<Progress> {
        self.run.as_ref()?.parts.progress()
    }

    /// When the handler was started, or the task claimed if none runs.
    pub(super) fn began(&self) -> Instant {
        self.run.as_ref().map_or(self.claimed, |run| run.began)
    }

    pub(super) fn describe(&self) -> RunningTask {
        let state = self.machine.state();
        RunningTask {
            id: self.task.id.clone(),
            kind: self.task.kind.clone(),
            state: state.code(),
            attempt: state.attempts.saturating_add(1),
            fence: self.claim.fence,
            since: self.run.as_ref().map_or(self.claimed_at, |r| r.since),
            running: self.run.is_some(),
            progress: self.take_progress().or_else(|| state.progress.clone()),
        }
    }
}
