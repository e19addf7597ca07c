//! The deletion of a task with all its keys.

use windlass_statemachine::TaskId;

use super::{Edits, Leftover};
use crate::store::{
    Error,
    etcd::{
        schema::{Snapshot, TaskKey},
        write::{Edit, Item, transaction::when_exists_as_found},
    },
};

impl Edits {
    /// Adds the deletion of a task, if it is unchanged, with as many `pointers` to its commands. Returns the remaining
    /// pointers.
    ///
    /// Without `force` the task had no owner. The write then compares that no node has claimed it since: a claim writes
    /// the owner, and a claim that was lost leaves its mark in the state.
    pub(crate) async fn delete(
        &self,
        item: &mut Item,
        id: &TaskId,
        found: &Snapshot,
        (pointers, force): (usize, bool),
    ) -> Result<Leftover, Error> {
        let keys = self.access().keys();
        when_exists_as_found(&mut Edit::new(keys, id, item), found);
        match (found.task.is_some(), force) {
            (true, true) => Edit::new(keys, id, item).when_no_command_since(found.revision),
            (true, false) => {
                // The queue of commands and the owner are one range: one comparison of the few that a transaction has.
                let (first, last) = (keys.slot(id), keys.owner(id));
                item.when_not_after(&first, &format!("{last}\0"), found.revision);
                Edit::new(keys, id, item).when_as_found(found, &[TaskKey::TaskState]);
            }
            // No node claims a task that has ended.
            (false, _) => {}
        }
        let mut edit = Edit::new(keys, id, item);
        edit.delete(TaskKey::Parked);
        edit.delete(TaskKey::TaskState);
        self.clearing.clear(item, id, found, pointers).await
    }
}
