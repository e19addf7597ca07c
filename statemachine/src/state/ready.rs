//! When a task is ready for a claim, and when its run began.

use jiff::Timestamp;

use crate::{StateKind, TaskState};

impl TaskState {
    /// Returns since when a task without a claim has been ready for one, or will be: [`due`](Self::due), or for a task
    /// that has run since then, when that run began or was released. How late a task is counts from here.
    pub fn ready(&self) -> Option<Timestamp> {
        let due = self.due()?;
        Some(self.run_since.map_or(due, |ran| ran.max(due)))
    }

    /// Returns the state of a task whose claim has ended without a message: its node has left or was lost. A runnable task
    /// waits for the next claim from `now` on. The version does not change.
    ///
    /// ```
    /// use windlass_statemachine::{Fence, TaskState};
    /// use jiff::{SignedDuration, Timestamp};
    ///
    /// let began = Timestamp::UNIX_EPOCH;
    /// let left = began + SignedDuration::from_hours(1);
    /// let claimed = TaskState::new(began).claimed(Fence(1), None, began);
    /// assert_eq!(claimed.unclaimed(left).ready(), Some(left));
    /// ```
    #[must_use]
    pub fn unclaimed(mut self, now: Timestamp) -> Self {
        self.runs_from(now);
        self
    }

    /// Notes that the next run begins now, if the task is runnable.
    pub(crate) fn runs_from(&mut self, now: Timestamp) {
        let is_later = self.code() == StateKind::Runnable && now != self.since;
        self.run_since = is_later.then_some(now);
    }
}
