//! [`Skipped`]: what a task waits for that a command to run skips.

use std::fmt;

use jiff::Timestamp;

use super::{TaskState, TaskStatus};
use crate::{AwaitedSignal, waits::Waits};

/// What a task waits for, or waited for before it was paused. The command `run` skips it: the handler runs at once.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Message, TaskState, state::Skipped, transition};
/// use jiff::{SignedDuration, Timestamp};
///
/// let now = Timestamp::UNIX_EPOCH;
/// let hour = now + SignedDuration::from_hours(1);
/// let asleep = TaskState::submitted(Some(hour), now);
/// let paused = transition(&asleep, &Message::pause(), now)?;
/// assert_eq!(paused.skipped(now), Some(Skipped::Time(hour)));
/// assert_eq!(paused.skipped(hour), None, "the time has passed");
/// # Ok::<(), windlass_statemachine::TransitionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped<'a> {
    /// The time until which the task sleeps, or slept.
    Time(Timestamp),
    /// The tasks for which it waits, or waited.
    Tasks(&'a Waits),
    /// The signal for which it waits.
    Signal(&'a AwaitedSignal),
}

impl fmt::Display for Skipped<'_> {
    /// Writes what it is: `its sleep until 2030-01-02T03:04:05Z`, `its wait for 2 tasks`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(until) => write!(f, "its sleep until {until:.0}"),
            Self::Tasks(waits) => match waits.tasks.as_slice() {
                [one] => write!(f, "its wait for task '{one}'"),
                tasks => write!(f, "its wait for {} tasks", tasks.len()),
            },
            Self::Signal(signal) => write!(f, "its wait for the signal '{}'", signal.name()),
        }
    }
}

impl TaskState {
    /// Returns what a command to run that is applied at `now` skips; `None` for a task that waits for neither a time, tasks
    /// nor a signal.
    pub fn skipped(&self, now: Timestamp) -> Option<Skipped<'_>> {
        let (until, waits) = match self.status {
            TaskStatus::Sleeping { until } => (Some(until), self.is_waiting()),
            TaskStatus::Paused => {
                let pause = self.paused.as_deref();
                let waited = pause.is_some_and(|pause| pause.waited);
                (pause.and_then(|pause| pause.until), waited)
            }
            _ => return None,
        };
        let tasks = self.waits.as_deref();
        let tasks = tasks.filter(|of| waits && of.until() > now);
        let time = until.filter(|until| *until > now).map(Skipped::Time);
        let signal = self.awaits_signal().map(Skipped::Signal);
        tasks.map(Skipped::Tasks).or(signal).or(time)
    }
}
