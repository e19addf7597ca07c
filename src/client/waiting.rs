//! [`Waiting`]: a report of [`Client::wait_with`](super::Client::wait_with) about a task that has not ended.

use std::fmt;

use windlass_statemachine::FailedAttempt;

use super::WaitReason;
use crate::store::TaskRecord;

/// A report about a task that a client waits for. Its text is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// An attempt failed.
    Failed(FailedAttempt),
    /// No node runs the task, for this reason. Reported when the reason changes.
    Waits(WaitReason),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failed) => failed.fmt(f),
            Self::Waits(waits) => write!(f, "waits: {waits}"),
        }
    }
}

/// Reports what has changed between two looks at a task.
pub(super) struct Reporter<F> {
    report: F,
    /// The number of errors at the last look; `None` before the first look.
    errors: Option<u64>,
    waits: Option<WaitReason>,
}

impl<F: FnMut(Waiting)> Reporter<F> {
    pub(super) fn new(report: F) -> Self {
        Self {
            report,
            errors: None,
            waits: None,
        }
    }

    /// Reports new failed attempts, and the reason why no node runs the task if it has changed. The first
    /// look reports the latest attempts that failed in a row.
    pub(super) fn look(&mut self, record: &TaskRecord, waits: Option<WaitReason>) {
        let Ok(state) = &record.state else { return };
        let total = state.errors.total();
        let before = total.saturating_sub(state.attempts.into());
        for failed in FailedAttempt::since(state, self.errors.unwrap_or(before)) {
            (self.report)(Waiting::Failed(failed));
        }
        self.errors = Some(total);
        if waits != self.waits
            && let Some(waits) = &waits
        {
            (self.report)(Waiting::Waits(waits.clone()));
        }
        self.waits = waits;
    }
}
