//! Tasks on their way to and from other stores.
//!
//! What belongs to a task is written first, and the task itself last: until then nobody sees it, and
//! what an interrupted import has left over is written over by the next one. A task that takes the place
//! of another one is swapped with it in one write (`replacing`).

use etcd_client::{GetOptions, PutOptions, Txn, TxnOp};
use futures::{StreamExt, future::join_all, stream};
use windlass_statemachine::{Fence, TaskId};

use super::{
    Inner,
    claims::{HISTORY, touch},
    errors::Fault,
    item::Item,
    keys::end_of,
    queued::Stored,
    read::{Bundle, kvs, parked_for},
    records::{self, Entry, Envelope, Hold, PLACES, number},
    replacing::Swap,
    sends,
};
use crate::store::{CommandRecord, Error, Exported, What, export::There};

const EXPORT: &str = "export a task";
const IMPORT: &str = "import a task";
/// Of how many tasks the further keys are read in one transaction.
const TASKS_AT_ONCE: usize = 25;
/// How many operations one item has at the most.
const OPERATIONS: usize = 60;

/// What makes an imported task be there.
enum Prepared {
    New(TaskId, Item),
    Swap(Box<Swap>),
}

impl Inner {
    /// Every task, in submit order.
    pub(super) async fn ids(&self) -> Result<Vec<TaskId>, Error> {
        let mut found: Vec<(u64, TaskId)> = Vec::new();
        for folder in ["tasks/", "finished/"] {
            let from = format!("{}{folder}", self.keys.root());
            self.scan(&from, &end_of(&from), |kv| {
                let id = self.keys.strip(kv.key(), folder);
                let Some(id) = id.and_then(|id| TaskId::new(id).ok()) else {
                    return;
                };
                let envelope = Envelope::read(&kv).or_else(|_| Envelope::foreign());
                found.push((envelope.map_or(0, |envelope| envelope.order(&kv)), id));
            })
            .await?;
        }
        found.sort();
        found.dedup_by(|a, b| a.1 == b.1);
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }

    pub(super) async fn export(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let size = (self.capacity.operations().saturating_sub(1) / 2).clamp(1, TASKS_AT_ONCE);
        let chunks: Vec<_> = ids.chunks(size).map(|ids| self.export_some(ids)).collect();
        let chunks: Vec<Vec<_>> = stream::iter(chunks).buffered(4).collect().await;
        chunks.into_iter().flatten().collect()
    }

    async fn export_some(&self, ids: &[TaskId]) -> Vec<Result<Exported, Error>> {
        let bundles = self.read_many(ids).await;
        let range = |from: String| {
            let options = GetOptions::new().with_range(end_of(&from));
            TxnOp::get(from, Some(options))
        };
        let further = ids.iter().flat_map(|id| {
            let (outcomes, histories) = (self.keys.outcomes(id), self.keys.histories(id));
            [range(outcomes), range(histories)]
        });
        let read = self
            .link
            .txn(Txn::new().and_then(further.collect::<Vec<_>>()));
        let mut further = match read.await {
            Ok(answer) => answer.op_responses().into_iter(),
            Err(fault) => {
                return ids
                    .iter()
                    .map(|_| Err(fault.clone().into_error(EXPORT)))
                    .collect();
            }
        };
        let mut exported = Vec::with_capacity(ids.len());
        for (id, read) in ids.iter().zip(bundles) {
            let outcomes = further.next().map(kvs).unwrap_or_default();
            let entries = further.next().map(kvs).unwrap_or_default();
            let read = read.map_err(|fault| fault.into_error(EXPORT));
            exported.push(read.and_then(|bundle| self.exported(id, &bundle, &outcomes, &entries)));
        }
        exported
    }

