//! Reporting failed attempts: in the log, or on standard error when the program has none.

use std::io::Write as _;

use tracing::{dispatcher, warn};
use windlass_statemachine::{Code, FailedAttempt, machine::Write};

use super::{Engine, SlotId};

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
            // A program whose standard error is closed cannot be told.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}
