//! Purges and retention: deletes tasks that ended long ago, and old history.
//!
//! A list reads the index of ended tasks up to a time, so its cost depends on its result. The record of each task
//! decides. One list serves many steps.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use etcd_client::{Txn, TxnOp};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::{sync::OnceCell, time::Instant};
use windlass_statemachine::{StateKind, TaskId};

use super::{
    starts::{self, Starts},
    unique::{self, Sweeps},
};
use crate::store::{
    Error,
    etcd::{
        client::{Fault, Limit, kv},
        read::Access,
        schema::{
            Envelope, Horizon, KeyValue, Parked, Snapshot, end_of,
            ended::{End, digits},
            json::{parse, write},
            keys::ENDED,
            revision,
        },
        tasks::{Deletes, audit},
        write::Item,
    },
    retention::PruneClock,
};

const OPERATION: &str = "purge what has ended";
/// The most tasks that one call of `maintain` removes.
const TASKS_PER_STEP: u32 = 5000;
/// How many records are read, or tasks deleted, at once.
const CHUNK: usize = 500;
/// How many records one transaction reads.
const READ_AT_ONCE: usize = 100;
/// How long after its last use a list is made again.
const STALE: Duration = Duration::from_secs(600);
const ALL: [StateKind; 3] = [StateKind::Completed, StateKind::Failed, StateKind::Killed];

/// The lists in use: tasks that an operator purges, and tasks past their retention.
#[derive(Default)]
struct Lists {
    asked: Mutex<Option<Ended>>,
    retention: Mutex<Option<Ended>>,
}

/// Deletes tasks that ended long ago.
pub(crate) struct Purges {
    deletes: Deletes,
    lists: Lists,
    prune_clock: OnceCell<PruneClock>,
    starts: Starts,
    sweeps: Sweeps,
}

fn take(list: &Mutex<Option<Ended>>, fits: impl Fn(&Ended) -> bool) -> Option<Ended> {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    list.take()
        .filter(|ended| ended.used.elapsed() < STALE && fits(ended))
}

fn keep(list: &Mutex<Option<Ended>>, mut ended: Ended) {
    ended.used = Instant::now();
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    *list = Some(ended).filter(|ended| !ended.records.is_empty());
}

/// Ended tasks that may be deleted.
struct Ended {
    states: Vec<StateKind>,
    before: Timestamp,
    /// The revision of each record, and its task, in the order of the ends.
    records: VecDeque<(i64, TaskId)>,
    used: Instant,
}

/// Returns whether this is the record that was listed, and its task is to be deleted.
fn is_matching(record: &KeyValue, written: i64, states: &[StateKind], before: Timestamp) -> bool {
    record.mod_revision() == written
        && Envelope::read(record).is_ok_and(|envelope| {
            envelope.state.is_some_and(|code| states.contains(&code))
                && envelope.ended_at.is_some_and(|at| at < before)
        })
}

impl Purges {
    pub(crate) fn new(deletes: Deletes) -> Self {
        Self {
            deletes,
            lists: Lists::default(),
            prune_clock: OnceCell::new(),
            starts: Starts::default(),
            sweeps: Sweeps::new(),
        }
    }

    fn access(&self) -> &Access {
        &self.deletes.edits.clearing.access
    }

