//! The pipeline packs queued items into combined transactions.
//!
//! One outer transaction contains many nested ones, each with its own comparisons, so that an item
//! fails alone. Several outers are under way at once, but never two with the same task: the writes
//! of a task keep their order.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use etcd_client::{Txn, TxnOp, TxnOpResponse, TxnResponse};
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::{mpsc, oneshot};

use super::{
    batch::{Done, Queue, Waiting, used},
    item::Item,
};
use crate::store::etcd::{
    client::{Capacity, Fault, Limit, Link, kv},
    schema::{KeyValue, numbers::PLACES},
};

/// Queues items. A separate task writes them, and ends with the last clone. Clones share the
/// pipeline.
#[derive(Clone)]
pub(crate) struct Pipeline {
    to_writer: mpsc::UnboundedSender<Waiting>,
    place: Arc<AtomicU32>,
    pub(crate) capacity: Arc<Capacity>,
}

impl Pipeline {
    pub(crate) fn start(link: Link, capacity: Arc<Capacity>, in_flight: usize) -> Self {
        let (to_writer, from_users) = mpsc::unbounded_channel();
        let writer = Writer {
            link,
            capacity: capacity.clone(),
            in_flight: in_flight.max(1),
            queue: Queue::default(),
        };
        tokio::spawn(writer.run(from_users));
        Self::to(to_writer, capacity)
    }

    /// Returns a pipeline whose items another task writes.
    pub(crate) fn to(to_writer: mpsc::UnboundedSender<Waiting>, capacity: Arc<Capacity>) -> Self {
        let place = Arc::default();
        Self {
            to_writer,
            place,
            capacity,
        }
    }

    /// Reserves places in the numbers of the revision that will write an item.
    pub(crate) fn places(&self, count: u32) -> u32 {
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

    pub(crate) async fn write(&self, item: Item) -> Result<Done, Fault> {
        let (answer, done) = oneshot::channel();
        let gone = || Fault::NotNow("the store is being closed".to_owned());
        if self.to_writer.send(Waiting::new(item, answer)).is_err() {
            return Err(gone());
        }
        done.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// The items of one outer, and the answer to it.
struct Outer {
    items: Vec<Waiting>,
    answer: Result<TxnResponse, Fault>,
}

struct Writer {
    link: Link,
    capacity: Arc<Capacity>,
    in_flight: usize,
    queue: Queue,
}

impl Writer {
    async fn run(mut self, mut from_users: mpsc::UnboundedReceiver<Waiting>) {
        let mut flying: FuturesUnordered<BoxFuture<'static, Outer>> = FuturesUnordered::new();
        let mut open = true;
        while open || !flying.is_empty() || !self.queue.is_empty() {
            while flying.len() < self.in_flight {
                let (operations, bytes) = (self.capacity.operations(), self.capacity.bytes());
                let items = self.queue.pack(operations, bytes);
                if items.is_empty() {
                    break;
                }
                flying.push(Box::pin(send(self.link.clone(), items)));
            }
            tokio::select! {
                biased;
                // First, since users may send without a pause.
                Some(outer) = flying.next() => self.finish(outer).await,
                came = from_users.recv(), if open => match came {
                    Some(came) => self.queue.push(came),
                    None => open = false,
                },
            }
            while let Ok(came) = from_users.try_recv() {
                self.queue.push(came);
            }
        }
    }

    async fn finish(&mut self, outer: Outer) {
        let Outer { mut items, answer } = outer;
        self.queue.finished(&items);
        let response = match answer {
            Ok(response) => response,
            Err(Fault::LeaseGone) => return self.without_gone_leases(items).await,
            Err(Fault::OverLimit(limit, _)) if items.len() > 1 => {
                self.capacity.learn(limit, used(limit, &items));
                return self.queue.put_back(items);
            }
            Err(Fault::Refused(_)) if items.len() > 1 => {
                for waiting in &mut items {
                    waiting.alone = true;
                }
                return self.queue.put_back(items);
            }
            Err(fault) => {
                if let Fault::OverLimit(limit @ Limit::Operations, _) = fault
                    && used(limit, &items) <= self.capacity.operations()
                {
                    // A single item was too large. The next try of an item that settles commands is
                    // smaller.
                    self.capacity.learn(limit, used(limit, &items));
                }
                for waiting in items {
                    let _ = waiting.answer.send(Err(fault.clone()));
                }
                return;
            }
        };
        let revision = response.header().map_or(0, |header| header.revision());
        let done = |item: &Item, response: &TxnResponse| Done {
            written: response.succeeded().then_some(revision),
            read: item.reads.then(|| read(response)).flatten(),
        };
        if items.len() == 1 {
            for waiting in items {
                let done = done(&waiting.item, &response);
                let _ = waiting.answer.send(Ok(done));
            }
            return;
        }
        for (waiting, nested) in items.into_iter().zip(response.op_responses()) {
            let TxnOpResponse::Txn(nested) = nested else {
                continue;
            };
            let done = done(&waiting.item, &nested);
            let _ = waiting.answer.send(Ok(done));
        }
    }

    /// Answers the items of expired leases, and puts the others back: an outer with an expired
    /// lease writes nothing.
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
        let mut again = Vec::with_capacity(items.len());
        for waiting in items {
            match waiting.item.lease {
                Some(lease) if gone.contains(&lease) => {
                    let _ = waiting.answer.send(Err(Fault::LeaseGone));
                }
                Some(lease) if unknown.contains(&lease) => {
                    let reason = "a lease of the same batch is gone".to_owned();
                    let _ = waiting.answer.send(Err(Fault::NotNow(reason)));
                }
                _ => again.push(waiting),
            }
        }
        self.queue.put_back(again);
    }
}

/// Returns the key that a transaction has read, if any.
fn read(response: &TxnResponse) -> Option<KeyValue> {
    let mut got = response.op_responses().into_iter();
    kv(got.find(|one| matches!(one, TxnOpResponse::Get(_))))
}

async fn send(link: Link, items: Vec<Waiting>) -> Outer {
    let mut nested: Vec<Txn> = items.iter().map(|w| w.item.to_txn()).collect();
    let txn = match nested.pop() {
        Some(only) if nested.is_empty() => only,
        last => {
            nested.extend(last);
            let operations: Vec<TxnOp> = nested.into_iter().map(TxnOp::txn).collect();
            Txn::new().and_then(operations)
        }
    };
    let answer = link.write(txn).await;
    Outer { items, answer }
}
