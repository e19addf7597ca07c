//! Stores the progress of running handlers, so that every client sees it: with the writes that a task makes anyway,
//! or else by a separate write, some time after a report.

use std::time::Duration;

use tokio::time::Instant;
use windlass_statemachine::machine::Input;

use super::{Engine, timers::Wait};
use crate::runner::input::SlotId;

/// How long a report waits for another write of its task: most short tasks have ended by then.
const FIRST: Duration = Duration::from_secs(1);
/// The minimum time between two such writes of a task.
const EVERY: Duration = Duration::from_secs(2);
/// How long a report waits when a write of its task is under way.
const AGAIN: Duration = Duration::from_millis(100);

impl Engine {
    /// Handles a report of progress, or durable progress that belongs to an earlier run.
    pub(super) fn progress_changed(&mut self, id: SlotId) {
        let now = Instant::now();
        let Some(slot) = self.slots.get(id).filter(|slot| slot.run.is_some()) else {
            return;
        };
        let next = slot.progress_kept.map(|kept| kept + EVERY);
        let at = next.map_or(now + FIRST, |next| next.max(now + FIRST));
        self.wait_until(id, Wait::Progress, at);
    }

    /// Handles the end of the wait after a report.
    pub(super) fn keep_progress(&mut self, id: SlotId) {
        let now = Instant::now();
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let Some(run) = &slot.run else {
            return;
        };
        if slot.machine.is_storing() {
            return self.wait_until(id, Wait::Progress, now + AGAIN);
        }
        let progress = run.data.progress_to_keep();
        slot.progress_kept = Some(now);
        if let Some(progress) = progress {
            self.feed(id, Input::Progress(progress));
        }
        self.feed(id, Input::KeepProgress);
    }
}
