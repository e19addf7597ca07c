//! Reporting failed attempts: in the log, or on standard error when the program has none.

use std::io::Write as _;

use tracing::{dispatcher, warn};
use windlass_statemachine::{Code, FailedAttempt, machine::Write};

use super::{Engine, SlotId};

/// A handler that runs without any effect is reported once in so many runs.
const REPORT_EVERY: u32 = 100;

/// The failed attempt that a write stores, if it stores one.
pub(super) fn of_write(write: &Write) -> Option<FailedAttempt> {
    let failed = |code| matches!(code, Code::Fault | Code::Failed);
    let fails = write.steps.iter().any(|step| failed(step.to));
    fails
        .then(|| FailedAttempt::last_of(&write.state))
        .flatten()
}

impl Engine {
    /// Reports the failed attempt of the write that has just ended, if it is durable.
    pub(super) fn report_failure(&mut self, id: SlotId, durable: bool) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let Some(failed) = slot.failed.take().filter(|_| durable) else {
            return;
        };
        warn!(task = %slot.task.id, kind = %slot.task.kind, node = %self.parts.node, "{failed}");
        if self.parts.config.failures_to_stderr && !dispatcher::has_been_set() {
            let (task, kind) = (&slot.task.id, &slot.task.kind);
            let line = format!("windlass: task '{task}' ({kind}): {failed}\n");
            // A program whose standard error is closed gets no report.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    /// Reports a handler that runs again and again without any effect, once in
    /// [`REPORT_EVERY`] runs.
    pub(super) fn report_idle_runs(&self, id: SlotId, runs: u32) {
        if let Some(slot) = self.slots.get(&id)
            && runs.is_multiple_of(REPORT_EVERY)
        {
            warn!(task = %slot.task.id, kind = %slot.task.kind, node = %self.parts.node, runs,
                "the handler runs again and again and changes nothing: slowing it to a run a second; \
                 return a sleep to wait, or new data with each step");
        }
    }
}
