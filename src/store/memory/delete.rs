//! Deletes tasks.

use jiff::Timestamp;
use windlass_statemachine::TaskId;

use super::world::World;
use crate::store::{AuditAction, AuditEntry, ChangeKind};

impl World {
    /// Deletes a task that exists.
    pub(super) fn erase(&mut self, id: &TaskId, now: Timestamp) {
        // Notifies the watchers while the kind of the task is known.
        self.touch(id);
        let kind = self.tasks.get(id).map(|row| row.task.kind.clone());
        self.remove(id);
        self.audit.push_back(AuditEntry {
            at: now,
            by: self.by.clone(),
            what: AuditAction::Deleted {
                task: id.clone(),
                kind,
            },
        });
        self.record(id, ChangeKind::Deleted, now);
    }
}
