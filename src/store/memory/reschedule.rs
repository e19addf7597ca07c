//! Changes due times, priorities and limits.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::{StateKind, TaskState};

use super::world::World;
use crate::store::{ChangeKind, Reschedule};

impl World {
    /// Writes the state, the priority and the limits of a task after a reschedule. Its state had
    /// the code `from` before.
    pub(super) fn reschedule(
        &mut self,
        change: &Reschedule,
        (from, state): (StateKind, TaskState),
        now: Timestamp,
    ) {
        let id = &change.task;
        let to = state.code();
        // The claim looks for a slot again.
        if let Some(order) = self.tasks.get(id).map(|row| row.order) {
            self.leave_line(order);
        }
        if let Some(row) = self.tasks.get_mut(id) {
            if let Some(priority) = change.priority {
                Arc::make_mut(&mut row.task).priority = priority;
            }
            if let Some(limits) = &change.limits {
                Arc::make_mut(&mut row.task).limits.clone_from(limits);
            }
        }
        self.set_state(id, state);
        self.record(id, ChangeKind::Rescheduled { from, to }, now);
        self.touch(id);
    }
}
