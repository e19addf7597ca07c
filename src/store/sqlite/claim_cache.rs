//! [`ClaimCache`]: the newest change and the group of each task that this process has claimed.

use std::cell::RefCell;

use super::counts::Group;
use crate::hash::HashMap;

/// How many tasks are remembered, at most: 5 MB.
const MOST: usize = 100_000;

/// A claimed task, as the writer last wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CachedClaim {
    /// Its newest change.
    pub(super) last: i64,
    pub(super) group: Group,
}

/// The claim_cache of claimed tasks. A head is a guess: another process, or a rollback, may make it wrong. So a statement
/// that relies on it compares it with the row.
#[derive(Debug, Default)]
pub(super) struct ClaimCache(RefCell<HashMap<i64, CachedClaim>>);

impl ClaimCache {
    /// Returns the head of task `n`, if the writer has written one.
    pub(super) fn of(&self, n: i64) -> Option<CachedClaim> {
        self.0.borrow().get(&n).copied()
    }

    /// Remembers the head of task `n`, whose claim stands.
    pub(super) fn set(&self, n: i64, head: CachedClaim) {
        let mut claim_cache = self.0.borrow_mut();
        // Claims that other processes have ended stay until then.
        if claim_cache.len() >= MOST && !claim_cache.contains_key(&n) {
            claim_cache.clear();
        }
        claim_cache.insert(n, head);
    }

    /// Forgets task `n`, whose claim has ended.
    pub(super) fn forget(&self, n: i64) {
        self.0.borrow_mut().remove(&n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(last: i64) -> CachedClaim {
        let group = Group {
            kind: 1,
            code: 0,
            version: 1,
            claimed: true,
            waits: 0,
            quarantined: false,
            failure: -1,
        };
        CachedClaim { last, group }
    }

    fn newest(claim_cache: &ClaimCache, n: i64) -> Option<i64> {
        claim_cache.of(n).map(|head| head.last)
    }

    #[test]
    fn the_newest_change_of_each_task_is_kept_while_its_claim_stands() {
        let claim_cache = ClaimCache::default();
        claim_cache.set(1, head(10));
        claim_cache.set(2, head(11));
        claim_cache.set(1, head(12));
        assert_eq!(
            (newest(&claim_cache, 1), newest(&claim_cache, 2)),
            (Some(12), Some(11))
        );
        claim_cache.forget(1);
        assert_eq!(
            (newest(&claim_cache, 1), newest(&claim_cache, 2)),
            (None, Some(11))
        );
    }

    #[test]
    fn a_limited_number_of_tasks_is_kept() {
        let claim_cache = ClaimCache::default();
        (0..MOST as i64).for_each(|n| claim_cache.set(n, head(n)));
        claim_cache.set(0, head(1));
        assert_eq!(newest(&claim_cache, 1), Some(1));
        claim_cache.set(-1, head(1));
        assert_eq!(
            (newest(&claim_cache, 1), newest(&claim_cache, -1)),
            (None, Some(1))
        );
    }
}
