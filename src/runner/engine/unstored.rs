//! The results that the store has not accepted: reports them, and limits how long a stop waits for
//! them.

use tokio::time::Instant;

use super::{Engine, mode::Mode};
use crate::runner::snapshot::Unstored;

impl Engine {
    /// Returns whether a stop no longer waits for a store that accepts no writes.
    pub(super) fn stop_is_over(&self) -> bool {
        let Some(failing) = self.outbox.failing() else {
            return false;
        };
        if self.slots.running() > 0 {
            return false;
        }
        let graces = self.slots.iter().map(|slot| slot.kind.config.stop_grace);
        let grace = graces.max().unwrap_or_default();
        (self.mode).stop_is_over(Instant::now(), grace, failing.since)
    }

    /// Publishes the results that the store has not accepted. Results that were given up stay in
    /// the list.
    pub(super) fn report_unstored(&self) {
        let failing = self.outbox.failing();
        let reported = self.deps.unstored.borrow();
        if reported.given_up || failing.is_none() && reported.tasks.is_empty() {
            return;
        }
        drop(reported);
        let unstored = failing.map_or_else(Unstored::default, |failing| Unstored {
            tasks: self
                .slots
                .unstored()
                .map(|slot| slot.task.id.clone())
                .collect(),
            reason: failing.reason.clone(),
            given_up: false,
        });
        self.deps.unstored.send_if_modified(|reported| {
            let changed = *reported != unstored;
            *reported = unstored;
            changed
        });
    }

    /// Publishes that a stopping node gives up the results that the store has not accepted.
    pub(super) fn give_up_unstored(&self) {
        if self.mode.current() != Mode::Stopping {
            return;
        }
        self.report_unstored();
        self.deps.unstored.send_if_modified(|unstored| {
            let given_up = !unstored.tasks.is_empty();
            unstored.given_up |= given_up;
            given_up
        });
    }
}
