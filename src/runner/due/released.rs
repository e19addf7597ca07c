//! [`Released`]: a task that this process has released while it could run.

use tokio::time::Instant;

use super::{DueIndex, Moment};
use crate::store::TaskView;

/// A task that this process has released while it could run: other nodes go first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Released {
    pub(crate) order: u64,
    pub(crate) until: Instant,
    /// Whether signals, and no other commands, were queued for it.
    pub(crate) signalled: bool,
}

impl Released {
    /// Enters a free task: put off, unless it is not due or a command has to be carried out. A runnable task with
    /// signals needs a slot like any other, although the store reports it as commanded.
    pub(crate) fn enter(self, mut view: TaskView, due: &mut DueIndex, now: Moment) {
        if self.order != view.order || self.until <= now.at {
            return due.upsert(view, now);
        }
        view.commanded &= !(self.signalled && view.due.is_some() && !view.sleeping);
        let is_due = view
            .due
            .is_some_and(|due| !view.sleeping || due <= now.clock);
        match is_due && !view.commanded {
            true => due.put_off(view, self.until, now),
            false => due.upsert(view, now),
        }
    }
}
