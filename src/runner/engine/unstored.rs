//! The results that the store does not take: how long a stop waits for them, and reporting them.

use tokio::time::Instant;

use super::{Engine, mode::Mode};
use crate::runner::handle::Unstored;

impl Engine {
    /// Returns whether a stop no longer waits for a store that takes no writes.
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

    /// Reports the results that the store does not take. Those that were given up stay reported.
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

    /// Reports that a node which stops forgets the results that the store has not taken.
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
