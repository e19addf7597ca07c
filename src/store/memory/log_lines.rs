//! The lines that handlers log.

use windlass_statemachine::{Fence, TaskId};

use super::world::World;
use crate::store::{
    Error, LogWrite, Logged, StoredLog,
    rules::log_lines::{self, LogHead, PartPlace},
};

impl World {
    pub(super) fn log(&mut self, write: &LogWrite) -> Result<(), Error> {
        self.check_claim(&write.claim)?;
        self.add_log(&write.claim.task, write.claim.fence, &write.lines);
        Ok(())
    }

    /// Adds lines of the live claim of a task.
    pub(super) fn add_log(&mut self, id: &TaskId, fence: Fence, lines: &[Logged]) {
        let Some(row) = self.tasks.get_mut(id) else {
            return;
        };
        let head = LogHead {
            parts: row.log.iter().map(PartPlace::of).collect(),
            last: row.log.last().cloned(),
        };
        let added = log_lines::add(&head, fence, lines);
        for part in added.put {
            row.log.retain(|stored| stored.part != part.part);
            row.log.push(part);
        }
        row.log
            .retain(|stored| !added.removed.contains(&PartPlace::of(stored)));
    }

    pub(super) fn log_of(&self, id: &TaskId, from: u64) -> Result<StoredLog, Error> {
        let parts = self.row(id)?.log.iter();
        let parts = parts.filter(|part| part.part >= from);
        Ok(StoredLog {
            parts: parts.cloned().collect(),
            ..StoredLog::default()
        })
    }
}