    /// Deletes tasks that ended in one of `states` before `before`, oldest first.
    pub(crate) async fn purge(
        &self,
        states: &[StateKind],
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, Error> {
        let list = &self.lists.asked;
        let same = |ended: &Ended| ended.states == states && ended.before == before;
        let mut ended = match take(list, same) {
            Some(ended) => ended,
            // A copied task ended before its record was written, so every record counts.
            None => self.ended(states, before, i64::MAX).await?,
        };
        let gone = self.purge_some(&mut ended, limit).await?;
        keep(list, ended);
        Ok(gone)
    }

    /// Lists the tasks that ended before `before`, in the order of their ends, from the index of ended tasks. Leaves
    /// out those whose record was written after the revision `last`.
    async fn ended(
        &self,
        states: &[StateKind],
        before: Timestamp,
        last: i64,
    ) -> Result<Ended, Error> {
        let keys = self.access().keys();
        let mut records = VecDeque::new();
        let mut take = |kv: KeyValue| {
            // The write of a record also writes its key in the index.
            let written = kv.mod_revision();
            let end = End::read(keys, &kv).filter(|_| written <= last);
            let end = end.filter(|end| end.state.is_none_or(|code| states.contains(&code)));
            records.extend(end.map(|end| (written, end.id)));
        };
        let from = format!("{}{ENDED}", keys.root());
        let end = format!(
            "{from}{}",
            digits(before.as_microsecond().saturating_add(1))
        );
        let scanned = (self.access().link())
            .scan(0, &from, end.as_bytes(), &mut take)
            .await;
        scanned.map_err(|fault| fault.into_error(OPERATION))?;
        Ok(Ended {
            states: states.to_vec(),
            before,
            records,
            used: Instant::now(),
        })
    }

    async fn purge_some(&self, ended: &mut Ended, limit: u32) -> Result<u64, Error> {
        let mut gone = 0;
        self.spare_waited_for(ended).await?;
        while gone < u64::from(limit) && !ended.records.is_empty() {
            let most = (limit as usize).saturating_sub(gone as usize).min(CHUNK);
            let count = ended.records.len().min(most);
            let some: Vec<(i64, TaskId)> = ended.records.drain(..count).collect();
            let matching = self.matching(ended, some).await?;
            let (states, before) = (&ended.states, ended.before);
            let delete = |(written, id): (i64, TaskId)| async move {
                // A task that was retried in the meantime stays, and so does an unreadable one.
                let as_it_was = |found: &Snapshot| {
                    let record = found.finished.as_ref();
                    found.task.is_none()
                        && record.is_some_and(|kv| is_matching(kv, written, states, before))
                };
                self.deletes.delete_if(&id, as_it_was).await
            };
            for deleted in join_all(matching.into_iter().map(delete)).await {
                gone += u64::from(deleted?);
            }
        }
        Ok(gone)
    }

    /// Removes tasks from the list that live tasks presently wait for, according to their marks: the claim of a
    /// waiting task reads their outcomes. Keeps only the names of listed tasks, however many tasks wait.
    async fn spare_waited_for(&self, ended: &mut Ended) -> Result<(), Error> {
        if ended.records.is_empty() {
            return Ok(());
        }
        let listed: HashSet<&TaskId> = ended.records.iter().map(|(_, id)| id).collect();
        let mut spared = HashSet::new();
        let mut take = |kv: KeyValue| {
            let waits = parse::<Parked>(&kv).map_or_else(|_| Vec::new(), |mark| mark.waits);
            spared.extend(waits.into_iter().filter(|id| listed.contains(id)));
        };
        let access = self.access();
        let parked = access.keys().all_parked();
        let end = end_of(&parked);
        let scanned = access.link().scan(0, &parked, &end, &mut take).await;
        scanned.map_err(|fault| fault.into_error(OPERATION))?;
        ended.records.retain(|(_, id)| !spared.contains(id));
        Ok(())
    }

    /// Returns which of these tasks to delete, according to their records. The deletion reads each task again, with all
    /// its keys.
    async fn matching(
        &self,
        ended: &Ended,
        some: Vec<(i64, TaskId)>,
    ) -> Result<Vec<(i64, TaskId)>, Error> {
        let mut matching = Vec::new();
        let mut rest = some.as_slice();
        while !rest.is_empty() {
            let before = self.access().capacity().operations();
            let at_once = before.clamp(1, READ_AT_ONCE);
            let (chunk, later) = rest.split_at(at_once.min(rest.len()));
            let read = chunk
                .iter()
                .map(|(_, id)| TxnOp::get(self.access().keys().finished(id), None));
            let answer = self
                .access()
                .link()
                .txn(Txn::new().and_then(read.collect::<Vec<_>>()));
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(fault) => {
                    if matches!(fault, Fault::OverLimit(Limit::Operations, _)) {
                        self.access()
                            .capacity()
                            .learn(Limit::Operations, chunk.len());
                    }
                    if self.access().capacity().has_shrunk(before, &fault) {
                        continue;
                    }
                    return Err(fault.into_error(OPERATION));
                }
            };
            for ((written, id), got) in chunk.iter().zip(answer.op_responses()) {
                let (states, before) = (&ended.states, ended.before);
                if kv(Some(got)).is_some_and(|kv| is_matching(&kv, *written, states, before)) {
                    matching.push((*written, id.clone()));
                }
            }
            rest = later;
        }
        Ok(matching)
    }

