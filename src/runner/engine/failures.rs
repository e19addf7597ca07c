//! Reports failed attempts and faults of the machine: in the log, or on standard error if the
//! program has no log.

use std::{fmt, io::Write as _, time::Duration};

use tokio::time::Instant;
use tracing::{debug, dispatcher, warn};
use windlass_statemachine::{
    FailedAttempt, Kind, Message, StateKind, machine::Write, text::escaped,
};

use super::{Engine, slot::Run};
use crate::runner::{input::SlotId, reports::REPORTS};

/// After how many runs without any effect a handler is reported again.
const REPORT_EVERY: u32 = 100;

/// Returns the failed attempt that a write stores, if it stores one.
pub(super) fn of_write(write: &Write) -> Option<FailedAttempt> {
    let failed = |code| matches!(code, StateKind::Fault | StateKind::Failed);
    let fails = write.steps.iter().any(|step| failed(step.to));
    fails
        .then(|| FailedAttempt::last_of(&write.state))
        .flatten()
}

/// Displays a duration to a tenth of a second.
struct Rounded(Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

impl Engine {
    /// Reports the failed attempt of the write that has just been answered, if the write is
    /// durable.
    pub(super) fn report_failure(&mut self, id: SlotId, durable: bool) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let Some(failed) = slot.failed.take().filter(|_| durable) else {
            return;
        };
        warn!(task = %slot.task.id, kind = %slot.task.kind, node = %self.deps.node, "{failed}");
        let (task, kind) = (slot.task.id.clone(), slot.task.kind.clone());
        self.to_stderr(format_args!("task '{task}' ({kind}): {failed}"));
    }

    /// Writes a line to standard error, in a program without a subscriber.
    fn to_stderr(&self, line: fmt::Arguments<'_>) {
        if self.deps.config.failures_to_stderr && !dispatcher::has_been_set() {
            let line = format!("windlass: {}\n", escaped(&line.to_string()));
            // A program whose standard error is closed gets no report.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    /// Records a fault of this machine, or its end, after a run has returned.
    pub(super) fn note_node_fault(&mut self, id: SlotId, run: &Run, message: &Message) {
        let fault = run.data.node_fault(message);
        if fault.is_none() && self.node_faults.is_empty() {
            return;
        }
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        let (kind, now) = (slot.task.kind.clone(), Instant::now());
        let Some(reason) = fault else {
            if let Some(lasted) = self.node_faults.ran(&kind, run.began, now) {
                self.report_end_of_fault(&kind, lasted);
            }
            return;
        };
        let met = self.node_faults.met(&kind, &reason, now, fastrand::f64());
        let wait = Rounded(met.wait);
        if met.report {
            warn!(target: REPORTS, %kind, node = %self.deps.node, "{reason}; trying again in {wait}");
            self.to_stderr(format_args!("{kind}: {reason}; trying again in {wait}"));
        } else {
            debug!(%kind, node = %self.deps.node, "{reason}; trying again in {wait}");
        }
    }

    /// Ends the faults whose trial runs without a new fault.
    pub(super) fn end_node_faults(&mut self) {
        for (kind, lasted) in self.node_faults.proven(Instant::now()) {
            self.report_end_of_fault(&kind, lasted);
        }
    }

    fn report_end_of_fault(&self, kind: &Kind, lasted: Duration) {
        let lasted = Rounded(lasted);
        warn!(target: REPORTS, %kind, node = %self.deps.node, "the machine runs tasks again, after {lasted}");
        self.to_stderr(format_args!(
            "{kind}: the machine runs tasks again, after {lasted}"
        ));
    }

    /// Reports a handler that runs again and again without any effect, once in
    /// [`REPORT_EVERY`] runs.
    pub(super) fn report_idle_runs(&self, id: SlotId, runs: u32) {
        if let Some(slot) = self.slots.get(id)
            && runs.is_multiple_of(REPORT_EVERY)
        {
            warn!(task = %slot.task.id, kind = %slot.task.kind, node = %self.deps.node, runs,
                "the handler runs again and again and changes nothing: slowing it to a run a second; \
                 return a sleep to wait, or new data with each step");
        }
    }
}
