//! All keys of a task, deleted in one write, with as many pointers to its commands as fit.

use tracing::debug;
use windlass_statemachine::TaskId;

use crate::store::{
    Error,
    etcd::{
        read::Access,
        schema::{
            Of, Snapshot, json,
            namespace::QUARANTINED,
            ranges::{history_of, is_folder, outcomes_of, ranges},
        },
        write::{Edit, Item, Tried},
    },
};

/// How many pointers of commands go in the same write as their task.
const POINTERS_AT_ONCE: usize = 60;

/// Deletes what belongs to tasks. Clones are the same.
#[derive(Clone)]
pub(crate) struct Clearing {
    pub(crate) access: Access,
}

/// What is left to delete once a task is gone: pointers to its commands.
#[derive(Default)]
pub(crate) struct Leftover {
    /// When the task was read.
    pub(crate) read_at: i64,
    pub(crate) pointers: Vec<String>,
}

impl Clearing {
    pub(crate) fn new(access: Access) -> Self {
        Self { access }
    }

    /// Adds that everything of a task goes, if it is as it was found; but not state and mark, which
    /// a task that takes its place writes over. Answers the pointers to its commands that are too
    /// many for one write. They go once the task is gone, since a task that lives on would apply a
    /// command a second time whose id is not known any more.
    pub(crate) async fn clear(
        &self,
        item: &mut Item,
        id: &TaskId,
        found: &Snapshot,
    ) -> Result<Leftover, Error> {
        let keys = self.access.keys();
        let mut names = Vec::new();
        let mut edit = Edit::new(keys, id, item);
        edit.when_as_found(found, &[Of::Finished]);
        if found.task.is_some() {
            edit.when_no_command_since(found.revision);
            edit.delete(Of::Task);
            edit.delete_parts(found);
            names.extend(found.queue.iter().filter_map(|stored| stored.name.clone()));
        }
        edit.delete(Of::Finished);
        self.delete_history(item, id).await?;
        names.extend(self.delete_outcomes(item, id).await?);
        let root = keys.root();
        let pointers = names.into_iter();
        let mut pointers = pointers.map(|name| format!("{root}commands/{name}"));
        let at_once = self.access.pipeline.capacity.things(POINTERS_AT_ONCE);
        for key in pointers.by_ref().take(at_once) {
            item.delete(&key);
        }
        Ok(Leftover {
            read_at: found.revision,
            pointers: pointers.collect(),
        })
    }

    /// Deletes pointers to commands of a task that is gone, as long as they still name it and
    /// were not written since it was read: the next task of this id may have the same commands. One
    /// that is left behind points to nothing, and is written over when its id is used again.
    pub(crate) async fn drop_pointers(&self, id: &TaskId, left: Leftover) {
        let Ok(names_it) = json::write("task", id) else {
            return;
        };
        let (mut pointers, capacity) = (left.pointers, &self.access.pipeline.capacity);
        while !pointers.is_empty() {
            let before = capacity.operations();
            let count = capacity.things(POINTERS_AT_ONCE);
            let from = pointers.len().saturating_sub(count);
            let mut item = Item::of(id);
            for key in &pointers[from..] {
                item.delete_if(key, &names_it, left.read_at);
            }
            match Tried::of(self.access.pipeline.write(item).await, before, capacity) {
                Tried::Written(_) | Tried::Changed => pointers.truncate(from),
                Tried::TooLarge => {}
                Tried::Lost(reason) => {
                    debug!(task = %id, reason, "pointers to its commands are left behind");
                    return;
                }
                Tried::Failed(fault) => {
                    let error = fault.into_error("delete a task");
                    debug!(task = %id, %error, "pointers to its commands are left behind");
                    return;
                }
            }
        }
    }

    /// Adds that the outcomes of a task go. Answers the names of their commands.
    pub(crate) async fn delete_outcomes(
        &self,
        item: &mut Item,
        id: &TaskId,
    ) -> Result<Vec<String>, Error> {
        let prefix = self.access.keys().outcomes(id);
        let read = self.access.reader.link.get_all(&prefix).await;
        let (kvs, _) = read.map_err(|fault| fault.into_error("read the commands of a task"))?;
        let (names, all) = outcomes_of(&kvs, &prefix, id);
        item.delete_ranges(ranges(&prefix, &all));
        Ok(names)
    }

    /// Adds that the history of a task goes.
    pub(crate) async fn delete_history(&self, item: &mut Item, id: &TaskId) -> Result<(), Error> {
        let prefix = self.access.keys().histories(id);
        if !is_folder(id.as_str()) {
            // Versions are numbers, and no folder begins with a digit or is a quarantine.
            item.delete_range(&format!("{prefix}0"), format!("{prefix}:"));
            let quarantines = format!("{prefix}{QUARANTINED}");
            item.delete_range(&quarantines, format!("{quarantines}~"));
            return Ok(());
        }
        let read = self.access.reader.link.get_all(&prefix).await;
        let (kvs, _) = read.map_err(|fault| fault.into_error("read the history of a task"))?;
        item.delete_ranges(ranges(&prefix, &history_of(&kvs, &prefix)));
        Ok(())
    }
}
