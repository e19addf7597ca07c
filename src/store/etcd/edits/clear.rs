//! Deletes all keys of a task in one write, with as many pointers to its commands as fit.

use tracing::debug;
use windlass_statemachine::TaskId;

use crate::store::{
    Error,
    etcd::{
        read::Access,
        schema::{
            Snapshot, TaskKey, json,
            namespace::{QUARANTINED, RING},
            ranges::{history_of, is_folder, outcomes_of, ranges},
        },
        write::{Edit, Item, Tried},
    },
};

/// The most pointers to commands that are deleted in the same write as their task.
const POINTERS_AT_ONCE: usize = 60;

/// Deletes what belongs to tasks. Clones share their state.
#[derive(Clone)]
pub(crate) struct Clearing {
    pub(crate) access: Access,
}

/// What remains to be deleted after a task: pointers to its commands.
#[derive(Default)]
pub(crate) struct Leftover {
    /// The revision that the task was read at.
    pub(crate) read_at: i64,
    pub(crate) pointers: Vec<String>,
}

impl Clearing {
    /// Returns how many pointers to commands are deleted in the same write as one task.
    pub(crate) fn pointers_at_once(&self) -> usize {
        self.access.capacity().things(POINTERS_AT_ONCE)
    }

    /// Adds the deletion of all keys of a task. The caller compares that the task is unchanged. Leaves
    /// state and mark, which a task that replaces it overwrites. Returns the pointers to its commands
    /// beyond the first `pointers`. They are deleted after the task: a live task would apply a command
    /// twice if its id were no longer known.
    pub(crate) async fn clear(
        &self,
        item: &mut Item,
        id: &TaskId,
        found: &Snapshot,
        pointers: usize,
    ) -> Result<Leftover, Error> {
        let keys = self.access.keys();
        let mut names = Vec::new();
        let mut edit = Edit::new(keys, id, item);
        if found.task.is_some() {
            edit.delete(TaskKey::Task);
            edit.delete_parts(found);
            names.extend(found.queue.iter().filter_map(|stored| stored.name.clone()));
        }
        edit.delete_finished(found);
        self.delete_history(item, id).await?;
        names.extend(self.delete_outcomes(item, id).await?);
        let root = keys.root();
        let names = names.into_iter();
        let mut keys = names.map(|name| format!("{root}commands/{name}"));
        for key in keys.by_ref().take(pointers) {
            item.delete(&key);
        }
        Ok(Leftover {
            read_at: found.revision,
            pointers: keys.collect(),
        })
    }

    /// Deletes pointers to commands of a deleted task, if they still name it and were not written
    /// since it was read: the next task with this id may have the same commands. A remaining
    /// pointer refers to nothing, and a command that uses its id again overwrites it.
    pub(crate) async fn drop_pointers(&self, id: &TaskId, left: Leftover) {
        let Ok(names_it) = json::write("task", id) else {
            return;
        };
        let (mut pointers, capacity) = (left.pointers, self.access.capacity());
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
                    debug!(task = %id, reason, "left pointers to the commands of a deleted task");
                    return;
                }
                Tried::Failed(fault) => {
                    let error = fault.into_error("delete a task");
                    debug!(task = %id, %error, "left pointers to the commands of a deleted task");
                    return;
                }
            }
        }
    }

    /// Adds the deletion of the outcomes of a task. Returns the names of their commands.
    pub(crate) async fn delete_outcomes(
        &self,
        item: &mut Item,
        id: &TaskId,
    ) -> Result<Vec<String>, Error> {
        let prefix = self.access.keys().outcomes(id);
        let reader = &self.access.reader;
        let kvs = reader.all(&prefix, "read the commands of a task").await?;
        let (names, all) = outcomes_of(&kvs, &prefix, id);
        item.delete_ranges(ranges(&prefix, &all));
        Ok(names)
    }

    /// Adds the deletion of the log lines of a task.
    pub(super) fn delete_log(&self, item: &mut Item, id: &TaskId) {
        // The names of parts begin with a digit.
        let log = self.access.keys().log(id);
        item.delete_range(&format!("{log}0"), format!("{log}:"));
    }

    /// Adds the deletion of the history and the log lines of a task.
    pub(crate) async fn delete_history(&self, item: &mut Item, id: &TaskId) -> Result<(), Error> {
        self.delete_log(item, id);
        let prefix = self.access.keys().histories(id);
        if !is_folder(id.as_str()) {
            // Versions begin with a digit. No folder begins with a digit or an r, or has the name of a
            // quarantine.
            item.delete_range(&format!("{prefix}{RING}0"), format!("{prefix}{RING}:"));
            item.delete_range(&format!("{prefix}0"), format!("{prefix}:"));
            let quarantines = format!("{prefix}{QUARANTINED}");
            item.delete_range(&quarantines, format!("{quarantines}~"));
            return Ok(());
        }
        let reader = &self.access.reader;
        let kvs = reader.all(&prefix, "read the history of a task").await?;
        item.delete_ranges(ranges(&prefix, &history_of(&kvs, &prefix)));
        Ok(())
    }
}
