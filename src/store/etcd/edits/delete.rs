//! The deletion of a task with all its keys.

use windlass_statemachine::TaskId;

use super::{Edits, Leftover};
use crate::store::{
    Error,
    etcd::{
        schema::{Of, Snapshot},
        write::{Edit, Item},
    },
};

impl Edits {
    /// Adds the deletion of a task, if it is unchanged, with as many `pointers` to its commands. Without `force` also compares
    /// that nobody has claimed it since. Returns the remaining pointers.
    pub(crate) async fn delete(
        &self,
        item: &mut Item,
        id: &TaskId,
        found: &Snapshot,
        (pointers, force): (usize, bool),
    ) -> Result<Leftover, Error> {
        let mut edit = Edit::new(self.access().keys(), id, item);
        edit.when_as_found(found, &[Of::Task]);
        if !force {
            edit.when_as_found(found, &[Of::Owner, Of::TaskState]);
        }
        edit.delete(Of::Parked);
        edit.delete(Of::TaskState);
        self.clearing.clear(item, id, found, pointers).await
    }
}
