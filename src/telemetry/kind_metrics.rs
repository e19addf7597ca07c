//! [`KindMetrics`]: what a node records of the tasks of a kind.

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, Histogram};
use windlass_statemachine::{Kind, StateKind};

use super::{
    ABANDONED, ATTEMPTS, CLAIMS, FENCED, LATENESS, RUN_DURATION, RUNNING, TRANSITIONS, counters,
    kinds::label,
};
use crate::hash::HashMap;

/// How a run of a handler ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunOutcome {
    Returned,
    Failed,
    Aborted,
}

/// The metrics of one kind, registered once.
#[derive(Debug)]
pub(crate) struct KindMetrics {
    claims: Counter,
    abandoned: Counter,
    lateness: Histogram,
    running: Gauge,
    run_duration: Histogram,
    returned: Counter,
    failed: Counter,
    aborted: Counter,
    /// The counters, in the order of [`StateKind::ALL`].
    transitions: [Counter; StateKind::ALL.len()],
}

impl KindMetrics {
    fn new(kind: &Kind) -> Self {
        let kind = label(kind);
        let name = || kind.clone();
        let outcome = |outcome: &'static str| metrics::counter!(ATTEMPTS, "kind" => name(), "outcome" => outcome);
        Self {
            claims: metrics::counter!(CLAIMS, "kind" => name()),
            abandoned: metrics::counter!(ABANDONED, "kind" => name()),
            lateness: metrics::histogram!(LATENESS, "kind" => name()),
            running: metrics::gauge!(RUNNING, "kind" => name()),
            run_duration: metrics::histogram!(RUN_DURATION, "kind" => name()),
            returned: outcome("returned"),
            failed: outcome("failed"),
            aborted: outcome("aborted"),
            transitions: StateKind::ALL
                .map(|to| metrics::counter!(TRANSITIONS, "kind" => name(), "to" => to.as_str())),
        }
    }

    /// Records a claim. The claim counts, with how late it was, when a handler starts.
    pub(crate) fn claimed(self: &Arc<Self>, late: Option<Duration>, abandoned: bool) -> FirstStart {
        if abandoned {
            self.abandoned.increment(1);
        }
        let metrics = self.clone();
        FirstStart { metrics, late }
    }

    /// Records the start of a handler.
    pub(crate) fn started(&self) {
        self.running.increment(1.0);
    }

    /// Records the end of a handler.
    pub(crate) fn ended(&self, outcome: RunOutcome, ran: Duration) {
        self.running.decrement(1.0);
        self.ended_elsewhere(outcome, Some(ran));
    }

    /// Records the end of a handler in another process.
    pub(super) fn ended_elsewhere(&self, outcome: RunOutcome, ran: Option<Duration>) {
        if let Some(ran) = ran {
            self.run_duration.record(ran);
        }
        match outcome {
            RunOutcome::Returned => self.returned.increment(1),
            RunOutcome::Failed => self.failed.increment(1),
            RunOutcome::Aborted => self.aborted.increment(1),
        }
    }

    /// Records transitions that are durable.
    pub(crate) fn moved(&self, moved: Moved) {
        for (counter, times) in self.transitions.iter().zip(moved.0) {
            if times > 0 {
                counter.increment(times.into());
            }
        }
    }
}

/// The first start of a handler under a claim, which is not counted yet. A claim that only carries out a command of an
/// operator, or ends a task that has missed a deadline, starts none.
#[derive(Debug)]
pub(crate) struct FirstStart {
    metrics: Arc<KindMetrics>,
    late: Option<Duration>,
}

impl FirstStart {
    /// Counts the claim.
    pub(crate) fn count(self) {
        self.metrics.claims.increment(1);
        if let Some(late) = self.late {
            self.metrics.lateness.record(late);
        }
    }
}

/// The number of a write's transitions to each state, in the order of [`StateKind::ALL`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved([u16; StateKind::ALL.len()]);

impl Moved {
    /// Returns the transitions to these states.
    pub(crate) fn to(states: impl Iterator<Item = StateKind>) -> Self {
        let mut moved = Self::default();
        for state in states {
            let times = &mut moved.0[state as usize];
            *times = times.saturating_add(1);
        }
        moved
    }
}

/// The metrics of a node.
pub(crate) struct NodeMetrics {
    kinds: HashMap<Kind, Arc<KindMetrics>>,
    fenced: Counter,
}

impl NodeMetrics {
    /// Registers the counters whose labels are known.
    pub(crate) fn new() -> Self {
        counters::begin();
        Self {
            kinds: HashMap::default(),
            fenced: metrics::counter!(FENCED),
        }
    }

    /// Registers the counters of these kinds: they begin with 0.
    pub(crate) fn begin<'a>(&mut self, kinds: impl Iterator<Item = &'a Kind>) {
        for kind in kinds {
            self.of(kind);
        }
    }

    /// Returns the metrics of a kind.
    pub(crate) fn of(&mut self, kind: &Kind) -> Arc<KindMetrics> {
        if let Some(prepared) = self.kinds.get(kind) {
            return prepared.clone();
        }
        let prepared = Arc::new(KindMetrics::new(kind));
        self.kinds.insert(kind.clone(), prepared.clone());
        prepared
    }

    /// Records a write that was refused because its claim had ended.
    pub(crate) fn fenced(&self) {
        self.fenced.increment(1);
    }
}
