//! [`Ring`]: counts of the last time, in slots of equal length.

use std::{collections::VecDeque, time::Duration};

use windlass_statemachine::Kind;

use super::histogram::Histogram;
use crate::hash::HashMap;

/// What has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) started: u64,
    pub(super) completed: u64,
    pub(super) failed_attempts: u64,
    pub(super) failed: u64,
    pub(super) lost: u64,
}

impl Counts {
    pub(super) fn add(&mut self, more: &Self) {
        self.started += more.started;
        self.completed += more.completed;
        self.failed_attempts += more.failed_attempts;
        self.failed += more.failed;
        self.lost += more.lost;
    }

    /// Returns these counts without others that are a part of them.
    pub(super) fn without(&self, part: &Self) -> Self {
        Self {
            started: self.started.saturating_sub(part.started),
            completed: self.completed.saturating_sub(part.completed),
            failed_attempts: self.failed_attempts.saturating_sub(part.failed_attempts),
            failed: self.failed.saturating_sub(part.failed),
            lost: self.lost.saturating_sub(part.lost),
        }
    }
}

/// The counts of some time. An idle one allocates nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    pub(super) all: Counts,
    pub(super) by_kind: HashMap<Kind, Counts>,
    pub(super) lateness: Option<Histogram>,
}

impl Slot {
    fn merge(&mut self, other: &Self) {
        self.all.add(&other.all);
        for (kind, counts) in &other.by_kind {
            self.by_kind.entry(kind.clone()).or_default().add(counts);
        }
        if let Some(lateness) = &other.lateness {
            self.lateness
                .get_or_insert_with(Histogram::new)
                .merge(lateness);
        }
    }

    pub(super) fn late(&mut self, late: Duration) {
        self.lateness.get_or_insert_with(Histogram::new).add(late);
    }
}

/// The slots of the last time. Times are counted from the start of the ring.
#[derive(Debug)]
pub(super) struct Ring {
    step: Duration,
    most: usize,
    /// The number of the first slot in the list.
    first: u64,
    slots: VecDeque<Slot>,
}

impl Ring {
    /// Returns a ring of this many slots, each of this length.
    pub(super) fn new(step: Duration, most: usize) -> Self {
        Self {
            step,
            most,
            first: 0,
            slots: VecDeque::new(),
        }
    }

    fn number(&self, at: Duration) -> u64 {
        (at.as_nanos() / self.step.as_nanos().max(1)) as u64
    }

    /// Returns the slot of a time; `None` for a time before the first slot that is kept.
    pub(super) fn slot(&mut self, at: Duration) -> Option<&mut Slot> {
        let number = self.number(at);
        if number >= self.first + (self.slots.len() + self.most) as u64 {
            // Nothing that is kept is recent enough.
            self.slots.clear();
            self.first = number;
        }
        while self.first + self.slots.len() as u64 <= number {
            self.slots.push_back(Slot::default());
            if self.slots.len() > self.most {
                self.slots.pop_front();
                self.first += 1;
            }
        }
        let index = number.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Returns the counts of the last slots up to this time, the last one being under way, and the time that they cover.
    pub(super) fn last(&self, slots: usize, at: Duration) -> (Slot, Duration) {
        let now = self.number(at);
        let from = (now + 1).saturating_sub(slots.min(self.most) as u64);
        let mut sum = Slot::default();
        for (number, slot) in (self.first..).zip(&self.slots) {
            if (from..=now).contains(&number) {
                sum.merge(slot);
            }
        }
        let start = self
            .step
            .checked_mul(u32::try_from(from).unwrap_or(u32::MAX));
        (sum, at.saturating_sub(start.unwrap_or(at)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEP: Duration = Duration::from_secs(1);

    proptest! {
        /// A window has the changes of the time that it covers, and no others.
        #[test]
        fn a_window_counts_what_is_in_it(
            gaps in proptest::collection::vec(prop_oneof![0_u64..900, 0_u64..90_000], 1..200),
            slots in 1_usize..60,
            rest in 0_u64..70_000,
        ) {
            let mut ring = Ring::new(STEP, 60);
            let (mut at, mut all) = (Duration::ZERO, Vec::new());
            for gap in gaps {
                at += Duration::from_millis(gap);
                all.push(at);
                ring.slot(at).unwrap().all.started += 1;
                prop_assert!(ring.slots.len() <= 60);
            }
            let now = at + Duration::from_millis(rest);
            let (sum, covered) = ring.last(slots, now);
            let start = now - covered;
            prop_assert!(covered <= STEP * slots as u32);
            prop_assert!(start.is_zero() || covered + STEP >= STEP * slots as u32);
            let expected = all.iter().filter(|at| **at >= start).count();
            prop_assert_eq!(sum.all.started, expected as u64);
        }
    }

    #[test]
    fn a_time_before_the_kept_slots_has_none() {
        let mut ring = Ring::new(STEP, 3);
        ring.slot(STEP * 2).unwrap();
        ring.slot(STEP * 4).unwrap();
        assert!(ring.slot(STEP).is_none());
        assert!(ring.slot(STEP * 3).is_some());
        ring.slot(STEP * 1000).unwrap();
        assert!(ring.slot(STEP * 5).is_none());
    }
}
