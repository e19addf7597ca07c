//! Deletes tasks.

use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::world::World;
use crate::store::{ChangeKind, Error};

impl World {
    pub(super) fn delete(&mut self, id: &TaskId, now: Timestamp) -> Result<(), Error> {
        self.row(id)?;
        self.erase(id, now);
        Ok(())
    }

    /// Deletes a task that exists.
    pub(super) fn erase(&mut self, id: &TaskId, now: Timestamp) {
        // Notifies the watchers while the kind of the task is known.
        self.touch(id);
        self.remove(id);
        self.record(id, ChangeKind::Deleted, now);
    }
}
