//! Changes unclaimed tasks.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::TaskState;

use super::world::World;
use crate::store::{ChangeKind, Reschedule, rules};

impl World {
    /// Gives a task the decided state and what the request changes beside it. `what` is the line of the history.
    pub(super) fn reschedule(
        &mut self,
        change: &Reschedule,
        (what, state): (ChangeKind, TaskState),
        now: Timestamp,
    ) {
        let id = &change.task;
        // Notifies the watchers of the old kind while the task has it.
        self.touch(id);
        // The claim looks for a slot again.
        if let Some(order) = self.tasks.get(id).map(|row| row.order) {
            self.leave_line(order);
        }
        if let Some(row) = self.tasks.get_mut(id) {
            rules::reschedule::apply(change, Arc::make_mut(&mut row.task));
        }
        self.set_state(id, state);
        self.record(id, what, now);
        self.touch(id);
    }
}
