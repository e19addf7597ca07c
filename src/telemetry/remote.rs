//! [`RemoteMetrics`]: what a server counts of the tasks of remote workers.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use windlass_statemachine::{Kind, machine::Write};

use super::{CommitMetrics, FirstStart, Moved, NodeMetrics, RunOutcome, store_error};
use crate::store::Error;

/// The metrics of the tasks of remote workers, as those of a node.
pub(crate) struct RemoteMetrics {
    node: Mutex<NodeMetrics>,
    commits: CommitMetrics,
}

impl RemoteMetrics {
    pub(crate) fn new() -> Self {
        Self {
            node: Mutex::new(NodeMetrics::new()),
            commits: CommitMetrics::new(),
        }
    }

    fn of(&self, kind: &Kind) -> std::sync::Arc<super::KindMetrics> {
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        node.of(kind)
    }

    /// Registers the counters of these kinds: they begin with 0.
    pub(crate) fn begin<'a>(&self, kinds: impl Iterator<Item = &'a Kind>) {
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        node.begin(kinds);
    }

    /// Records a claim of a task that could be claimed since a time. It counts when its run is sent.
    pub(crate) fn claimed(
        &self,
        kind: &Kind,
        ready: Option<Timestamp>,
        now: Timestamp,
        abandoned: bool,
    ) -> FirstStart {
        let late = ready.and_then(|ready| Duration::try_from(now.duration_since(ready)).ok());
        self.of(kind).claimed(late, abandoned)
    }

    /// Records the end of a run, which began this long ago if this process has seen its start.
    pub(crate) fn ended(&self, kind: &Kind, outcome: RunOutcome, ran: Option<Duration>) {
        self.of(kind).ended_elsewhere(outcome, ran);
    }

    /// Records the transitions of a write that is durable.
    pub(crate) fn moved(&self, kind: &Kind, write: &Write) {
        let steps = write.steps.iter().map(|step| step.to);
        self.of(kind).moved(Moved::to(steps));
    }

    /// Records one call that writes transitions.
    pub(crate) fn committed(&self, took: Duration, writes: usize) {
        self.commits.answered(took, writes);
    }

    /// Records a write that was refused.
    pub(crate) fn refused(&self, error: &Error) {
        store_error("commit", error);
        if matches!(error, Error::Fenced(_)) {
            let node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.fenced();
        }
    }
}
