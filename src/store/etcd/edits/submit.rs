//! The keys of a new task.

use jiff::Timestamp;
use windlass_statemachine::Task;

use super::{Edits, Leftover};
use crate::store::{
    Error,
    etcd::{
        schema::{Layout, Snapshot, TaskKey},
        write::{Edit, Item},
    },
};

impl Edits {
    /// Adds a new task, if its id is free or belongs to the ended task `old`, with the deletion of
    /// as many `pointers` to the commands of `old`. Returns the remaining pointers.
    pub(crate) async fn submit(
        &self,
        item: &mut Item,
        task: &Task,
        old: Option<&Snapshot>,
        now: Timestamp,
        pointers: usize,
    ) -> Result<Option<Leftover>, Error> {
        let (clearing, id, place) = (&self.clearing, &task.id, item.place);
        let keys = clearing.access.keys();
        item.in_order = true;
        let mut edit = Edit::new(keys, id, item);
        edit.when(TaskKey::Task, 0);
        edit.when(
            TaskKey::Finished,
            old.map_or(0, |old| old.revision_of(TaskKey::Finished)),
        );
        let left = match old {
            None => None,
            Some(old) => Some(Box::pin(clearing.clear(item, id, old, pointers)).await?),
        };
        clearing.access.reader.decided("submit a task").await?;
        if old.is_none() && keys.layout().is_some_and(Layout::is_shared) {
            // A node of Metafora that ends a task leaves its log.
            clearing.delete_log(item, id);
        }
        Edit::new(keys, id, item).put_task(task, place, now)?;
        Ok(left)
    }
}
