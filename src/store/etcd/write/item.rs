//! [`Item`]: the write of one task, with its own comparisons. Either all of it is written, or nothing.

use etcd_client::{Compare, CompareOp, DeleteOptions, PutOptions, Txn, TxnOp};
use windlass_statemachine::{Author, NodeName, TaskId};

use crate::store::etcd::schema::end_of;

/// A comparison of a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// The key was last written at this revision; 0: it does not exist.
    At(String, i64),
    There(String),
    /// No key from the first to before the second was written after this revision.
    NotAfter(String, String, i64),
    /// The key is attached to this lease.
    On(String, i64),
}

/// An operation of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Put(String, String),
    /// Puts a key that is attached to this lease.
    PutOn(String, String, i64),
    Delete(String),
    /// Deletes the keys from the first to before the second.
    DeleteRange(String, Vec<u8>),
    /// Deletes a key if it was last written at this revision. Otherwise the rest of the item is
    /// still written.
    DeleteAt(String, i64),
    /// Deletes a key if it has this value and was not written after this revision. Otherwise the
    /// rest of the item is still written.
    DeleteIf(String, String, i64),
    /// Reads a key.
    Get(String),
    /// Several operations, which count as one next to other operations.
    All(Vec<Op>),
}

/// How many bytes the wire format adds to each key and value, approximately.
const OVERHEAD: usize = 24;

/// One nested transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Item {
    pub(crate) when: Vec<Guard>,
    pub(crate) then: Vec<Op>,
    /// The tasks and commands that it writes. Two items of one combined write must not share any.
    pub(crate) touches: Vec<String>,
    /// Who makes the change.
    pub(crate) by: Option<Author>,
    /// The places in its revision's numbers that it uses: the first, and how many.
    pub(crate) place: u32,
    pub(crate) places: u32,
    pub(crate) bytes: usize,
    pub(crate) lease: Option<i64>,
    /// Whether it reads a key.
    pub(crate) reads: bool,
    /// Whether it must be written after earlier ordered items: a submit.
    pub(crate) in_order: bool,
    /// Whether it overtakes queued items, because other nodes wait for what it reports.
    pub(crate) urgent: bool,
    /// How many more operations than its comparisons and writes its nested transactions need.
    pub(super) inner: usize,
}

impl Item {
    pub(crate) fn new(touches: impl Into<String>) -> Self {
        Self {
            touches: vec![touches.into()],
            ..Self::default()
        }
    }

    /// Returns a write of a task.
    pub(crate) fn of(id: &TaskId) -> Self {
        Self::new(format!("t{id}"))
    }

    /// Returns a write of a node's keys.
    pub(crate) fn of_node(name: &NodeName) -> Self {
        Self::new(format!("n{name}"))
    }

    pub(crate) fn at(mut self, place: u32, places: u32) -> Self {
        (self.place, self.places) = (place, places);
        self
    }

    /// Sets the author of the change.
    pub(crate) fn by(mut self, author: Option<&Author>) -> Self {
        self.by = author.cloned();
        self
    }

    /// Adds a command whose pointer it writes.
    pub(crate) fn touch_command(&mut self, id: &str) {
        self.touches.push(format!("c{id}"));
    }

    /// Adds the slot of a limit that it takes or frees.
    pub(crate) fn touch_slot(&mut self, key: &str) {
        self.touches.push(format!("s{key}"));
    }

    /// Adds a task that it compares.
    pub(crate) fn touch_task(&mut self, id: &TaskId) {
        self.touches.push(format!("t{id}"));
    }

    /// Adds a unique key that it compares or writes.
    pub(crate) fn touch_key(&mut self, key: &str) {
        self.touches.push(format!("u{key}"));
    }

    fn weigh(&mut self, key: &str, value: usize) {
        self.bytes += key.len() + value + OVERHEAD;
    }

    /// Compares that the key was last written at this revision; 0: that it does not exist.
    pub(crate) fn when_at(&mut self, key: &str, revision: i64) {
        self.weigh(key, 0);
        self.when.push(Guard::At(key.to_owned(), revision));
    }

    /// Compares that the key exists.
    pub(crate) fn when_there(&mut self, key: &str) {
        self.weigh(key, 0);
        self.when.push(Guard::There(key.to_owned()));
    }

    /// Compares that no key from `from` up to `to` (excluded) was written after this revision.
    pub(crate) fn when_not_after(&mut self, from: &str, to: &str, revision: i64) {
        self.weigh(from, to.len());
        let guard = Guard::NotAfter(from.to_owned(), to.to_owned(), revision);
        self.when.push(guard);
    }

