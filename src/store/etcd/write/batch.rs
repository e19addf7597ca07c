//! [`Queue`]: the queued items, and how many of them one transaction takes. Pure.
//!
//! An outer is a transaction that contains the items as nested transactions.

use std::collections::{HashSet, VecDeque};

use tokio::sync::oneshot;

use super::item::Item;
use crate::store::etcd::{
    client::{Fault, Limit},
    schema::KeyValue,
};

/// The most queued items that are examined for one outer. Examining more takes time and does not
/// fill it better.
const LOOK: usize = 1000;

/// The outcome of an item.
#[derive(Debug)]
pub(crate) struct Done {
    /// The revision that wrote it; `None` when one of its comparisons failed.
    pub(crate) written: Option<i64>,
    /// The key that it read ([`Item::get`]).
    pub(crate) read: Option<KeyValue>,
}

pub(crate) type Answer = oneshot::Sender<Result<Done, Fault>>;

/// An item, and the receiver of its answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) item: Item,
    pub(crate) answer: Answer,
    /// Whether it is written alone, because the servers refused a batch that contained it.
    pub(crate) alone: bool,
}

impl Waiting {
    pub(crate) fn new(item: Item, answer: Answer) -> Self {
        let alone = false;
        Self {
            item,
            answer,
            alone,
        }
    }
}

/// The queued items, and what the outers under way touch.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Waiting>,
    busy: HashSet<String>,
    /// Whether an outer under way has items that are written in order.
    ordered: bool,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds an item. An urgent one goes before all items with which it shares nothing.
    pub(crate) fn push(&mut self, came: Waiting) {
        if !came.item.urgent {
            return self.waiting.push_back(came);
        }
        let shares = |other: &Waiting| {
            let mut touches = came.item.touches.iter();
            touches.any(|touched| other.item.touches.contains(touched))
        };
        let at = self.waiting.iter().rposition(shares);
        self.waiting.insert(at.map_or(0, |at| at + 1), came);
    }

    /// Puts items back in front of all others, because their outer was not written.
    pub(crate) fn put_back(&mut self, items: Vec<Waiting>) {
        for waiting in items.into_iter().rev() {
            self.waiting.push_front(waiting);
        }
    }

    /// Takes as many queued items as fit into one outer.
    pub(crate) fn pack(&mut self, max_operations: usize, max_bytes: usize) -> Vec<Waiting> {
        let mut packed: Vec<Waiting> = Vec::new();
        let mut touched: HashSet<String> = HashSet::new();
        let (mut most, mut bytes, mut place) = (0, 0, 0);
        let (mut in_order, mut held_order) = (false, self.ordered);
        // Each item counts as one operation, and those of the largest one count in addition.
        let has_room = |packed: &[Waiting], most: usize| packed.len() + most < max_operations;
        let mut index = 0;
        while index < self.waiting.len().min(LOOK) {
            let item = &self.waiting[index].item;
            let is_free = |t: &String| !self.busy.contains(t) && !touched.contains(t);
            let fits = packed.is_empty()
                || (!self.waiting[index].alone
                    && has_room(&packed, most.max(item.operations()))
                    && bytes + item.bytes <= max_bytes
                    && (item.places == 0 || item.place >= place));
            let may = fits && item.touches.iter().all(is_free) && !(item.in_order && held_order);
            touched.extend(item.touches.iter().cloned());
            if !may {
                // The ordered items behind it wait as well.
                held_order |= item.in_order;
                index += 1;
                continue;
            }
            most = most.max(item.operations());
            bytes += item.bytes;
            if item.places > 0 {
                place = item.place + item.places;
            }
            in_order |= item.in_order;
            if let Some(taken) = self.waiting.remove(index) {
                packed.push(taken);
            }
            let alone = packed.last().is_some_and(|w| w.alone);
            if alone || !has_room(&packed, most) {
                break;
            }
        }
        for taken in &packed {
            self.busy.extend(taken.item.touches.iter().cloned());
        }
        self.ordered |= in_order;
        packed
    }

    /// Notes the end of an outer with these items.
    pub(crate) fn finished(&mut self, items: &[Waiting]) {
        for waiting in items {
            for touched in &waiting.item.touches {
                self.busy.remove(touched);
            }
            self.ordered &= !waiting.item.in_order;
        }
    }
}

