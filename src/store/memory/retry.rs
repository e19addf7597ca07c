//! Retries tasks.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_statemachine::{Json, Limit, TaskId, TaskState};

use super::world::World;
use crate::store::ChangeKind;

impl World {
    /// Gives a task new props and the limits that follow from them, if there are some.
    pub(super) fn put_props(
        &mut self,
        id: &TaskId,
        props: Option<&Json>,
        limits: Option<Vec<Limit>>,
    ) {
        if let (Some(props), Some(row)) = (props, self.tasks.get_mut(id)) {
            let task = Arc::make_mut(&mut row.task);
            task.props.clone_from(props);
            task.limits = limits.unwrap_or(std::mem::take(&mut task.limits));
        }
    }

    /// Gives a task the state of a retry.
    pub(super) fn restart(&mut self, id: &TaskId, state: TaskState, now: Timestamp) {
        self.unclaim(id);
        if let Some(order) = self.tasks.get(id).map(|row| row.order) {
            self.leave_line(order);
        }
        if let Some(row) = self.tasks.get_mut(id) {
            (row.quarantine, row.abandoned) = (None, None);
        }
        self.set_state(id, state);
        self.record(id, ChangeKind::Retried, now);
        self.touch(id);
    }
}