    /// Compares that the key is attached to this lease.
    pub(crate) fn when_on(&mut self, key: &str, lease: i64) {
        self.weigh(key, 0);
        self.when.push(Guard::On(key.to_owned(), lease));
    }

    /// Reads a key in the same transaction. The outcome contains it. An item can read one key at
    /// most.
    pub(crate) fn get(&mut self, key: &str) {
        self.weigh(key, 0);
        self.reads = true;
        self.then.push(Op::Get(key.to_owned()));
    }

    pub(crate) fn put(&mut self, key: &str, value: String) {
        self.weigh(key, value.len());
        self.then.push(Op::Put(key.to_owned(), value));
    }

    /// Puts a key that is attached to this lease.
    pub(crate) fn put_on(&mut self, key: &str, value: String, lease: i64) {
        self.weigh(key, value.len());
        self.lease = Some(lease);
        self.then.push(Op::PutOn(key.to_owned(), value, lease));
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.weigh(key, 0);
        self.then.push(Op::Delete(key.to_owned()));
    }

    pub(crate) fn delete_range(&mut self, from: &str, to: impl Into<Vec<u8>>) {
        self.weigh(from, from.len());
        self.then.push(Op::DeleteRange(from.to_owned(), to.into()));
    }

    pub(crate) fn delete_all(&mut self, prefix: &str) {
        self.delete_range(prefix, end_of(prefix));
    }

    /// Deletes ranges of keys ([`ranges`](crate::store::etcd::schema::ranges::ranges)).
    pub(crate) fn delete_ranges(&mut self, ranges: Vec<(Vec<u8>, Vec<u8>)>) {
        for (from, to) in ranges {
            self.delete_range(&String::from_utf8_lossy(&from), to);
        }
    }

    /// Deletes a key if it was last written at this revision. Otherwise the rest of the item is
    /// still written.
    pub(crate) fn delete_at(&mut self, key: &str, revision: i64) {
        self.weigh(key, key.len());
        self.inner = 2;
        self.then.push(Op::DeleteAt(key.to_owned(), revision));
    }

    /// Deletes a key if it has this value and was not written after this revision. Otherwise the
    /// rest of the item is still written.
    pub(crate) fn delete_if(&mut self, key: &str, value: &str, revision: i64) {
        self.weigh(key, key.len() + value.len());
        self.inner = 2;
        let op = Op::DeleteIf(key.to_owned(), value.to_owned(), revision);
        self.then.push(op);
    }

    /// Returns how much of the servers' limit of operations it uses in a batch.
    pub(crate) fn operations(&self) -> usize {
        self.when.len().max(self.then.len()) + self.inner
    }

    /// Returns the request to etcd.
    pub(crate) fn to_txn(&self) -> Txn {
        let when: Vec<Compare> = self.when.iter().map(Guard::to_compare).collect();
        let then: Vec<TxnOp> = self.then.iter().map(Op::to_txn_op).collect();
        Txn::new().when(when).and_then(then)
    }
}

/// Returns the comparison that a key was not written after this revision.
fn until(key: &str, revision: i64) -> Compare {
    Compare::mod_revision(key, CompareOp::Less, revision + 1)
}

impl Guard {
    pub(super) fn to_compare(&self) -> Compare {
        match self {
            Self::At(key, revision) => {
                Compare::mod_revision(key.as_str(), CompareOp::Equal, *revision)
            }
            Self::There(key) => Compare::create_revision(key.as_str(), CompareOp::Greater, 0),
            Self::NotAfter(from, to, revision) => until(from, *revision).with_range(to.as_str()),
            Self::On(key, lease) => Compare::lease(key.as_str(), CompareOp::Equal, *lease),
        }
    }
}

