//! Selects the logs of a task.

use std::ops::{Bound, RangeBounds};

use crate::logs::Run;

/// The attempt that was named.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) incarnation: Option<u32>,
    pub(super) attempt: Option<u32>,
}

impl Wanted {
    fn is(&self, run: &Run) -> bool {
        self.incarnation.is_none_or(|n| n == run.incarnation)
            && self.attempt.is_none_or(|n| n == run.attempt)
    }

    /// Returns whether the run is of the wanted or a later attempt.
    fn is_before(&self, run: &Run) -> bool {
        self.is_reached(run.incarnation, run.attempt)
    }

    /// Returns whether this attempt is the wanted or a later one.
    pub(super) fn is_reached(&self, incarnation: u32, attempt: u32) -> bool {
        let wanted = self.incarnation.unwrap_or(incarnation);
        (wanted, self.attempt.unwrap_or(0)) <= (incarnation, attempt)
    }

    /// Returns the runs of the wanted attempt in order; by default of the last attempt.
    pub(super) fn choose(&self, mut runs: Vec<Run>) -> Vec<Run> {
        runs.sort();
        let last = runs.iter().rev().find(|run| self.is(run)).copied();
        runs.retain(|run| {
            last.is_some_and(|l| (l.incarnation, l.attempt) == (run.incarnation, run.attempt))
        });
        runs
    }

    /// Returns the first run to follow in the range.
    pub(super) fn next(&self, runs: &[Run], from: Bound<Run>) -> Option<Run> {
        let range = (from, Bound::Unbounded);
        let mut runs = runs.iter().filter(|run| self.is_before(run));
        runs.find(|run| range.contains(*run)).copied()
    }
}

#[cfg(test)]
mod tests {
    use windlass::Fence;

    use super::*;

    fn runs() -> Vec<Run> {
        let all = [(0, 1, 3), (0, 2, 5), (0, 2, 6), (1, 1, 9)];
        all.map(|(incarnation, attempt, fence)| Run {
            incarnation,
            attempt,
            fence: Fence(fence),
            nth: 0,
        })
        .to_vec()
    }

    fn wanted(incarnation: Option<u32>, attempt: Option<u32>) -> Wanted {
        Wanted {
            incarnation,
            attempt,
        }
    }

    #[test]
    fn the_last_attempt_is_chosen_unless_one_is_named() {
        for (incarnation, attempt, fences) in [
            (None, None, vec![9]),
            (None, Some(1), vec![9]),
            (None, Some(2), vec![5, 6]),
            (Some(0), None, vec![5, 6]),
            (Some(0), Some(1), vec![3]),
            (Some(1), Some(2), vec![]),
        ] {
            let chosen = wanted(incarnation, attempt).choose(runs());
            let chosen: Vec<u64> = chosen.iter().map(|run| run.fence.0).collect();
            assert_eq!(chosen, fences, "{incarnation:?} {attempt:?}");
        }
    }

    #[test]
    fn following_goes_on_with_the_next_runs() {
        let next = |wanted: Wanted, from| wanted.next(&runs(), from).map(|run| run.fence.0);
        let (any, all) = (wanted(None, None), runs());
        assert_eq!(next(any, Bound::Unbounded), Some(3));
        assert_eq!(next(any, Bound::Included(all[1])), Some(5));
        assert_eq!(next(any, Bound::Excluded(all[1])), Some(6));
        assert_eq!(next(any, Bound::Excluded(all[3])), None);
        assert_eq!(next(wanted(Some(0), Some(2)), Bound::Unbounded), Some(5));
        assert_eq!(next(wanted(Some(0), Some(3)), Bound::Unbounded), Some(9));
        assert_eq!(next(wanted(Some(1), Some(2)), Bound::Unbounded), None);
    }
}
