//! The slots of limits: whether a task gets one, and when the next is free.
//!
//! A limit of `n` has the slots 0 to n - 1. A claim takes one slot of each limit of its task. A slot of a limit
//! on tasks at once is taken until the claim ends, a slot of a limit on starts for the period of the limit.
//! Limits of one [`Pool`] may have different numbers: each task considers only the slots below its own number.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Bound, Limit};

pub(crate) mod lines;
pub(crate) mod lines_in_memory;
pub(crate) mod reserve;
pub(crate) mod usage;

/// The slots that limits share: those on tasks at once with one key, and those on starts with one key and one period.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pool {
    pub(crate) key: String,
    /// The period of limits on starts, in whole milliseconds; `None` for limits on tasks at once.
    pub(crate) within: Option<Duration>,
}

impl Pool {
    pub(crate) fn of(limit: &Limit) -> Self {
        Self {
            key: limit.key().to_owned(),
            within: match limit.bound() {
                Bound::AtOnce(_) => None,
                Bound::Starts { within, .. } => {
                    let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                    Some(Duration::from_millis(millis))
                }
            },
        }
    }

    /// Returns the limit of the pool with this number; `None` for numbers that no limit has.
    pub(crate) fn limit(&self, most: u32) -> Option<Limit> {
        let key = self.key.as_str();
        let limit = match self.within {
            Some(within) => Limit::starts(key, most, within),
            None => Limit::at_once(key, most),
        };
        limit.ok()
    }
}

/// Returns the key of the first limit on tasks at once. Nodes let tasks with different keys take
/// turns.
pub(crate) fn fair_key(limits: &[Limit]) -> Option<Arc<str>> {
    let mut at_once = (limits.iter()).filter(|limit| matches!(limit.bound(), Bound::AtOnce(_)));
    at_once.next().map(|limit| limit.key().into())
}

/// The slots of a pool that are in use, or were once used.
pub(crate) type Used = BTreeMap<u32, Taken>;

/// The free slots of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Free {
    /// The number of free slots.
    pub(crate) slots: u32,
    /// When the next slot becomes free without the end of a claim, if none is free now.
    pub(crate) until: Option<Timestamp>,
}

/// How a slot is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// By a claim.
    Held,
    /// By a claim that began at this time.
    Began(Timestamp),
}

impl Taken {
    /// Returns when the slot becomes free without the end of a claim; `None` when only the end of a claim frees
    /// it. A start that is further ahead than the period comes from a wrong clock, and does not count.
    fn over(self, within: Option<SignedDuration>, now: Timestamp) -> Option<Timestamp> {
        let Self::Began(at) = self else {
            return None;
        };
        let within = within?;
        match is_ahead(at, within, now) {
            true => Some(now),
            false => at.checked_add(within).ok(),
        }
    }
}

/// Returns whether a start is further ahead than its period, and so comes from a wrong clock.
pub(crate) fn is_ahead(began: Timestamp, within: SignedDuration, now: Timestamp) -> bool {
    now.checked_add(within).is_ok_and(|last| began > last)
}

/// Returns the number of a limit, and its period.
fn numbers(limit: &Limit) -> (u32, Option<SignedDuration>) {
    match limit.bound() {
        Bound::AtOnce(most) => (most, None),
        Bound::Starts { most, within } => (most, SignedDuration::try_from(within).ok()),
    }
}

/// The slot of a limit for one more task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextSlot {
    /// This slot is free.
    Free(u32),
    /// No slot is free. `until`: when the next one becomes free without the end of a claim.
    Full {
        /// `None` for a limit on tasks at once.
        until: Option<Timestamp>,
    },
}

/// Returns the slot for one more task. `taken`: the slots in use or once used, each once, in any order.
pub(crate) fn next_slot(
    limit: &Limit,
    taken: impl IntoIterator<Item = (u32, Taken)>,
    now: Timestamp,
) -> NextSlot {
    let (most, within) = numbers(limit);
    let mut below: Vec<(u32, Taken)> = taken.into_iter().filter(|(slot, _)| *slot < most).collect();
    below.sort_unstable_by_key(|(slot, _)| *slot);
    let unused = (0..most).find(|slot| below.get(*slot as usize).is_none_or(|(n, _)| n != slot));
    if let Some(slot) = unused {
        return NextSlot::Free(slot);
    }
    let over = below
        .iter()
        .filter_map(|(slot, taken)| Some((taken.over(within, now)?, *slot)));
    match over.min() {
        Some((free, slot)) if free <= now => NextSlot::Free(slot),
        Some((free, _)) => NextSlot::Full { until: Some(free) },
        None => NextSlot::Full { until: None },
    }
}

