//! [`Gauges`]: the gauges of this node, set at an interval.

use std::time::Duration;

use tokio::time::Instant;

use super::capacity::Capacity;
use crate::{
    clock::Clock,
    runner::due::DueIndex,
    telemetry::{self, OldestGauges, SlotGauges},
};

/// The gauges of a node.
pub(super) struct Gauges {
    next: Instant,
    every: Duration,
    slots: SlotGauges,
    oldest: Option<OldestGauges>,
    /// How far ahead the clocks of others were since the gauges were set.
    ahead: Duration,
}

impl Gauges {
    /// `has_counts` is whether the store counts the tasks of the namespace. Otherwise the oldest ones are those that
    /// this node knows of.
    pub(super) fn new(now: Instant, every: Duration, has_counts: bool) -> Self {
        Self {
            oldest: (!has_counts).then(OldestGauges::default),
            next: now,
            every,
            slots: SlotGauges::default(),
            ahead: Duration::ZERO,
        }
    }

    /// Notes that the clock of another process was this far ahead.
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
        if let Some(oldest) = &mut self.oldest {
            let now = clock.now();
            let of = |(kind, due)| (kind, now.duration_since(due));
            oldest.set(due.oldest_due().into_iter().map(of));
        }
    }
}
