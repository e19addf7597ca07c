//! The pipeline: what waits to be written is packed into combined transactions.
//!
//! One outer transaction holds many nested ones, each with its own comparisons, so one item that
//! fails does so alone. Several outers are under way at once, but never two with the same task:
//! what happens to a task happens in the order it was asked for.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use etcd_client::{Txn, TxnOp, TxnOpResponse};
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::{mpsc, oneshot};

use super::{
    Options,
    capacity::{Capacity, Limit},
    errors::Fault,
    item::Item,
    link::Link,
    records::PLACES,
};

/// How many waiting items are looked at for one outer: more would cost time, not fill it better.
const LOOK: usize = 1000;

/// What became of an item.
#[derive(Debug)]
pub(super) struct Done {
    /// Its comparisons held, and it was written at this revision.
    pub(super) written: Option<i64>,
}

type Answer = oneshot::Sender<Result<Done, Fault>>;

struct Waiting {
    item: Item,
    answer: Answer,
    /// It is not to be combined: the server took offence at a batch that it was in.
    alone: bool,
}

/// Takes items; the writing is done by a task of its own, which ends with the last of these.
pub(super) struct Pipeline {
    to_writer: mpsc::UnboundedSender<Waiting>,
    place: AtomicU32,
}

impl Pipeline {
    pub(super) fn start(link: Link, options: &Options, capacity: Arc<Capacity>) -> Self {
        let (to_writer, from_users) = mpsc::unbounded_channel();
        let writer = Writer {
            link,
            capacity,
            in_flight: options.in_flight.max(1),
            waiting: VecDeque::new(),
            busy: HashSet::new(),
            ordered: false,
        };
        tokio::spawn(writer.run(from_users));
        let place = AtomicU32::new(0);
        Self { to_writer, place }
    }

    /// Reserves places in the numbers of the revision that an item will get.
    pub(super) fn places(&self, count: u32) -> u32 {
        let count = count.min(PLACES);
        let next = |place: u32| {
            let first = if place + count > PLACES { 0 } else { place };
            Some(first + count)
        };
        let before = self
            .place
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let before = before.unwrap_or(0);
        if before + count > PLACES { 0 } else { before }
    }

