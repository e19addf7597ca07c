//! [`Item`]: one task's write, with its own comparisons; the smallest thing that happens or not.

use etcd_client::{Compare, CompareOp, DeleteOptions, PutOptions, Txn, TxnOp};

use super::keys::end_of;

/// What the wire adds to each key and value, about.
const OVERHEAD: usize = 24;

/// One nested transaction.
#[derive(Debug, Clone, Default)]
pub(super) struct Item {
    when: Vec<Compare>,
    then: Vec<TxnOp>,
    /// The tasks and commands that it writes: two items of one combined write share none.
    pub(super) touches: Vec<String>,
    /// The places in its revision's numbers that it uses: the first, and how many.
    pub(super) place: u32,
    pub(super) places: u32,
    pub(super) bytes: usize,
    pub(super) lease: Option<i64>,
    /// It has to be written after the items before it that are so too: a submit.
    pub(super) in_order: bool,
    /// It goes before all that waits: others wait for what it tells.
    pub(super) urgent: bool,
    inner: usize,
}

impl Item {
    pub(super) fn new(touches: impl Into<String>) -> Self {
        Self {
            touches: vec![touches.into()],
            ..Self::default()
        }
    }

    pub(super) fn at(mut self, place: u32, places: u32) -> Self {
        (self.place, self.places) = (place, places);
        self
    }

    pub(super) fn touch(&mut self, what: impl Into<String>) {
        self.touches.push(what.into());
    }

    fn weigh(&mut self, key: &str, value: usize) {
        self.bytes += key.len() + value + OVERHEAD;
    }

    /// Only if the key was last written at this revision; 0: if there is none.
    pub(super) fn when_at(&mut self, key: &str, revision: i64) {
        self.weigh(key, 0);
        let compare = Compare::mod_revision(key, CompareOp::Equal, revision);
        self.when.push(compare);
    }

    /// Only if the key is there.
    pub(super) fn when_there(&mut self, key: &str) {
        self.weigh(key, 0);
        let compare = Compare::create_revision(key, CompareOp::Greater, 0);
        self.when.push(compare);
    }

    /// Only if no key from `from` to before `to` was written after this revision.
    pub(super) fn when_not_after(&mut self, from: &str, to: &str, revision: i64) {
        self.weigh(from, to.len());
        let compare = Compare::mod_revision(from, CompareOp::Less, revision + 1);
        self.when.push(compare.with_range(to));
    }

    pub(super) fn put(&mut self, key: &str, value: String) {
        self.weigh(key, value.len());
        self.then.push(TxnOp::put(key, value, None));
    }

    /// Puts a key that goes with this lease.
    pub(super) fn put_on(&mut self, key: &str, value: String, lease: i64) {
        self.weigh(key, value.len());
        self.lease = Some(lease);
        let options = PutOptions::new().with_lease(lease);
        self.then.push(TxnOp::put(key, value, Some(options)));
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.weigh(key, 0);
        self.then.push(TxnOp::delete(key, None));
    }

    pub(super) fn delete_range(&mut self, from: &str, to: impl Into<Vec<u8>>) {
        self.weigh(from, from.len());
        let options = DeleteOptions::new().with_range(to);
        self.then.push(TxnOp::delete(from, Some(options)));
    }

    pub(super) fn delete_all(&mut self, prefix: &str) {
        self.delete_range(prefix, end_of(prefix));
    }

    /// Deletes a key if it was last written at this revision, and goes on if not.
    pub(super) fn delete_at(&mut self, key: &str, revision: i64) {
        self.weigh(key, key.len());
        self.inner = 2;
        let txn = Txn::new()
            .when([Compare::mod_revision(key, CompareOp::Equal, revision)])
            .and_then([TxnOp::delete(key, None)]);
        self.then.push(TxnOp::txn(txn));
    }

    /// Deletes a key if it has this value and was not written after this revision, and goes on if
    /// not.
    pub(super) fn delete_if(&mut self, key: &str, value: &str, revision: i64) {
        self.weigh(key, key.len() + value.len());
        self.inner = 2;
        let txn = Txn::new()
            .when([
                Compare::value(key, CompareOp::Equal, value),
                Compare::mod_revision(key, CompareOp::Less, revision + 1),
            ])
            .and_then([TxnOp::delete(key, None)]);
        self.then.push(TxnOp::txn(txn));
    }

    /// How much of the server's limit of operations it takes as one of several.
    pub(super) fn operations(&self) -> usize {
        self.when.len().max(self.then.len()) + self.inner
    }

    pub(super) fn into_txn(self) -> Txn {
        Txn::new().when(self.when).and_then(self.then)
    }
}
