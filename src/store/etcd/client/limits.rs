//! The limits of the servers for one request: the configured ones, reduced after a refusal.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::warn;

use super::{
    fault::{Fault, Limit},
    options::Options,
};

/// How many commands one write settles at most.
const SETTLED_AT_ONCE: usize = 40;

/// The most operations of the deletion of a task, without the keys of its commands: the task, its state, record, mark
/// and owner, its props in two places, three ranges of its history, its log lines, its outcomes and slot, and the line in
/// the history of the namespace. A task that has ended has its keys in the index of ended tasks instead of owner, props
/// and slot.
const OWN: usize = 14;

/// The most operations and guards of one transaction, whatever the servers accept: each needs a
/// place in the numbers of one revision.
const TRANSACTION: usize = 2000;

/// The limits that every request of this process must fit.
#[derive(Debug)]
pub(crate) struct Capacity {
    operations: AtomicUsize,
    bytes: AtomicUsize,
}

impl Capacity {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            operations: AtomicUsize::new(options.max_txn_ops.max(2)),
            bytes: AtomicUsize::new(options.max_request_bytes.max(1)),
        }
    }

    pub(crate) fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    /// Returns how many operations one item has at most.
    pub(crate) fn of_one(&self) -> usize {
        self.operations().saturating_sub(2).max(2)
    }

    /// Returns how many keys, at most `most`, one item may write in addition to up to [`OWN`] operations
    /// of its own.
    pub(crate) fn things(&self, most: usize) -> usize {
        self.operations().saturating_sub(OWN).clamp(1, most)
    }

    /// Returns the most operations and guards of one transaction. Most of them compare two keys;
    /// the record of the transaction and the writes of the largest operation count as well.
    pub(crate) fn transaction(&self) -> usize {
        (self.operations().saturating_sub(OWN) / 2).clamp(1, TRANSACTION)
    }

    /// Returns how many commands one write may settle. Each is two operations, and the end of a
    /// task rejects as many again. Further commands are rejected in writes before the end.
    pub(crate) fn settled_at_once(&self) -> usize {
        (self.operations() / 4).clamp(1, SETTLED_AT_ONCE)
    }

    /// Returns whether the servers refused the request and the limit is now less than `before`: a
    /// smaller request may succeed.
    pub(crate) fn has_shrunk(&self, before: usize, fault: &Fault) -> bool {
        matches!(fault, Fault::OverLimit(Limit::Operations, _)) && self.operations() < before
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Halves a limit after the servers refused a request that used `used` of it. Several
    /// concurrent requests change it once.
    pub(crate) fn learn(&self, limit: Limit, used: usize) {
        let (place, least, option) = match limit {
            Limit::Operations => (&self.operations, 2, "max-txn-ops"),
            Limit::Bytes => (&self.bytes, 1, "max-request-bytes"),
        };
        let now = (used / 2).max(least);
        let before = place.fetch_min(now, Ordering::Relaxed);
        if now < before {
            warn!(
                option,
                before,
                now,
                "the servers take less in one request than assumed; using less from now on"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Error;

    fn capacity(options: &str) -> Capacity {
        let options = Options::parse(&format!("etcd://h:1/ns{options}"));
        Capacity::new(&options.unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn what_was_refused_halves_the_limit_once() {
        let capacity = capacity("");
        for _ in 0..3 {
            capacity.learn(Limit::Operations, 128);
            assert_eq!(capacity.operations(), 64);
        }
        capacity.learn(Limit::Operations, 3);
        assert_eq!(capacity.operations(), 2, "one item alone is always sent");
        capacity.learn(Limit::Bytes, 2_000_000);
        assert_eq!(capacity.bytes(), 1_000_000);
    }

    #[test]
    fn operations_are_left_for_the_item_itself() {
        let capacity = capacity("?max-txn-ops=128");
        assert_eq!(capacity.things(50), 50);
        assert_eq!(capacity.things(114), 114);
        assert_eq!(capacity.things(500), 114);
        capacity.learn(Limit::Operations, 20);
        assert_eq!(capacity.operations(), 10);
        assert_eq!(capacity.things(50), 1, "one is always tried");
    }

    #[test]
    fn a_request_is_tried_again_when_the_servers_take_fewer_operations_than_was_thought() {
        let capacity = capacity("?max-txn-ops=128");
        let over = |limit| Fault::OverLimit(limit, Error::Unusable("over a limit".into()));
        let operations = over(Limit::Operations);
        assert!(!capacity.has_shrunk(128, &operations));
        capacity.learn(Limit::Operations, 100);
        assert!(capacity.has_shrunk(128, &operations));
        assert!(!capacity.has_shrunk(50, &operations));
        assert!(!capacity.has_shrunk(128, &over(Limit::Bytes)));
        assert!(!capacity.has_shrunk(128, &Fault::LeaseGone));
    }

    #[test]
    fn commands_are_settled_a_quarter_as_many_at_once_as_there_are_operations() {
        let capacity = capacity("?max-txn-ops=200");
        assert_eq!(capacity.settled_at_once(), SETTLED_AT_ONCE);
        for (operations, settled) in [(160, 40), (128, 32), (7, 1), (2, 1)] {
            capacity.learn(Limit::Operations, 2 * operations);
            assert_eq!(capacity.settled_at_once(), settled, "{operations}");
        }
    }

    #[test]
    fn a_transaction_has_two_comparisons_for_each_operation() {
        for (operations, most) in [("128", 57), ("24", 5), ("16", 1), ("100000", TRANSACTION)] {
            let capacity = capacity(&format!("?max-txn-ops={operations}"));
            assert_eq!(capacity.transaction(), most, "{operations}");
        }
    }

    #[test]
    fn a_limit_never_grows() {
        let capacity = capacity("");
        capacity.learn(Limit::Bytes, 1000);
        capacity.learn(Limit::Bytes, 5000);
        assert_eq!(capacity.bytes(), 500);
        capacity.learn(Limit::Bytes, 0);
        assert_eq!(capacity.bytes(), 1);
    }
}
