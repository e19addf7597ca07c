//! Reads the history of one task.

use windlass_statemachine::TaskId;

use super::world::World;
use crate::store::{Change, Error};

impl World {
    pub(super) fn history(&self, id: &TaskId, limit: u32) -> Result<Vec<Change>, Error> {
        let places = &self.row(id)?.history;
        let newest = places.iter().rev().take(limit as usize);
        let mut changes: Vec<Change> = newest
            .filter_map(|seq| seq.checked_sub(self.first_seq))
            .filter_map(|index| self.log.get(usize::try_from(index).ok()?).cloned())
            .collect();
        changes.reverse();
        Ok(changes)
    }
}
