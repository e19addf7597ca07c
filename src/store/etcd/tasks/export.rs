//! Exports tasks to another store.

use etcd_client::{GetOptions, Txn, TxnOp, TxnOpResponse};
use futures::{StreamExt, stream};
use windlass_statemachine::TaskId;

use crate::store::{
    CommandRecord, Error, Exported,
    etcd::{
        client::{Fault, kvs},
        read::Reader,
        schema::{Entry, Envelope, KeyValue, Part, Snapshot, Stored, Unique, end_of},
    },
    rules,
};

const EXPORT: &str = "export a task";
/// For how many tasks one transaction reads the further keys.
const TASKS_AT_ONCE: usize = 25;

/// Returns the number of keys that a read has found.
fn count(response: TxnOpResponse) -> i64 {
    match response {
        TxnOpResponse::Get(got) => got.count(),
        _ => 0,
    }
}

/// Reads the tasks of a namespace for another store.
#[derive(Clone)]
pub(crate) struct Exports {
    reader: Reader,
    /// The revision of every read; 0 for the newest of each.
    revision: i64,
}

/// The tasks of a namespace.
#[derive(Default)]
pub(crate) struct Ids {
    /// In submit order.
    pub(crate) tasks: Vec<TaskId>,
    /// How many have an owner.
    pub(crate) claimed: u64,
}

impl Exports {
    /// Reads the present state.
    pub(crate) fn new(reader: &Reader) -> Self {
        Self::at(reader, 0)
    }

    /// Reads the state of a revision.
    pub(crate) fn at(reader: &Reader, revision: i64) -> Self {
        let reader = reader.clone();
        Self { reader, revision }
    }

    /// Returns the error for a fault.
    pub(crate) fn failed(&self, fault: Fault, operation: &'static str) -> Error {
        match fault {
            Fault::Compacted if self.revision > 0 => Error::unavailable(
                "export the store",
                format!(
                    "another program has compacted etcd after revision {}, which the export reads; export again, and turn \
                     the automatic compaction of the members off meanwhile",
                    self.revision
                ),
            ),
            fault => fault.into_error(operation),
        }
    }

    /// Lists the ids of all tasks.
    pub(crate) async fn ids(&self) -> Result<Ids, Error> {
        let mut tasks: Vec<(u64, TaskId)> = Vec::new();
        let mut claimed = 0;
        for folder in ["tasks/", "finished/"] {
            let from = format!("{}{folder}", self.reader.keys.root());
            let mut take = |kv: KeyValue| {
                let id = self.reader.keys.strip(kv.key(), folder);
                let Some(id) = id.and_then(|id| TaskId::new(id).ok()) else {
                    let is_owner =
                        matches!(self.reader.keys.split(kv.key()), Some((_, Part::Owner)));
                    claimed += u64::from(is_owner);
                    return;
                };
                let envelope = Envelope::read(&kv).or_else(|_| Envelope::foreign());
                tasks.push((envelope.map_or(0, |envelope| envelope.order(&kv)), id));
            };
            let scanned = (self.reader.link)
                .scan(self.revision, &from, &end_of(&from), &mut take)
                .await;
            scanned.map_err(|fault| self.failed(fault, "list the tasks"))?;
        }
        tasks.sort();
        tasks.dedup_by(|a, b| a.1 == b.1);
        Ok(Ids {
            tasks: tasks.into_iter().map(|(_, id)| id).collect(),
            claimed,
        })
    }