    pub(super) async fn write(&self, item: Item) -> Result<Done, Fault> {
        let (answer, done) = oneshot::channel();
        let gone = || Fault::NotNow("the store is being closed".to_owned());
        if self
            .to_writer
            .send(Waiting {
                item,
                answer,
                alone: false,
            })
            .is_err()
        {
            return Err(gone());
        }
        done.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// The items of one outer and what became of it.
struct Outer {
    items: Vec<Waiting>,
    answer: Result<etcd_client::TxnResponse, Fault>,
}

struct Writer {
    link: Link,
    capacity: Arc<Capacity>,
    in_flight: usize,
    waiting: VecDeque<Waiting>,
    /// What the outers that are under way touch.
    busy: HashSet<String>,
    /// One of them holds items that have to be in order.
    ordered: bool,
}

impl Writer {
    async fn run(mut self, mut from_users: mpsc::UnboundedReceiver<Waiting>) {
        let mut flying: FuturesUnordered<BoxFuture<'static, Outer>> = FuturesUnordered::new();
        let mut open = true;
        while open || !flying.is_empty() || !self.waiting.is_empty() {
            while flying.len() < self.in_flight {
                let items = self.pack();
                if items.is_empty() {
                    break;
                }
                flying.push(Box::pin(send(self.link.clone(), items)));
            }
            tokio::select! {
                came = from_users.recv(), if open => match came {
                    Some(came) => {
                        self.came(came);
                        while let Ok(came) = from_users.try_recv() {
                            self.came(came);
                        }
                    }
                    None => open = false,
                },
                Some(outer) = flying.next() => self.finish(outer).await,
            }
        }
    }

    /// One that is urgent goes before all but what it has to come after.
    fn came(&mut self, came: Waiting) {
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

    /// Takes from what waits as much as one outer holds.
    fn pack(&mut self) -> Vec<Waiting> {
        let (max_operations, max_bytes) = (self.capacity.operations(), self.capacity.bytes());
        let mut packed: Vec<Waiting> = Vec::new();
        let mut touched: HashSet<String> = HashSet::new();
        let (mut most, mut bytes, mut place) = (0, 0, 0);
        let (mut in_order, mut held_order) = (false, self.ordered);
        let mut index = 0;
        while index < self.waiting.len().min(LOOK) {
            let item = &self.waiting[index].item;
            let is_free = |t: &String| !self.busy.contains(t) && !touched.contains(t);
            let fits = packed.is_empty()
                || (!self.waiting[index].alone
                    && packed.len() + 1 + most.max(item.operations()) <= max_operations
                    && bytes + item.bytes <= max_bytes
                    && (item.places == 0 || item.place >= place));
            let may = fits && item.touches.iter().all(is_free) && !(item.in_order && held_order);
            touched.extend(item.touches.iter().cloned());
            if !may {
                // Those that come behind it and have to be in order wait with it.
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
            if alone || packed.len() + 1 + most > max_operations {
                break;
            }
        }
        for taken in &packed {
            self.busy.extend(taken.item.touches.iter().cloned());
        }
        self.ordered |= in_order;
        packed
    }

    async fn finish(&mut self, outer: Outer) {
        let Outer { items, answer } = outer;
        for waiting in &items {
            for touched in &waiting.item.touches {
                self.busy.remove(touched);
            }
            self.ordered &= !waiting.item.in_order;
        }
        let response = match answer {
            Ok(response) => response,
            Err(Fault::LeaseGone) => return self.without_gone_leases(items).await,
            Err(Fault::OverLimit(limit, _)) if items.len() > 1 => {
                self.capacity.learn(limit, used(limit, &items));
                for waiting in items.into_iter().rev() {
                    self.waiting.push_front(waiting);
                }
                return;
            }
            Err(Fault::Refused(_)) if items.len() > 1 => {
                for mut waiting in items.into_iter().rev() {
                    waiting.alone = true;
                    self.waiting.push_front(waiting);
                }
                return;
            }
            Err(fault) => {
                if let Fault::OverLimit(limit @ Limit::Operations, _) = fault
                    && used(limit, &items) <= self.capacity.operations()
                {
                    // One item alone, which should have fitted: what settles commands can be made
                    // smaller the next time.
                    self.capacity.learn(limit, used(limit, &items));
                }
                for waiting in items {
                    let _ = waiting.answer.send(Err(fault.clone()));
                }
                return;
            }
        };
        let revision = response.header().map_or(0, |header| header.revision());
        let written = |succeeded: bool| succeeded.then_some(revision);
        if items.len() == 1 {
            for waiting in items {
                let done = Done {
                    written: written(response.succeeded()),
                };
                let _ = waiting.answer.send(Ok(done));
            }
            return;
        }
        for (waiting, nested) in items.into_iter().zip(response.op_responses()) {
            let TxnOpResponse::Txn(nested) = nested else {
                continue;
            };
            let done = Done {
                written: written(nested.succeeded()),
            };
            let _ = waiting.answer.send(Ok(done));
        }
    }

    /// Nothing of the outer was written, because a lease is gone: what hangs on others goes again.
    async fn without_gone_leases(&mut self, items: Vec<Waiting>) {
        let mut gone: HashSet<i64> = HashSet::new();
        let mut unknown: HashSet<i64> = HashSet::new();
        let leases: HashSet<i64> = items.iter().filter_map(|w| w.item.lease).collect();
        let alone = leases.len() == 1;
        for lease in leases {
            let mut client = self.link.leases();
            match self.link.call(client.time_to_live(lease, None)).await {
                Ok(left) if left.ttl() > 0 && !alone => {}
                Err(fault) if !matches!(fault, Fault::LeaseGone) && !alone => {
                    unknown.insert(lease);
                }
                _ => {
                    gone.insert(lease);
                }
            }
        }
        for waiting in items.into_iter().rev() {
            match waiting.item.lease {
                Some(lease) if gone.contains(&lease) => {
                    let _ = waiting.answer.send(Err(Fault::LeaseGone));
                }
                Some(lease) if unknown.contains(&lease) => {
                    let reason = "a lease of the same batch is gone".to_owned();
                    let _ = waiting.answer.send(Err(Fault::NotNow(reason)));
                }
                _ => self.waiting.push_front(waiting),
            }
        }
    }
}

/// How much of a limit one outer of these items uses.
fn used(limit: Limit, items: &[Waiting]) -> usize {
    let items = items.iter().map(|waiting| &waiting.item);
    match limit {
        Limit::Operations => items.len() + items.map(Item::operations).max().unwrap_or(0),
        Limit::Bytes => items.map(|item| item.bytes).sum(),
    }
}

async fn send(link: Link, items: Vec<Waiting>) -> Outer {
    let mut nested: Vec<Txn> = items.iter().map(|w| w.item.clone().into_txn()).collect();
    let txn = match nested.pop() {
        Some(only) if nested.is_empty() => only,
        last => {
            nested.extend(last);
            let operations: Vec<TxnOp> = nested.into_iter().map(TxnOp::txn).collect();
            Txn::new().and_then(operations)
        }
    };
    let answer = link.txn(txn).await;
    Outer { items, answer }
}