/// Returns the number of free slots of a limit. `taken` is the same as for [`next_slot`].
pub(crate) fn free(
    limit: &Limit,
    taken: impl IntoIterator<Item = (u32, Taken)>,
    now: Timestamp,
) -> Free {
    let (most, within) = numbers(limit);
    let (mut in_use, mut until) = (0, None::<Timestamp>);
    for (_, taken) in taken.into_iter().filter(|(slot, _)| *slot < most) {
        let over = taken.over(within, now);
        if over.is_none_or(|over| over > now) {
            in_use += 1;
            until = over.into_iter().chain(until).min();
        }
    }
    let slots = most.saturating_sub(in_use);
    Free {
        slots,
        until: until.filter(|_| slots == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn the_lowest_slot_without_a_claim_is_taken() {
        let limit = Limit::at_once("k", 3).unwrap();
        let next = |slots: &[u32]| {
            let taken = slots.iter().map(|slot| (*slot, Taken::Held));
            next_slot(&limit, taken, at(0))
        };
        assert_eq!(next(&[]), NextSlot::Free(0));
        assert_eq!(next(&[2, 0]), NextSlot::Free(1));
        assert_eq!(next(&[0, 1]), NextSlot::Free(2));
        assert_eq!(next(&[2, 1, 0]), NextSlot::Full { until: None });
        assert_eq!(
            next(&[7, 8, 9]),
            NextSlot::Free(0),
            "those of a greater limit"
        );
    }

    #[test]
    fn free_slots_are_counted_below_the_number_of_the_limit() {
        let limit = Limit::at_once("k", 3).unwrap();
        let count = |slots: &[u32]| {
            let taken = slots.iter().map(|slot| (*slot, Taken::Held));
            let free = free(&limit, taken, at(0));
            assert_eq!(free.until, None);
            free.slots
        };
        assert_eq!(
            [count(&[]), count(&[1, 7]), count(&[0, 1, 2, 3])],
            [3, 2, 0]
        );
        let limit = Limit::starts("k", 2, Duration::from_millis(100)).unwrap();
        let began = [(0, Taken::Began(at(5))), (1, Taken::Began(at(20)))];
        let count = |now| free(&limit, began, at(now));
        let until = Some(at(105));
        assert_eq!(count(104), Free { slots: 0, until });
        let until = None;
        assert_eq!(count(105), Free { slots: 1, until });
        assert_eq!(count(120), Free { slots: 2, until });
    }

    #[test]
    fn a_slot_of_a_rate_is_free_again_after_the_period() {
        let limit = Limit::starts("k", 2, Duration::from_millis(100)).unwrap();
        let next = |slots: &[(u32, i64)], now| {
            let taken = slots
                .iter()
                .map(|(slot, ms)| (*slot, Taken::Began(at(*ms))));
            next_slot(&limit, taken, at(now))
        };
        assert_eq!(next(&[(0, 5)], 6), NextSlot::Free(1));
        let until = Some(at(105));
        assert_eq!(next(&[(1, 5), (0, 20)], 104), NextSlot::Full { until });
        assert_eq!(next(&[(1, 5), (0, 20)], 105), NextSlot::Free(1));
    }

    #[test]
    fn a_start_of_a_clock_that_was_ahead_does_not_hold_a_slot_until_then() {
        let limit = Limit::starts("k", 2, Duration::from_millis(100)).unwrap();
        let taken = |ms: [i64; 2]| (0..2).zip(ms.map(|ms| Taken::Began(at(ms))));
        let until = Some(at(150));
        assert_eq!(
            next_slot(&limit, taken([50, 110]), at(10)),
            NextSlot::Full { until }
        );
        assert_eq!(
            next_slot(&limit, taken([50, 111]), at(10)),
            NextSlot::Free(1)
        );
        assert_eq!(free(&limit, taken([5_000, 9_000]), at(10)).slots, 2);
    }
}