    fn exported(
        &self,
        id: &TaskId,
        bundle: &Bundle,
        outcomes: &[etcd_client::KeyValue],
        entries: &[etcd_client::KeyValue],
    ) -> Result<Exported, Error> {
        if !bundle.exists() {
            return Err(Error::no_task(id));
        }
        let record = bundle.record(id)?;
        let prefix = self.keys.outcomes(id);
        let settled = outcomes.iter().filter_map(|kv| {
            let name = std::str::from_utf8(kv.key()).ok()?.strip_prefix(&prefix)?;
            Some(Stored::read(Some(name), kv))
        });
        let mut commands: Vec<CommandRecord> = settled
            .chain(bundle.queue.iter().cloned())
            .filter_map(|stored| sends::record(id, &stored))
            .collect();
        commands.sort_by_key(|command| command.order);
        commands.dedup_by(|a, b| a.order == b.order);
        let mut history: Vec<_> = entries
            .iter()
            .flat_map(|kv| Entry::read(id, kv, &self.fences))
            .collect();
        history.sort_by_key(|change| change.seq);
        // A task that has ended was lost by nobody, whatever a Metafora node has left behind.
        let hold = bundle.state().map(|(_, hold)| hold).unwrap_or_default();
        let lost_by = hold
            .claimed_by
            .filter(|_| bundle.owner.is_none() && bundle.task.is_some());
        Exported::new(record, lost_by, commands, history)
    }

