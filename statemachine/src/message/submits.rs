//! [`SubmitTask`]: a task that a message submits, with times that count from when the message is applied.

use std::time::Duration;

use jiff::Timestamp;

use super::{Message, Wake};
use crate::{IfExists, Invalid, Submit, Task, time::LAST, waits::deadline_without_wait};

/// A task that is submitted as an effect of a transition. It converts from a [`Task`], a [`Submit`], and a
/// `NewTask` of the library.
///
/// Each duration replaces a time of the task. It is counted from when the message is applied, by the clock of the node.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SubmitTask {
    /// The task.
    pub task: Task,
    /// How long after the message is applied the task starts, whatever its `start_at` says; `None` to
    /// leave `start_at` as it is.
    pub start_in: Option<Duration>,
    /// How long after the message is applied the first run must have begun, whatever `start_by` says; `None` to leave
    /// `start_by` as it is.
    pub start_within: Option<Duration>,
    /// How long after the message is applied the task must have ended, whatever `end_by` says; `None` to leave `end_by` as
    /// it is.
    pub end_within: Option<Duration>,
    /// How long after the message is applied the task stops waiting for other tasks, whatever the deadline of its wait
    /// says; `None` to leave the deadline as it is.
    pub after_within: Option<Duration>,
    /// What to do when its id is taken.
    pub if_exists: IfExists,
}

impl From<Submit> for SubmitTask {
    fn from(Submit { task, if_exists }: Submit) -> Self {
        Self {
            task,
            start_in: None,
            start_within: None,
            end_within: None,
            after_within: None,
            if_exists,
        }
    }
}

impl From<Task> for SubmitTask {
    fn from(task: Task) -> Self {
        Submit::from(task).into()
    }
}

impl SubmitTask {
    /// Returns the submit, with the durations counted from `now`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field: for a time after `9999-12-30T22:00:00Z`, for times that contradict each other, and
    /// for the end of a wait of a task that waits for none.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_statemachine::{SubmitTask, Task};
    ///
    /// let mut tomorrow = SubmitTask::from(Task::new("reminder-7".parse()?, "mail".parse()?));
    /// tomorrow.start_in = Some(Duration::from_secs(86_400));
    /// let submit = tomorrow.resolve(jiff::Timestamp::UNIX_EPOCH)?;
    /// assert_eq!(submit.task.start_at.unwrap().as_second(), 86_400);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn resolve(self, now: Timestamp) -> Result<Submit, Invalid> {
        let (mut submit, times) = self.split()?;
        times.put(&mut submit.task, now)?;
        Ok(submit)
    }

    /// Returns the submit, and the times that are not resolved yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `after_deadline`) for the end of a wait of a task that waits for none.
    pub(super) fn split(self) -> Result<(Submit, Times), Invalid> {
        let times = Times {
            start_at: self.start_in,
            start_by: self.start_within,
            end_by: self.end_within,
            after_deadline: self.after_within,
        };
        if times.after_deadline.is_some() && self.task.waits.is_none() {
            return Err(deadline_without_wait());
        }
        let (task, if_exists) = (self.task, self.if_exists);
        Ok((Submit { task, if_exists }, times))
    }
}

/// The times of a submitted task that count from when its message is applied. Each field has the name of the time that it
/// sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) start_at: Option<Duration>,
    pub(crate) start_by: Option<Duration>,
    pub(crate) end_by: Option<Duration>,
    pub(crate) after_deadline: Option<Duration>,
}

impl Times {
    /// Sets the times of the task, if there are any.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field, for a time after `9999-12-30T22:00:00Z` and for times that contradict each other.
    fn put(self, task: &mut Task, now: Timestamp) -> Result<(), Invalid> {
        if self == Self::default() {
            return Ok(());
        }
        let resolve = |field, wait: Option<Duration>, advice| {
            let at = wait.map(|wait| Wake::After(wait).resolve(now)).transpose();
            at.map_err(|_| Invalid::new(field, format!("is beyond {LAST}; {advice}")))
        };
        let earlier = "give an earlier time";
        let start_at = resolve("start_in", self.start_at, "start the task sooner")?;
        let start_by = resolve("start_by", self.start_by, earlier)?;
        let end_by = resolve("end_by", self.end_by, earlier)?;
        let deadline = resolve("after_deadline", self.after_deadline, earlier)?;
        task.start_at = start_at.or(task.start_at);
        task.start_by = start_by.or(task.start_by);
        task.end_by = end_by.or(task.end_by);
        if let Some(waits) = &mut task.waits {
            waits.deadline = deadline.or(waits.deadline);
        }
        task.check(usize::MAX)
    }
}

impl<J> Message<J> {
    /// Returns the times of the submitted task with this index that are not resolved yet.
    pub(crate) fn times(&self, index: usize) -> Times {
        let mut times = self.body.times.iter();
        let of = times.find(|(at, _)| *at == index);
        of.map_or_else(Times::default, |(_, times)| *times)
    }

    /// Sets the times of the submitted tasks that count from `now`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field, for a time after `9999-12-30T22:00:00Z` and for times that contradict each other.
    pub(crate) fn resolve_times(&mut self, now: Timestamp) -> Result<(), Invalid> {
        for (at, times) in std::mem::take(&mut self.body.times) {
            if let Some(submit) = self.body.effects.submit.get_mut(at) {
                times.put(&mut submit.task, now)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Untyped, Waits};

    const HOUR: Duration = Duration::from_secs(3600);

    fn task() -> SubmitTask {
        SubmitTask::from(Task::new("t".parse().unwrap(), "k".parse().unwrap()))
    }

    #[test]
    fn each_duration_sets_its_time() {
        let mut new = task();
        new.task.waits = Some(Box::new(Waits::new("after", ["a"]).unwrap()));
        new.after_within = Some(HOUR);
        new.start_within = Some(2 * HOUR);
        new.end_within = Some(3 * HOUR);
        let mut message = Message::<Untyped>::run().and_submit(new);
        message.resolve_times(Timestamp::UNIX_EPOCH).unwrap();
        let task = &message.effects().submit[0].task;
        let hours = |at: Option<Timestamp>| at.map(|at| at.as_second() / 3600);
        let deadline = task.waits.as_ref().and_then(|waits| waits.deadline);
        assert_eq!(
            (hours(deadline), hours(task.start_by), hours(task.end_by)),
            (Some(1), Some(2), Some(3))
        );
        assert_eq!(message.times(0), Times::default(), "resolved once");
    }

    #[test]
    fn times_that_do_not_fit_are_named() {
        let mut late = task();
        late.start_in = Some(2 * HOUR);
        late.end_within = Some(HOUR);
        let mut far = task();
        far.start_within = Some(Duration::MAX);
        for (new, field) in [(late, "end_by"), (far, "start_by")] {
            let mut message = Message::<Untyped>::run().and_submit(new);
            let wrong = message.resolve_times(Timestamp::UNIX_EPOCH).unwrap_err();
            assert_eq!(wrong.field(), field);
        }
    }

    #[test]
    fn the_end_of_a_wait_needs_a_wait() {
        let mut new = task();
        new.after_within = Some(HOUR);
        let message = Message::<Untyped>::run().and_submit(new);
        assert!(message.effects().is_empty());
        assert!(!message.is_retryable(), "{message:?}");
    }
}