impl Op {
    fn to_txn_op(&self) -> TxnOp {
        let delete_when = |key: &str, when: Vec<Compare>| {
            let delete = TxnOp::delete(key, None);
            TxnOp::txn(Txn::new().when(when).and_then([delete]))
        };
        match self {
            Self::Put(key, value) => TxnOp::put(key.as_str(), value.as_str(), None),
            Self::PutOn(key, value, lease) => {
                let options = PutOptions::new().with_lease(*lease);
                TxnOp::put(key.as_str(), value.as_str(), Some(options))
            }
            Self::Delete(key) => TxnOp::delete(key.as_str(), None),
            Self::DeleteRange(from, to) => {
                let options = DeleteOptions::new().with_range(to.clone());
                TxnOp::delete(from.as_str(), Some(options))
            }
            Self::DeleteAt(key, revision) => {
                delete_when(key, vec![Guard::At(key.clone(), *revision).to_compare()])
            }
            Self::DeleteIf(key, value, revision) => {
                let same = Compare::value(key.as_str(), CompareOp::Equal, value.as_str());
                delete_when(key, vec![same, until(key, *revision)])
            }
            Self::Get(key) => TxnOp::get(key.as_str(), None),
            Self::All(ops) => {
                let ops: Vec<TxnOp> = ops.iter().map(Self::to_txn_op).collect();
                TxnOp::txn(Txn::new().and_then(ops))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TaskId {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    fn debug(value: &impl std::fmt::Debug) -> String {
        format!("{value:?}")
    }

    #[test]
    fn an_item_names_the_tasks_nodes_and_commands_that_it_writes() {
        let mut item = Item::of(&id("a"));
        item.touch_command("c");
        assert_eq!(item.touches, ["ta", "cc"]);
        let node: NodeName = "a".parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Item::of_node(&node).touches, ["na"]);
    }

    #[test]
    fn comparisons_are_those_of_the_servers() {
        let mut item = Item::new("x");
        item.when_at("k", 7);
        item.when_there("k");
        item.when_not_after("k", "k0", 7);
        item.when_on("k", 9);
        let when = [
            Compare::mod_revision("k", CompareOp::Equal, 7),
            Compare::create_revision("k", CompareOp::Greater, 0),
            Compare::mod_revision("k", CompareOp::Less, 8).with_range("k0"),
            Compare::lease("k", CompareOp::Equal, 9),
        ];
        let expected = Txn::new().when(when).and_then([]);
        assert_eq!(debug(&item.to_txn()), debug(&expected));
    }

    #[test]
    fn operations_are_those_of_the_servers() {
        let mut item = Item::new("x");
        item.put("k", "v".to_owned());
        item.put_on("k", "v".to_owned(), 9);
        assert_eq!(item.lease, Some(9));
        item.delete("k");
        item.delete_all("k/");
        item.delete_ranges(vec![(b"a".to_vec(), b"b".to_vec())]);
        item.delete_at("k", 7);
        item.delete_if("k", "v", 7);
        assert!(!item.reads);
        item.get("k");
        assert!(item.reads);
        let up_to = |end: &str| Some(DeleteOptions::new().with_range(end));
        let delete_when = |when: Vec<Compare>| {
            let delete = [TxnOp::delete("k", None)];
            TxnOp::txn(Txn::new().when(when).and_then(delete))
        };
        let then = [
            TxnOp::put("k", "v", None),
            TxnOp::put("k", "v", Some(PutOptions::new().with_lease(9))),
            TxnOp::delete("k", None),
            TxnOp::delete("k/", up_to("k0")),
            TxnOp::delete("a", up_to("b")),
            delete_when(vec![Compare::mod_revision("k", CompareOp::Equal, 7)]),
            delete_when(vec![
                Compare::value("k", CompareOp::Equal, "v"),
                Compare::mod_revision("k", CompareOp::Less, 8),
            ]),
            TxnOp::get("k", None),
        ];
        let expected = Txn::new().when([]).and_then(then);
        assert_eq!(debug(&item.to_txn()), debug(&expected));
    }

    #[test]
    fn an_item_takes_its_comparisons_or_its_writes_and_two_for_a_nested_one() {
        let mut item = Item::new("x");
        item.when_there("k");
        item.when_there("l");
        item.delete("k");
        assert_eq!(item.operations(), 2);
        item.delete("l");
        item.delete("m");
        assert_eq!(item.operations(), 3);
        item.delete_at("n", 1);
        assert_eq!(item.operations(), 6);
        let mut item = Item::new("x");
        item.delete_if("k", "v", 1);
        assert_eq!(item.operations(), 3);
    }

    #[test]
    fn an_item_weighs_its_keys_and_values_and_what_the_wire_adds() {
        let bytes = |write: fn(&mut Item)| {
            let mut item = Item::new("x");
            write(&mut item);
            item.bytes
        };
        assert_eq!(bytes(|item| item.when_at("key", 1)), 3 + OVERHEAD);
        assert_eq!(
            bytes(|item| item.when_not_after("key", "key00", 1)),
            8 + OVERHEAD
        );
        assert_eq!(
            bytes(|item| item.put("key", "value".to_owned())),
            8 + OVERHEAD
        );
        assert_eq!(bytes(|item| item.delete_all("key/")), 8 + OVERHEAD);
        assert_eq!(bytes(|item| item.delete_at("key", 1)), 6 + OVERHEAD);
        // The key is written twice.
        assert_eq!(
            bytes(|item| item.delete_if("key", "value", 1)),
            11 + OVERHEAD
        );
        let two = bytes(|item| {
            item.delete("a");
            item.delete("b");
        });
        assert_eq!(two, 2 + 2 * OVERHEAD);
    }
}
