//! Waiting tasks: which tasks they wait for, and when their views change.

use std::convert::Infallible;

use jiff::Timestamp;
use windlass_statemachine::{TaskId, TaskState};

use super::{
    row::{Row, Saved},
    world::World,
};
use crate::store::{
    TaskView,
    rules::dependencies::{self, LookedAt},
};

impl World {
    /// Notifies the watches of each task that waits for this one, because this one has ended, is gone, or
    /// is live again.
    pub(super) fn touch_waiters(&mut self, id: &TaskId) {
        let waiters = self.waiters.of(id);
        waiters.iter().for_each(|waiter| self.touch(waiter));
    }

    /// Returns the state of a task that is about to be claimed, with the outcomes of the tasks that it
    /// waits for.
    pub(super) fn looked_at(&self, state: TaskState, now: Timestamp) -> LookedAt {
        let read = |id: &TaskId| {
            let seen = |row: &Row| dependencies::Seen {
                code: row.code(),
                ended_at: row.ended.map(|(_, at)| at),
            };
            Ok::<_, Infallible>(self.tasks.get(id).map(seen))
        };
        match dependencies::looked_at(state, now, read) {
            Ok(looked_at) => looked_at,
            Err(never) => match never {},
        }
    }

    /// Returns the view of the task for nodes; `None` for a task that is not live, or that cannot
    /// be read.
    pub(super) fn view(&self, row: &Row) -> Option<TaskView> {
        let mut view = row.view()?;
        if let Saved::State(state) = &row.saved
            && state.is_waiting()
        {
            let is_live = |id: &TaskId| self.tasks.get(id).is_some_and(|row| !row.has_ended());
            let waiter = dependencies::Waiter {
                is_blocked: dependencies::waited_for(state).iter().any(is_live),
                until: state.due().unwrap_or(Timestamp::MAX),
                since: state.since,
            };
            waiter.apply(&mut view);
        }
        self.limit_view(row, &mut view);
        Some(view)
    }
}
