//! Which tasks of an earlier run run again for their lines.

use windlass::{StateKind, store::TaskRecord};

use super::{
    batch::Batch,
    entry::{BATCH, Entry},
};

impl Batch {
    /// Whether a task that an earlier run left has to run again for its line.
    pub(super) fn is_outdated(&self, entry: &Entry, record: &TaskRecord) -> bool {
        let Ok(state) = &record.state else {
            return false;
        };
        let of_earlier_run = record.submitted_at < self.started
            && state.since < self.started
            && record.task.labels.get(BATCH) == Some(&self.name);
        if entry.has_stand_in || !of_earlier_run || !state.code().is_terminal() {
            return false;
        }
        let task = &entry.submit.task;
        let has_failed = state.code() != StateKind::Completed;
        if has_failed && self.settings.retry_failed {
            // A retry keeps the task; the line may have been corrected.
            return self.settings.again || !entry.derived && !record.task.is_same_work(task);
        }
        self.settings.again
            || self.before.is_newer(task, state.since)
            || (entry.stamp.as_ref()).is_some_and(|stamp| stamp.differs(record, state))
    }

    /// Whether a task that an earlier run left has begun, or waited, before a task that runs again and that its
    /// line waits for. A paused one is left to the operator.
    pub(super) fn began_too_early(&self, entry: &Entry, record: &TaskRecord) -> bool {
        let Ok(state) = &record.state else {
            return false;
        };
        !entry.has_stand_in
            && !state.code().is_terminal()
            && state.code() != StateKind::Paused
            && !state.is_waiting()
            && record.submitted_at < self.started
            && record.task.labels.get(BATCH) == Some(&self.name)
            && self.before.runs_again(&entry.submit.task)
    }
}
