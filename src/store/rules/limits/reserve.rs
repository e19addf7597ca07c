//! Reservations of slots for a task with several limits.
//!
//! A task with several limits waits in the line of one of them. When its turn comes there, another of its limits may
//! be full. The task then joins the line of that limit, and others take the slot. While both limits are busy, it
//! would never get both. So a task whose turn has come [`TURNS`] times reserves a slot of each of its limits as they
//! become free: no other task may take the last free slot that this task could use.
//!
//! Only one task of a namespace reserves slots: the oldest of those whose turn has come often enough. So two tasks
//! never reserve slots that the other one needs. A reservation ends when the task is claimed, leaves its line, or
//! is not claimed by any node although it could be.

use jiff::Timestamp;
use windlass_statemachine::Limit;

use super::{
    NextSlot, Pool, Taken,
    lines::{Report, Reported},
    next_slot,
};

/// The number of turns after which a task reserves slots.
pub(crate) const TURNS: u32 = 3;

/// The line in which a task waited when its claim was refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited<'a> {
    /// The line.
    pub(crate) pool: &'a Pool,
    pub(crate) reported: Reported,
    /// How many turns the task had before.
    pub(crate) turns: u32,
}

/// Returns the number of turns of a task that joins the line of `full` because its claim found that limit full. A
/// turn counts if the task was reported as the next of another line.
pub(crate) fn turns(before: Option<Waited<'_>>, full: &Pool) -> u32 {
    before.map_or(0, |before| {
        let had_turn = before.reported.report != Report::Silent && before.pool != full;
        before.turns.saturating_add(u32::from(had_turn))
    })
}

/// The task for which slots are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reserver {
    /// Its submit order.
    pub(crate) order: u64,
    pub(crate) limits: Vec<Limit>,
}

impl Reserver {
    /// Returns its limit of a pool.
    pub(crate) fn limit_of(&self, pool: &Pool) -> Option<&Limit> {
        self.limits.iter().find(|limit| Pool::of(limit) == *pool)
    }
}

/// Returns the slots in use from the view of a task other than the reserver: the kept slot counts as in use. `taken`:
/// the slots in use below the numbers of both tasks.
pub(crate) fn with_kept(
    reserver: Option<&Reserver>,
    pool: &Pool,
    mut taken: Vec<(u32, Taken)>,
    now: Timestamp,
) -> Vec<(u32, Taken)> {
    let own = reserver.and_then(|reserver| reserver.limit_of(pool));
    if let Some(own) = own
        && let NextSlot::Free(kept) = next_slot(own, taken.iter().copied(), now)
    {
        taken.retain(|(slot, _)| *slot != kept);
        taken.push((kept, Taken::Held));
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn at_once(key: &str, most: u32) -> Limit {
        Limit::at_once(key, most).unwrap()
    }

    fn waited(pool: &Pool, report: Report, turns: u32) -> Option<Waited<'_>> {
        let reported = match report {
            Report::Silent => Reported::SILENT,
            report => Reported {
                report,
                from: at(0),
            },
        };
        Some(Waited {
            pool,
            reported,
            turns,
        })
    }

    #[test]
    fn a_turn_counts_when_another_limit_is_full_then() {
        let (one, two) = (Pool::of(&at_once("one", 1)), Pool::of(&at_once("two", 1)));
        assert_eq!(turns(None, &one), 0);
        assert_eq!(turns(waited(&one, Report::Now, 0), &two), 1);
        assert_eq!(turns(waited(&one, Report::At(at(5)), 2), &two), 3);
        assert_eq!(turns(waited(&one, Report::Silent, 2), &two), 2, "no turn");
        assert_eq!(
            turns(waited(&one, Report::Now, 2), &one),
            2,
            "others were first"
        );
    }

    #[test]
    fn the_last_slot_that_is_free_for_the_reserver_is_kept() {
        let reserver = Reserver {
            order: 1,
            limits: vec![at_once("k", 2), at_once("other", 1)],
        };
        let slot_of = |most: u32, slots: &[u32]| {
            let limit = at_once("k", most);
            let taken = slots.iter().map(|slot| (*slot, Taken::Held)).collect();
            let kept = with_kept(Some(&reserver), &Pool::of(&limit), taken, at(0));
            next_slot(&limit, kept, at(0))
        };
        let full = NextSlot::Full { until: None };
        assert_eq!(slot_of(2, &[]), NextSlot::Free(1), "the lowest is kept");
        assert_eq!(slot_of(2, &[0]), full);
        assert_eq!(slot_of(1, &[]), full, "a smaller number");
        assert_eq!(slot_of(3, &[0]), NextSlot::Free(2), "beyond its number");
        assert_eq!(slot_of(3, &[0, 1]), NextSlot::Free(2), "none to keep");
        let limit = at_once("none of its limits", 1);
        let kept = with_kept(Some(&reserver), &Pool::of(&limit), Vec::new(), at(0));
        assert_eq!(next_slot(&limit, kept, at(0)), NextSlot::Free(0));
    }

    #[test]
    fn a_start_that_is_over_makes_the_slot_that_is_kept() {
        let rate = Limit::starts("k", 1, Duration::from_millis(100)).unwrap();
        let reserver = Reserver {
            order: 1,
            limits: vec![rate.clone()],
        };
        let slot_at = |now| {
            let taken = vec![(0, Taken::Began(at(5)))];
            let kept = with_kept(Some(&reserver), &Pool::of(&rate), taken, at(now));
            next_slot(&rate, kept, at(now))
        };
        let until = Some(at(105));
        assert_eq!(slot_at(104), NextSlot::Full { until });
        assert_eq!(slot_at(105), NextSlot::Full { until: None });
    }
}