    pub(crate) async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        if let Some(retention) = retention {
            self.prune_clock().await?.check(retention);
        }
        Ok(())
    }

    pub(crate) async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        if self.starts.is_time(self.access().clock.monotonic()) {
            starts::sweep(self.access(), self.prune_clock().await?).await?;
        }
        if self.sweeps.is_time() {
            unique::sweep(self.access(), self.prune_clock().await?).await?;
            audit::prune(self.access(), self.prune_clock().await?).await?;
        }
        let Some(retention) = retention else {
            return Ok(0);
        };
        let clock = self.prune_clock().await?;
        let Some(before) = clock.before(retention) else {
            return Ok(0);
        };
        let now = self.access().now();
        let list = &self.lists.retention;
        let mut ended = match take(list, |ended| ended.before <= before) {
            Some(ended) => ended,
            None => {
                let read = self.access().reader.horizon().await;
                let (horizon, _) = read.map_err(|fault| fault.into_error("prune the history"))?;
                // Only one node searches, from time to time.
                if !horizon.is_time(now, before) {
                    return Ok(0);
                }
                self.ended(&ALL, before, horizon.around(before).1).await?
            }
        };
        let gone = self.purge_some(&mut ended, TASKS_PER_STEP).await?;
        if ended.records.is_empty() {
            self.advance_horizon(before).await?;
        }
        keep(list, ended);
        Ok(gone)
    }

    /// Returns the clock that decides what is old enough. The first call, before a node joins,
    /// reads the newest record of the store: the last mark, or otherwise the end of the task that
    /// ended last.
    async fn prune_clock(&self) -> Result<&PruneClock, Error> {
        let make = async {
            let failed = |fault: Fault| fault.into_error("prune the history");
            let (horizon, _) = self.access().reader.horizon().await.map_err(failed)?;
            let now = self.access().now();
            let mut marks = horizon.marks.iter().rev().map(|(at, _)| *at);
            let mark = marks.find(|at| *at <= now);
            let newest = match mark {
                Some(mark) => Some(mark),
                None => self.last_end().await?,
            };
            Ok(PruneClock::new(self.access().clock.clone(), newest))
        };
        self.prune_clock.get_or_try_init(|| make).await
    }

    /// Returns the end time of the task whose record was written last.
    async fn last_end(&self) -> Result<Option<Timestamp>, Error> {
        let ended = self.ended(&ALL, Timestamp::MAX, i64::MAX).await?;
        let Some((_, id)) = ended.records.iter().max() else {
            return Ok(None);
        };
        let key = self.access().keys().finished(id);
        let record = self.access().reader.key(&key, OPERATION).await?;
        let envelope = record.and_then(|kv| Envelope::read(&kv).ok());
        Ok(envelope.and_then(|envelope| envelope.ended_at))
    }

    /// Adds a mark for now, and prunes the history before the revision of the last mark before
    /// `before`.
    async fn advance_horizon(&self, before: Timestamp) -> Result<(), Error> {
        const OPERATION: &str = "prune the history";
        let read = self
            .access()
            .link()
            .get_all(&self.access().keys().horizon())
            .await;
        let (kvs, revision_now) = read.map_err(|fault| fault.into_error(OPERATION))?;
        // After the revision was read, so that all writes up to it are older than this time.
        let now = self.access().now();
        let mut horizon: Horizon = kvs
            .first()
            .and_then(|kv| parse(kv).ok())
            .unwrap_or_default();
        let passed = horizon.marks.iter().rev().find(|(at, _)| *at < before);
        let passed = passed.copied();
        if let Some((_, revision)) = passed {
            horizon.pruned = horizon.pruned.max(revision);
        }
        horizon.drop_outdated(before, now);
        horizon.marks.push((now, revision_now));
        let mut item = Item::new("horizon");
        item.when_at(&self.access().keys().horizon(), revision(kvs.first()));
        item.put(&self.access().keys().horizon(), write("horizon", &horizon)?);
        // Another node may have been first, with the same mark.
        let done = self
            .deletes
            .edits
            .clearing
            .access
            .pipeline
            .write(item)
            .await;
        done.map(|_| ())
            .map_err(|fault| fault.into_error(OPERATION))
    }
}