/// Returns how much of a limit one outer of these items uses.
pub(crate) fn used(limit: Limit, items: &[Waiting]) -> usize {
    let items = items.iter().map(|waiting| &waiting.item);
    match limit {
        Limit::Operations => items.len() + items.map(Item::operations).max().unwrap_or(0),
        Limit::Bytes => items.map(|item| item.bytes).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(touches: &str) -> Item {
        let mut item = Item::new(touches);
        item.put(touches, "v".to_owned());
        item
    }

    fn queue(items: impl IntoIterator<Item = Item>) -> Queue {
        let mut queue = Queue::default();
        for item in items {
            queue.push(Waiting::new(item, oneshot::channel().0));
        }
        queue
    }

    fn names(packed: &[Waiting]) -> Vec<&str> {
        packed.iter().map(|w| w.item.touches[0].as_str()).collect()
    }

    #[test]
    fn a_batch_holds_what_the_servers_take() {
        let mut by_operations = queue(["a", "b", "c", "d"].map(item));
        // One operation for each nested transaction, and those of the largest one.
        assert_eq!(names(&by_operations.pack(4, 10_000)), ["a", "b", "c"]);
        assert_eq!(names(&by_operations.pack(4, 10_000)), ["d"]);
        let size = item("a").bytes;
        let mut by_bytes = queue(["a", "b", "c"].map(item));
        assert_eq!(names(&by_bytes.pack(128, 2 * size)), ["a", "b"]);
        let mut large = queue([item("a")]);
        assert_eq!(names(&large.pack(1, 1)), ["a"], "one alone is always sent");
    }

    #[test]
    fn a_batch_counts_its_largest_item() {
        let mut large = item("large");
        large.put("/n/x", "v".to_owned());
        let mut queue = queue([item("a"), large, item("b")]);
        assert_eq!(names(&queue.pack(3, 10_000)), ["a", "b"]);
        assert!(!queue.is_empty());
        assert_eq!(names(&queue.pack(3, 10_000)), ["large"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_task_is_in_one_write_at_a_time_and_its_items_keep_their_order() {
        let mut queue = queue(["a", "a", "b", "a"].map(item));
        let first = queue.pack(128, 10_000);
        assert_eq!(names(&first), ["a", "b"]);
        assert!(queue.pack(128, 10_000).is_empty(), "both of 'a' wait");
        queue.finished(&first);
        let second = queue.pack(128, 10_000);
        assert_eq!(names(&second), ["a"]);
        queue.finished(&second);
        assert_eq!(names(&queue.pack(128, 10_000)), ["a"]);
        assert!(queue.is_empty());
    }

    fn submit(name: &str) -> Item {
        let mut item = item(name);
        item.in_order = true;
        item
    }

    #[test]
    fn a_submit_waits_for_the_one_before_it_that_waits_for_its_task() {
        let mut queue = queue([item("a"), submit("a"), submit("b")]);
        let first = queue.pack(128, 10_000);
        assert_eq!(names(&first), ["a"]);
        assert!(queue.pack(128, 10_000).is_empty(), "both submits wait");
        queue.finished(&first);
        assert_eq!(names(&queue.pack(128, 10_000)), ["a", "b"]);
    }

    #[test]
    fn submits_are_written_in_the_order_they_came() {
        let mut queue = queue([submit("a"), submit("b"), item("c"), submit("d")]);
        let first = queue.pack(3, 10_000);
        assert_eq!(names(&first), ["a", "b"]);
        assert_eq!(names(&queue.pack(128, 10_000)), ["c"], "'d' waits");
        queue.finished(&first);
        assert_eq!(names(&queue.pack(128, 10_000)), ["d"]);
    }

    #[test]
    fn places_of_one_write_grow() {
        let placed = [item("a").at(5, 2), item("-"), item("b").at(6, 1)];
        let mut queue = queue(placed.into_iter().chain([item("c").at(7, 1)]));
        assert_eq!(names(&queue.pack(128, 10_000)), ["a", "-", "c"]);
        assert_eq!(names(&queue.pack(128, 10_000)), ["b"]);
    }

    #[test]
    fn what_is_urgent_goes_first_but_behind_its_own_task() {
        let urgent = |name: &str| {
            let mut item = item(name);
            item.urgent = true;
            item
        };
        let mut queue = queue([item("a"), item("b"), urgent("n"), urgent("a")]);
        let first = queue.pack(128, 10_000);
        assert_eq!(names(&first), ["n", "a", "b"]);
        assert!(!first[1].item.urgent, "the first of 'a' goes first");
    }

    #[test]
    fn what_was_refused_in_a_batch_goes_alone_and_first() {
        let mut queue = queue(["a", "b", "c", "d"].map(item));
        let mut refused = queue.pack(3, 10_000);
        assert_eq!(names(&refused), ["a", "b"]);
        assert_eq!(used(Limit::Operations, &refused), 3);
        queue.finished(&refused);
        for waiting in &mut refused {
            waiting.alone = true;
        }
        queue.put_back(refused);
        let mut first = item("n");
        first.urgent = true;
        queue.push(Waiting::new(first, oneshot::channel().0));
        assert_eq!(names(&queue.pack(3, 10_000)), ["n", "c"]);
        assert_eq!(names(&queue.pack(128, 10_000)), ["a"]);
        assert_eq!(names(&queue.pack(128, 10_000)), ["b"]);
        assert_eq!(names(&queue.pack(128, 10_000)), ["d"]);
    }
}
