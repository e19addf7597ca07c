//! [`Heads`]: the newest change of each task that this process has moved.

use std::cell::RefCell;

use hashbrown::HashMap;

/// How many tasks are remembered, at most: 3 MB.
const MOST: usize = 100_000;

/// The newest change of tasks, as the writer has last written it. A guess: another process, or a
/// transaction that was rolled back, makes it wrong. So a statement that relies on it compares it with
/// the row.
#[derive(Debug, Default)]
pub(super) struct Heads(RefCell<HashMap<i64, i64>>);

impl Heads {
    /// Returns the newest change of task `n`, if the writer has written one.
    pub(super) fn of(&self, n: i64) -> Option<i64> {
        self.0.borrow().get(&n).copied()
    }

    /// Remembers the newest change of task `n`, whose claim stands.
    pub(super) fn set(&self, n: i64, last: i64) {
        let mut heads = self.0.borrow_mut();
        // Claims that other processes ended stay until then.
        if heads.len() >= MOST && !heads.contains_key(&n) {
            heads.clear();
        }
        heads.insert(n, last);
    }

    /// Forgets task `n`, whose claim has ended.
    pub(super) fn forget(&self, n: i64) {
        self.0.borrow_mut().remove(&n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_change_of_each_task_is_kept_while_its_claim_stands() {
        let heads = Heads::default();
        heads.set(1, 10);
        heads.set(2, 11);
        heads.set(1, 12);
        assert_eq!((heads.of(1), heads.of(2)), (Some(12), Some(11)));
        heads.forget(1);
        assert_eq!((heads.of(1), heads.of(2)), (None, Some(11)));
    }

    #[test]
    fn a_limited_number_of_tasks_is_kept() {
        let heads = Heads::default();
        (0..MOST as i64).for_each(|n| heads.set(n, n));
        heads.set(0, 1);
        assert_eq!(heads.of(1), Some(1));
        heads.set(-1, 1);
        assert_eq!((heads.of(1), heads.of(-1)), (None, Some(1)));
    }
}
