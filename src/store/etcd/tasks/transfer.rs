//! Imports tasks from other stores.
//!
//! An import writes the parts of a task first and the task last, so that readers do not see it
//! before, and the next import overwrites the remains of an interrupted one. One write swaps a task
//! that replaces another one (`swap`).

use etcd_client::PutOptions;
use futures::future::join_all;
use windlass_statemachine::{Fence, TaskId};

use super::{
    fences::raise_fences,
    swap::{Swap, Swaps},
};
use crate::store::{
    Error, Exported,
    etcd::{
        client::Fault,
        edits::Clearing,
        read::Reader,
        schema::{
            TaskKey,
            numbers::{PLACES, number},
        },
        write::{
            Edit, Item,
            imported::{core_of, parts_of},
        },
    },
    export::TargetTask,
};

const IMPORT: &str = "import a task";
/// The most operations of one item.
const OPERATIONS: usize = 60;

/// The last write of an import.
enum Prepared {
    New(TaskId, Item),
    Swap(Box<Swap>),
}

/// Imports tasks.
pub(crate) struct Imports {
    pub(crate) swaps: Swaps,
    pub(crate) max_bytes: usize,
}

impl Imports {
    pub(crate) fn new(clearing: Clearing, max_bytes: usize) -> Self {
        let swaps = Swaps { clearing };
        Self { swaps, max_bytes }
    }

    fn reader(&self) -> &Reader {
        &self.swaps.clearing.access.reader
    }

    pub(crate) async fn import(&self, tasks: Vec<Exported>) -> Vec<Result<(), Error>> {
        let fence = tasks
            .iter()
            .map(|task| task.fence)
            .max()
            .unwrap_or(Fence(0));
        let places: u64 = tasks.iter().map(Exported::len).sum();
        let first = match raise_fences(self.reader(), fence).await {
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
        // One after the other, so that an import that ends early has written the first tasks.
        let writes = prepared.into_iter().map(|prepared| async {
            match prepared? {
                Prepared::New(id, item) => self.swaps.write_part(item, &id).await.map(|_| ()),
                Prepared::Swap(swap) => self.swaps.swap(*swap).await,
            }
        });
        join_all(writes.collect::<Vec<_>>()).await
    }

    /// Reserves consecutive places that nothing else uses: those of revisions that write nothing
    /// else.
    async fn reserve(&self, places: u64) -> Result<u64, Error> {
        let failed = |fault: Fault| fault.into_error(IMPORT);
        let key = self.reader().keys.places();
        let mut run: Option<(i64, i64)> = None;
        // Another write in between starts a new series.
        loop {
            let mut client = self.reader().link.kv();
            let put = client.put(&*key, "", None::<PutOptions>);
            let put = self.reader().link.call(put).await.map_err(failed)?;
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

    /// Writes everything except the task itself. Returns the write of the task.
    async fn prepare(&self, exported: Exported) -> Result<Prepared, Error> {
        exported.check_fits(self.max_bytes)?;
        let id = &exported.task.id;
        let found = self.reader().found(id, IMPORT).await?;
        if found.exists() {
            exported.check_room(&TargetTask {
                order: found.record(id)?.order,
                has_ended: found.task.is_none(),
                is_claimed: found.owner.is_some(),
            })?;
        }
        for command in &exported.commands {
            let known = self.reader().known(&command.id).await?;
            if let Some(task) = known.task.filter(|task| task != id) {
                return Err(Error::other_command(&command.id, &task));
            }
        }
        if found.exists() {
            let swap = self.swaps.prepare_swap(&exported, &found).await?;
            return Ok(Prepared::Swap(Box::new(swap)));
        }
        // Deletes the remains of an interrupted import or of a Metafora node.
        let mut item = self.unseen(id);
        Edit::new(&self.reader().keys, id, &mut item).delete_parts(&found);
        self.swaps.clearing.delete_history(&mut item, id).await?;
        self.swaps.clearing.delete_outcomes(&mut item, id).await?;
        self.swaps.write_part(item, id).await?;
        let capacity = self.swaps.clearing.access.capacity();
        let most = OPERATIONS.min(capacity.of_one());
        let mut item = self.unseen(id);
        for (key, value) in parts_of(&self.reader().keys, &exported)? {
            let bytes = item.bytes + key.len() + value.len();
            if item.operations() >= most || bytes > capacity.bytes() {
                let full = std::mem::replace(&mut item, self.unseen(id));
                self.swaps.write_part(full, id).await?;
            }
            item.put(&key, value);
        }
        self.swaps.write_part(item, id).await?;
        let mut item = self.whole(&exported).await?;
        self.swaps.take_key(&mut item, &exported).await?;
        item.in_order = true;
        Ok(Prepared::New(id.clone(), item))
    }

    /// Returns an item that compares that the task does not exist.
    fn unseen(&self, id: &TaskId) -> Item {
        let mut item = Item::of(id);
        let mut edit = Edit::new(&self.reader().keys, id, &mut item);
        edit.when(TaskKey::Task, 0);
        edit.when(TaskKey::Finished, 0);
        item
    }

    /// Builds the write of the task.
    async fn whole(&self, exported: &Exported) -> Result<Item, Error> {
        let mut item = self.unseen(&exported.task.id);
        self.reader().decided(IMPORT).await?;
        for (key, value) in core_of(&self.reader().keys, exported)? {
            match value {
                Some(value) => item.put(&key, value),
                None => item.delete(&key),
            }
        }
        Ok(item)
    }
}
