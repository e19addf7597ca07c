//! [`Deadlines`]: by when a task has to start and to end.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::TaskState;
use crate::Task;

/// The deadlines of a task that are not met yet. A state holds the value only while there is one.
///
/// # Example
///
/// ```
/// use jiff::{SignedDuration, Timestamp};
/// use windlass_statemachine::{Task, TaskState};
///
/// let now = Timestamp::UNIX_EPOCH;
/// let mut task = Task::new("a".parse()?, "k".parse()?);
/// task.start_by = Some(now + SignedDuration::from_hours(1));
/// let state = TaskState::first(&task, now);
/// assert_eq!(state.deadline(), task.start_by);
/// assert_eq!(state.missed(now), None);
/// let late = now + SignedDuration::from_hours(2);
/// assert_eq!(state.missed(late).unwrap(), "did not start by 1970-01-01T01:00:00Z");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deadlines {
    /// The time before which a run of the handler has to begin. `None` once a run has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_by: Option<Timestamp>,
    /// The time before which the task has to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_by: Option<Timestamp>,
}

impl Deadlines {
    /// Returns the deadlines of a new task; `None` when it has none.
    pub fn of(task: &Task) -> Option<Box<Self>> {
        Self::new(task.start_by, task.end_by)
    }

    fn new(start_by: Option<Timestamp>, end_by: Option<Timestamp>) -> Option<Box<Self>> {
        let has_one = start_by.is_some() || end_by.is_some();
        has_one.then(|| Box::new(Self { start_by, end_by }))
    }

    /// Returns the earlier one.
    pub fn first(&self) -> Option<Timestamp> {
        self.start_by.into_iter().chain(self.end_by).min()
    }
}

impl TaskState {
    /// Returns the next deadline of a live task. At this time it fails, whatever it waits for.
    pub fn deadline(&self) -> Option<Timestamp> {
        let live = self.deadlines.as_ref();
        live.filter(|_| !self.code().is_terminal())?.first()
    }

    /// Returns the error of a live task that has missed a deadline.
    pub fn missed(&self, now: Timestamp) -> Option<String> {
        let deadlines = self.deadlines.as_ref();
        let deadlines = deadlines.filter(|_| !self.code().is_terminal())?;
        match (deadlines.start_by, deadlines.end_by) {
            (Some(at), _) if at <= now => Some(format!("did not start by {at}")),
            (_, Some(at)) if at <= now => Some(format!("did not end by {at}")),
            _ => None,
        }
    }

    /// Notes that a run of the handler has begun.
    pub(crate) fn has_started(&mut self) {
        if let Some(deadlines) = self.deadlines.take() {
            self.deadlines = Deadlines::new(None, deadlines.end_by);
        }
    }

    /// Notes an explicit retry: it counts as a start, and deadlines that have passed are dropped.
    pub(super) fn restarts(&mut self, now: Timestamp) {
        if let Some(deadlines) = self.deadlines.take() {
            self.deadlines = Deadlines::new(None, deadlines.end_by.filter(|at| *at > now));
        }
    }
}