    pub(crate) async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let size =
            (self.reader.capacity.operations().saturating_sub(1) / 3).clamp(1, TASKS_AT_ONCE);
        let chunks: Vec<_> = ids.chunks(size).map(|ids| self.export_some(ids)).collect();
        let chunks: Vec<Vec<_>> = stream::iter(chunks).buffered(4).collect().await;
        chunks.into_iter().flatten().collect()
    }

    async fn export_some(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let all = self.reader.read_many_at(ids, self.revision).await;
        let at = || GetOptions::new().with_revision(self.revision);
        let range = |from: String| {
            let options = at().with_range(end_of(&from));
            TxnOp::get(from, Some(options))
        };
        let further = ids.iter().flat_map(|id| {
            let (outcomes, histories) = (
                self.reader.keys.outcomes(id),
                self.reader.keys.histories(id),
            );
            // Only the number of parts: few tasks have a log, which may be large.
            let log = self.reader.keys.log(id);
            let options = at().with_range(end_of(&log)).with_count_only();
            [
                range(outcomes),
                range(histories),
                TxnOp::get(log, Some(options)),
            ]
        });
        let read = Txn::new().and_then(further.collect::<Vec<_>>());
        let mut further = match self.reader.link.txn(read).await {
            Ok(answer) => answer.op_responses().into_iter(),
            Err(fault) => {
                return ids
                    .iter()
                    .map(|_| Err(self.failed(fault.clone(), EXPORT)))
                    .collect();
            }
        };
        let mut exported = Vec::with_capacity(ids.len());
        for (id, read) in ids.iter().zip(all) {
            let outcomes = further.next().map(kvs).unwrap_or_default();
            let entries = further.next().map(kvs).unwrap_or_default();
            let parts = further.next().map_or(0, count);
            let read = read.map_err(|fault| self.failed(fault, EXPORT));
            let one = read.and_then(|found| {
                let one = self.exported(id, &found, &outcomes, &entries)?;
                Ok((one, found))
            });
            let one = match one {
                Ok((one, found)) if one.task.unique.is_some() => self.with_key(one, &found).await,
                one => one.map(|(one, _)| one),
            };
            exported.push(match one {
                Ok(one) if parts > 0 => {
                    let log = self.reader.log_parts(id, 0, self.revision).await;
                    let log = log.map_err(|fault| self.failed(fault, EXPORT));
                    let log = log.and_then(|log| rules::log_lines::whole(id, log));
                    log.map(|log| one.with_log(log))
                }
                one => one,
            });
        }
        exported
    }

    /// Notes whether the task has its unique key.
    async fn with_key(&self, exported: Exported, found: &Snapshot) -> Result<Exported, Error> {
        let Some(unique) = &exported.task.unique else {
            return Ok(exported);
        };
        let name = self.reader.keys.unique(unique.key());
        let mut client = self.reader.link.kv();
        let options = GetOptions::new().with_revision(self.revision);
        let read = self.reader.link.call(client.get(name, Some(options))).await;
        let mut read = read.map_err(|fault| self.failed(fault, EXPORT))?;
        let record = read.take_kvs().pop().map(KeyValue::from);
        let record = record.as_ref().and_then(Unique::read);
        let holder = record.filter(|record| *record.task() == exported.task.id);
        let holder = holder.and_then(|record| record.holder(unique.key(), found));
        Ok(exported.with_key(holder.is_some()))
    }

    fn exported(
        &self,
        id: &TaskId,
        found: &Snapshot,
        outcomes: &[KeyValue],
        entries: &[KeyValue],
    ) -> Result<Exported, Error> {
        if !found.exists() {
            return Err(Error::no_task(id));
        }
        let record = found.record(id)?;
        let prefix = self.reader.keys.outcomes(id);
        let settled = outcomes.iter().filter_map(|kv| {
            let name = std::str::from_utf8(kv.key()).ok()?.strip_prefix(&prefix)?;
            Some(Stored::read(Some(name), kv))
        });
        let mut commands: Vec<CommandRecord> = settled
            .chain(found.queue.iter().cloned())
            .filter_map(|stored| stored.record(id))
            .collect();
        commands.sort_by_key(|command| command.order);
        commands.dedup_by(|a, b| a.order == b.order);
        let mut history = found.recent_changes(id);
        history.extend(found.submit(id));
        history.extend(
            entries
                .iter()
                .flat_map(|kv| Entry::read(id, kv, &self.reader.fences)),
        );
        history.sort_by_key(|change| change.seq);
        // A write may have moved lines of the state to a block between the two reads.
        history.dedup_by_key(|change| change.seq);
        // A task that has ended was not lost by a node, whatever a Metafora node has left.
        let hold = found.state().map(|(_, hold)| hold).unwrap_or_default();
        let lost_by = hold
            .claimed_by
            .filter(|_| found.owner.is_none() && found.task.is_some());
        Exported::new(record, lost_by, commands, history)
    }
}
