//! The unique key of a new task.

use jiff::Timestamp;
use windlass_statemachine::{Task, TaskId};

use super::{Before, Edits};
use crate::store::{
    Error,
    etcd::{
        schema::Unique,
        write::{Edit, Item, transaction},
    },
};

impl Edits {
    /// Adds the record of the unique key of a new task, if it has one and nothing about the key has changed.
    pub(super) fn take_key(
        &self,
        item: &mut Item,
        task: &Task,
        before: &Before,
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some((key, record)) = Unique::of(task, now) else {
            return Ok(());
        };
        let keys = self.access().keys();
        let (name, text) = (keys.unique(key), record.write()?);
        item.when_at(&name, before.key(key));
        item.put(&name, text);
        item.touch_key(key);
        match before.facts.keys.get(key) {
            Some(holder) if holder.task != task.id => self.when_holder(item, before, &holder.task),
            _ => {}
        }
        Ok(())
    }

    /// Compares that the task with the key still exists as it was read.
    pub(super) fn when_holder(&self, item: &mut Item, before: &Before, holder: &TaskId) {
        item.touch_task(holder);
        let mut edit = Edit::new(self.access().keys(), holder, item);
        transaction::when_exists_as_found(&mut edit, before.found(holder));
    }
}
