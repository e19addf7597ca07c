//! Deletes tasks.

use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::world::World;
use crate::store::{ChangeKind, Error};

impl World {
    pub(super) fn delete(&mut self, id: &TaskId, now: Timestamp) -> Result<(), Error> {
        // Notifies the watchers while the kind of the task is known.
        self.touch(id);
        self.remove(id).ok_or_else(|| Error::no_task(id))?;
        self.record(id, ChangeKind::Deleted, now);
        Ok(())
    }
}
