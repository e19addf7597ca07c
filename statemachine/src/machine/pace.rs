//! [`Pace`]: slows a handler that runs again and again without any effect.

use std::time::Duration;

/// A run that is shorter than this is quick.
const QUICK: Duration = Duration::from_millis(100);

/// The first wait, which doubles with each further run.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Counts quick runs in a row that have changed nothing. After `free` of them the handler waits
/// before each further run.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Quick runs in a row that have changed nothing.
    runs: u32,
    started: Duration,
    /// Whether this run has stored new data.
    changed: bool,
    resume: Duration,
}

impl Pace {
    /// Notes the start of the handler.
    pub(super) fn starts(&mut self, elapsed: Duration) {
        self.started = elapsed;
        self.changed = false;
    }

    /// Notes that the run has stored new data.
    pub(super) fn changes(&mut self) {
        self.changed = true;
    }

    /// Notes the end of the run. `idle`: its return changes nothing and asks for another run at once.
    pub(super) fn ends(&mut self, idle: bool, free: u32, elapsed: Duration) {
        let quick = elapsed.saturating_sub(self.started) < QUICK;
        if !idle || self.changed || !quick {
            return self.reset();
        }
        self.runs = self.runs.saturating_add(1);
        let Some(over) = self.runs.checked_sub(free) else {
            return;
        };
        let wait = FIRST_WAIT.saturating_mul(1 << over.min(16));
        self.resume = elapsed.saturating_add(wait.min(LONGEST_WAIT));
    }

    /// Starts counting again: the next run does not wait.
    pub(super) fn reset(&mut self) {
        self.runs = 0;
        self.resume = Duration::ZERO;
    }

    /// Returns when the next run may start, if it has to wait.
    pub(super) fn resume(&self, elapsed: Duration) -> Option<Duration> {
        (self.resume > elapsed).then_some(self.resume)
    }

    /// Returns how many quick runs in a row have changed nothing.
    pub(super) fn runs(&self) -> u32 {
        self.runs
    }
}
