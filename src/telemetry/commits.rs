//! [`CommitMetrics`]: the calls that write transitions.

use std::time::Duration;

use metrics::Histogram;

use super::{COMMIT_BATCH, COMMIT_DURATION};

/// The metrics of the calls that write transitions.
#[derive(Clone)]
pub(crate) struct CommitMetrics {
    duration: Histogram,
    batch: Histogram,
}

impl CommitMetrics {
    pub(crate) fn new() -> Self {
        Self {
            duration: metrics::histogram!(COMMIT_DURATION),
            batch: metrics::histogram!(COMMIT_BATCH),
        }
    }

    /// Records a call with this many writes, and how long it took.
    pub(crate) fn answered(&self, took: Duration, writes: usize) {
        self.duration.record(took);
        self.batch.record(writes as f64);
    }
}