    pub(super) async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let fence = tasks
            .iter()
            .map(|task| task.fence)
            .max()
            .unwrap_or(Fence(0));
        let places: u64 = tasks.iter().map(Exported::len).sum();
        let first = match self.fences_above(fence).await {
            Ok(()) => self.reserve(places).await,
            Err(error) => Err(error),
        };
        let mut first = match first {
            Ok(first) => first,
            Err(error) => return tasks.iter().map(|_| Err(error.clone())).collect(),
        };
        let imports = tasks.into_iter().map(|task| {
            let count = task.len();
            let task = task.renumbered(first);
            first += count;
            self.prepare(task)
        });
        let prepared = join_all(imports.collect::<Vec<_>>()).await;
        // One after the other: where this ends early, those that are there are the first ones.
        let writes = prepared.into_iter().map(|prepared| async {
            match prepared? {
                Prepared::New(id, item) => self.write_part(item, &id).await.map(|_| ()),
                Prepared::Swap(swap) => self.swap(*swap).await,
            }
        });
        join_all(writes.collect::<Vec<_>>()).await
    }

    /// Reserves so many places in a row, which nothing else has or will have: those of revisions that
    /// write nothing else.
    async fn reserve(&self, places: u64) -> Result<u64, Error> {
        let failed = |fault: Fault| fault.into_error(IMPORT);
        let key = self.keys.places();
        let mut run: Option<(i64, i64)> = None;
        // Somebody else's write in between begins a new row.
        loop {
            let mut client = self.link.kv();
            let put = client.put(&*key, "", None::<PutOptions>);
            let put = self.link.call(put).await.map_err(failed)?;
            let at = put.header().map_or(0, |header| header.revision());
            let (from, upto) = match run {
                Some((from, last)) if last + 1 == at => (from, at),
                _ => (at, at),
            };
            run = Some((from, upto));
            let have = (upto - from + 1).unsigned_abs() * u64::from(PLACES);
            if have >= places {
                return Ok(number(from, 0));
            }
        }
    }

    /// Writes everything but the task itself; answers the write that makes it be there.
    async fn prepare(&self, exported: Exported) -> Result<Prepared, Error> {
        exported.check_size(self.options.limits.max_bytes)?;
        let id = &exported.task.id;
        let read = self.read(id).await;
        let found = read.map_err(|fault| fault.into_error(IMPORT))?;
        if found.exists() {
            exported.check_room(&There {
                order: found.record(id)?.order,
                has_ended: found.task.is_none(),
                is_claimed: found.owner.is_some(),
            })?;
        }
        for command in &exported.commands {
            let known = self.known(&command.id).await?;
            if let Some(task) = known.task.filter(|task| task != id) {
                return Err(Error::other_command(&command.id, &task));
            }
        }
        if found.exists() {
            let swap = self.prepare_swap(&exported, &found).await?;
            return Ok(Prepared::Swap(Box::new(swap)));
        }
        // What an import that was interrupted, or a Metafora node, has left behind goes.
        let mut item = self.unseen(id);
        item.delete_parts(&self.keys, id, &found);
        self.delete_history(&mut item, id).await?;
        self.delete_outcomes(&mut item, id).await?;
        self.write_part(item, id).await?;
        let most = OPERATIONS.min(self.capacity.operations().saturating_sub(2).max(2));
        let mut item = self.unseen(id);
        for (key, value) in self.parts_of(&exported)? {
            let bytes = item.bytes + key.len() + value.len();
            if item.operations() >= most || bytes > self.capacity.bytes() {
                let full = std::mem::replace(&mut item, self.unseen(id));
                self.write_part(full, id).await?;
            }
            item.put(&key, value);
        }
        self.write_part(item, id).await?;
        let mut item = self.whole(&exported)?;
        item.in_order = true;
        Ok(Prepared::New(id.clone(), item))
    }

    /// A write that happens only as long as there is no such task.
    fn unseen(&self, id: &TaskId) -> Item {
        let mut item = Item::new(touch(id));
        item.when_at(&self.keys.task(id), 0);
        item.when_at(&self.keys.finished(id), 0);
        item
    }

    /// Writes a part; answers at which revision.
    pub(super) async fn write_part(&self, item: Item, id: &TaskId) -> Result<i64, Error> {
        let done = self.pipeline.write(item).await;
        let done = done.map_err(|fault| fault.into_error(IMPORT))?;
        done.written.ok_or_else(|| Error::task_exists(id))
    }

    /// History, outcomes and commands: everything but the task itself.
    pub(super) fn parts_of(&self, exported: &Exported) -> Result<Vec<(String, String)>, Error> {
        let (keys, id) = (&self.keys, &exported.task.id);
        let mut parts = Vec::new();
        // What the submit and the commands tell need not be told again.
        let told = |what: &What| matches!(what, What::Submitted { .. } | What::Commanded { .. });
        let lines: Vec<_> = exported.history.iter().filter(|c| !told(&c.what)).collect();
        let newest = lines.iter().rev().take(HISTORY as usize);
        for (back, change) in newest.enumerate() {
            // So that the writes to come cut them off one by one.
            let version = exported.state.version.saturating_sub(back as u64);
            let key = format!(
                "{}-{:04}",
                keys.history(id, version),
                HISTORY as usize - back
            );
            parts.push((key, Entry::of(change)?));
        }
        for command in &exported.commands {
            let name = command.id.as_str();
            let key = match command.outcome {
                Some(_) => keys.outcome(id, name),
                None => keys.queued(id, name),
            };
            parts.push((key, Stored::of(command)?));
            parts.push((keys.pointer(&command.id), records::write("task", id)?));
        }
        Ok(parts)
    }

    /// The write that makes the task be there.
    fn whole(&self, exported: &Exported) -> Result<Item, Error> {
        let mut item = self.unseen(&exported.task.id);
        for (key, value) in self.core_of(exported)? {
            match value {
                Some(value) => item.put(&key, value),
                None => item.delete(&key),
            }
        }
        Ok(item)
    }

    /// The keys that make the task be there, with their values; `None` for one that must not be there.
    pub(super) fn core_of(
        &self,
        exported: &Exported,
    ) -> Result<Vec<(String, Option<String>)>, Error> {
        let (keys, task, state) = (&self.keys, &exported.task, &exported.state);
        let id = &task.id;
        let envelope = Envelope {
            order: Some(exported.order),
            ..Envelope::new(task, exported.submitted_at, 0)
        };
        let hold = exported.lost_by.as_ref().map(Hold::of).unwrap_or_default();
        let is_first = *state == envelope.first_state() && hold == Hold::default();
        let stored = (!is_first).then(|| records::write_state(state, &hold));
        let mut core = vec![(keys.state(id), stored.transpose()?)];
        let props = Some(task.props.clone()).filter(|props| !props.is_null());
        if state.code().is_terminal() {
            let envelope = Envelope {
                props,
                state: Some(state.code()),
                ended_at: Some(state.since),
                ..envelope
            };
            let record = records::write("task", &envelope)?;
            core.extend([(keys.finished(id), Some(record)), (keys.parked(id), None)]);
            return Ok(core);
        }
        core.push((keys.task(id), Some(records::write("task", &envelope)?)));
        core.extend(props.map(|props| (keys.props(id), Some(props.as_str().to_owned()))));
        let parked = parked_for(state).map(|parked| records::write("parked", &parked));
        core.push((keys.parked(id), parked.transpose()?));
        Ok(core)
    }
}
