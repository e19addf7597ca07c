//! [`Gauges`]: the gauges of this node, set at an interval.

use std::time::Duration;

use tokio::time::Instant;

use super::capacity::Capacity;
use crate::{
    clock::Clock,
    runner::{due::DueIndex, gauges::NEVER},
    telemetry::{self, OldestGauges, SlotGauges},
};

/// The gauges of a node.
pub(super) struct Gauges {
    next: Instant,
    every: Duration,
    slots: SlotGauges,
    /// The gauges of the kinds that this node runs.
    oldest: OldestGauges,
    /// How far other clocks were ahead since the gauges were last set.
    ahead: Duration,
}

impl Gauges {
    pub(super) fn new(now: Instant, every: Duration) -> Self {
        Self {
            oldest: OldestGauges::default(),
            next: match every {
                Duration::MAX => now + NEVER,
                _ => now,
            },
            every: every.min(NEVER),
            slots: SlotGauges::default(),
            ahead: Duration::ZERO,
        }
    }

    /// Records how far the clock of another process was ahead.
    pub(super) fn written_ahead(&mut self, ahead: Duration) {
        self.ahead = self.ahead.max(ahead);
    }

    /// Sets the gauges if it is time.
    pub(super) fn set(
        &mut self,
        now: Instant,
        clock: &dyn Clock,
        capacity: &Capacity,
        due: &DueIndex,
    ) {
        if now < self.next {
            return;
        }
        self.next = now + self.every;
        if !telemetry::has_recorder() {
            return;
        }
        telemetry::clock_skew(std::mem::take(&mut self.ahead));
        self.slots.set(capacity.usage());
        let now = clock.now();
        let of = |(kind, due)| (kind, now.duration_since(due));
        self.oldest.set(due.oldest_due().into_iter().map(of));
    }
}
