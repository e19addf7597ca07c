//! [`Reader`] reads everything that belongs to a task at one revision, for many tasks at once.
//! [`Access`] adds the pipeline and a clock.

use std::sync::Arc;

use etcd_client::{GetOptions, Txn, TxnOp};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::{KeySet, Mark};
use crate::{
    clock::Clock,
    store::{
        Error,
        etcd::{
            client::{Capacity, Fault, Limit, Link, kv, kvs},
            schema::{
                Fences, Horizon, KeyValue, Keys, Part, Recent, Snapshot, end_of, json::parse,
                keys::TaskKey, ranges::is_pointer, revision,
            },
            write::{Item, Pipeline},
        },
    },
};

/// The most tasks that one transaction reads.
const MOST: usize = 31;
/// How many transactions are under way at once.
const AT_ONCE: usize = 4;

/// Reads the tasks of a namespace. Clones share their state.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) link: Link,
    pub(crate) keys: Keys,
    pub(crate) fences: Fences,
    pub(crate) mark: Mark,
    /// Whether nodes of Metafora work in this namespace.
    pub(crate) metafora_nodes: bool,
    pub(crate) capacity: Arc<Capacity>,
}

/// What every component needs: reader, pipeline and clock. Clones share their state.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) reader: Reader,
    pub(crate) pipeline: Pipeline,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Access {
    pub(crate) fn keys(&self) -> &Keys {
        &self.reader.keys
    }

    pub(crate) fn link(&self) -> &Link {
        &self.reader.link
    }

    pub(crate) fn capacity(&self) -> &Capacity {
        &self.reader.capacity
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns a write of a task with `places` places in the numbers of its revision.
    pub(crate) fn item(&self, id: &TaskId, places: u32) -> Item {
        Item::of(id).at(self.pipeline.places(places), places)
    }
}

/// The keys of a task in the order of a read; `None` for the range of its parts.
const ORDER: [(KeySet, Option<TaskKey>); 6] = [
    (KeySet::TASK, Some(TaskKey::Task)),
    (KeySet::PARTS, None),
    (KeySet::STATE, Some(TaskKey::TaskState)),
    (KeySet::PARKED, Some(TaskKey::Parked)),
    (KeySet::PROPS_APART, Some(TaskKey::PropsApart)),
    (KeySet::FINISHED, Some(TaskKey::Finished)),
];

fn with(ids: &[TaskId], keys: KeySet) -> Vec<(TaskId, KeySet)> {
    ids.iter().map(|id| (id.clone(), keys)).collect()
}

/// Divides tasks into transactions of at most so many operations. Each has a task at least.
fn chunks(mut tasks: &[(TaskId, KeySet)], operations: usize) -> Vec<&[(TaskId, KeySet)]> {
    let mut chunks = Vec::new();
    while !tasks.is_empty() {
        let mut left = operations;
        let fits = |(_, keys): &&(TaskId, KeySet)| {
            let rest = left.checked_sub(keys.operations());
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let many = tasks.iter().take(MOST).take_while(fits).count().max(1);
        let (chunk, rest) = tasks.split_at(many);
        chunks.push(chunk);
        tasks = rest;
    }
    chunks
}

impl Reader {
    /// Reads tasks.
    pub(crate) async fn read_many(&self, ids: &[TaskId]) -> Vec<Result<Snapshot, Fault>> {
        self.read_many_at(ids, 0).await
    }

    /// Reads tasks as of a revision; 0 stands for the newest one.
    pub(crate) async fn read_many_at(
        &self,
        ids: &[TaskId],
        revision: i64,
    ) -> Vec<Result<Snapshot, Fault>> {
        self.read_at(&with(ids, KeySet::ALL), revision).await
    }

    /// Reads some keys of tasks as of a revision; 0 stands for the newest one.
    pub(crate) async fn read_at(
        &self,
        tasks: &[(TaskId, KeySet)],
        revision: i64,
    ) -> Vec<Result<Snapshot, Fault>> {
        let read = self.read_chunks(tasks, revision, None).await.into_iter();
        read.map(|read| read.map(|(snapshot, _)| snapshot))
            .collect()
    }

    /// Reads tasks for a claim, without the records of ended ones. Returns each with the lease to
    /// which the key `node` is attached at the same revision.
    pub(crate) async fn read_for_claim(
        &self,
        ids: &[TaskId],
        node: &str,
    ) -> Vec<Result<(Snapshot, Option<i64>), Fault>> {
        let tasks = with(ids, KeySet::OF_LIVE);
        self.read_chunks(&tasks, 0, Some(node)).await
    }

    async fn read_chunks(
        &self,
        tasks: &[(TaskId, KeySet)],
        revision: i64,
        node: Option<&str>,
    ) -> Vec<Result<(Snapshot, Option<i64>), Fault>> {
        loop {
            let operations = self.capacity.operations().saturating_sub(1);
            let chunks = chunks(tasks, operations);
            let of = |chunk: &[(TaskId, KeySet)]| -> usize {
                chunk.iter().map(|(_, keys)| keys.operations()).sum()
            };
            let used = chunks.iter().map(|chunk| of(chunk)).max().unwrap_or(0);
            let is_single = chunks.len() == tasks.len();
            let chunks: Vec<_> = chunks
                .into_iter()
                .map(|tasks| self.read_chunk(tasks, revision, node))
                .collect();
            let chunks: Vec<Vec<_>> = stream::iter(chunks).buffered(AT_ONCE).collect().await;
            let refused = chunks.iter().flatten().any(|read| {
                let limit = Limit::Operations;
                matches!(read, Err(Fault::OverLimit(of, _)) if *of == limit)
            });
            if !refused || is_single {
                return chunks.into_iter().flatten().collect();
            }
            self.capacity.learn(Limit::Operations, used + 1);
        }
    }

    async fn read_chunk(
        &self,
        tasks: &[(TaskId, KeySet)],
        revision: i64,
        node: Option<&str>,
    ) -> Vec<Result<(Snapshot, Option<i64>), Fault>> {
        let keys = &self.keys;
        let all = tasks.iter().map(|(_, keys)| keys.operations());
        let mut operations = Vec::with_capacity(all.sum::<usize>() + 1);
        let at = || GetOptions::new().with_revision(revision);
        for (id, wanted) in tasks {
            for (key, of) in ORDER {
                if !wanted.contains(key) {
                    continue;
                }
                let read = of.map_or_else(
                    || {
                        let parts = keys.parts(id);
                        let range = at().with_range(end_of(&parts));
                        TxnOp::get(parts, Some(range))
                    },
                    |of| TxnOp::get(keys.of(id, of), Some(at())),
                );
                operations.push(read);
            }
        }
        operations.extend(node.map(|key| TxnOp::get(key, None)));
        // The reads are linearizable, which takes as long as a write. etcd 3.5.0 to 3.5.4 can panic when the caller of a
        // transaction of reads goes away, serializable or not (etcd issue 14110); the doctor names these versions.
        let answer = match self.link.txn(Txn::new().and_then(operations)).await {
            Ok(answer) => answer,
            Err(fault) => return tasks.iter().map(|_| Err(fault.clone())).collect(),
        };
        let newest = answer.header().map_or(0, |header| header.revision());
        let mut responses = answer.op_responses().into_iter();
        let mut snapshots = Vec::with_capacity(tasks.len());
        for (_, wanted) in tasks {
            let mut snapshot = Snapshot {
                fences: self.fences.clone(),
                revision: if revision > 0 { revision } else { newest },
                ..Snapshot::default()
            };
            for (key, of) in ORDER {
                if !wanted.contains(key) {
                    continue;
                }
                match of {
                    Some(of) => snapshot.put(of, kv(responses.next())),
                    None => {
                        let parts = responses.next().map(kvs).unwrap_or_default();
                        parts
                            .into_iter()
                            .for_each(|kv| self.take_part(&mut snapshot, kv));
                    }
                }
            }
            snapshot.queue.sort_by_key(|stored| stored.order);
            snapshots.push(snapshot);
        }
        let lease = kv(responses.next()).map(|kv| kv.lease());
        let snapshots = snapshots.into_iter();
        snapshots.map(|snapshot| Ok((snapshot, lease))).collect()
    }

    /// Adds a key below the key of a task.
    fn take_part(&self, snapshot: &mut Snapshot, kv: KeyValue) {
        let key = kv.key().to_vec();
        match self.keys.split(&key) {
            Some((_, Part::Command(_))) if is_pointer(&kv) => snapshot.others.push(key),
            Some((_, part)) => snapshot.take(&part, kv),
            None => snapshot.others.push(key),
        }
    }

    pub(crate) async fn read(&self, id: &TaskId) -> Result<Snapshot, Fault> {
        let mut read = self.read_many(std::slice::from_ref(id)).await;
        let nothing = || Err(Fault::NotNow("nothing was read".into()));
        read.pop().unwrap_or_else(nothing)
    }

    /// Like [`read`](Self::read). Errors name the operation.
    pub(crate) async fn found(
        &self,
        id: &TaskId,
        operation: &'static str,
    ) -> Result<Snapshot, Error> {
        let read = self.read(id).await;
        read.map_err(|fault| fault.into_error(operation))
    }

    /// Reads one key. Errors name the operation.
    pub(crate) async fn key(
        &self,
        key: &str,
        operation: &'static str,
    ) -> Result<Option<KeyValue>, Error> {
        let read = self.link.get_key(key).await;
        read.map_err(|fault| fault.into_error(operation))
    }

    /// Reads the keys that begin with `prefix`, of which there must be few. Errors name the
    /// operation.
    pub(crate) async fn all(
        &self,
        prefix: &str,
        operation: &'static str,
    ) -> Result<Vec<KeyValue>, Error> {
        let read = self.link.get_all(prefix).await;
        let read = read.map(|(kvs, _)| kvs);
        read.map_err(|fault| fault.into_error(operation))
    }

    /// Returns the newest lines of a task's history, which its state contains. The lines of an unreadable state are in
    /// its previous value, as long as etcd keeps that; `None` when they are lost.
    pub(crate) async fn recent(&self, found: &Snapshot) -> Result<Option<Recent>, Error> {
        let Some(state) = &found.state else {
            return Ok(Some(Recent::default()));
        };
        if let Ok(recent) = Recent::read(state) {
            return Ok(Some(recent));
        }
        let key = String::from_utf8_lossy(state.key()).into_owned();
        let before = self.link.get_key_at(&key, state.mod_revision() - 1).await;
        let before = before.map_err(|fault| fault.into_error("read the history of a task"))?;
        Ok(before.and_then(|kv| Recent::read(&kv).ok()))
    }

    /// Reads how far back history is reported, and the revision that wrote this value.
    pub(crate) async fn horizon(&self) -> Result<(Horizon, i64), Fault> {
        let kv = self.link.get_key(&self.keys.horizon()).await?;
        let horizon = kv.as_ref().and_then(|kv| parse(kv).ok());
        Ok((horizon.unwrap_or_default(), revision(kv.as_ref())))
    }
}
