//! How a message asks to wait for other tasks.

use std::time::Duration;

use jiff::Timestamp;

use super::{Action, Message, Wake};
use crate::{Invalid, TaskId, waits::Waits};

impl<J> Message<J> {
    /// Sleeps until none of these tasks is live, then runs the handler again. The context of that run
    /// lists the outcome of each task. An id without a task counts as a task that is not live.
    ///
    /// An empty list runs the handler again at once, and the context then lists no outcomes. A handler that
    /// waits whenever it finds no outcomes would run for ever, so return another message when there is nothing
    /// to wait for. More than 1,000 tasks, a task that is named twice and an invalid id make the message a
    /// [`fail`](Self::fail) that names the field.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{ActionKind, Message, Task};
    ///
    /// let child = Task::new("page-1".parse()?, "fetch".parse()?);
    /// let message: Message = Message::wait_for([child.id.clone()]).and_submit(child);
    /// assert_eq!(message.waits().unwrap().tasks[0].as_str(), "page-1");
    /// let message: Message = Message::wait_for(["page-1", "page-1"]);
    /// assert_eq!(message.kind(), ActionKind::Error);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn wait_for<I>(tasks: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        Self::waiting("wait_for", tasks, false)
    }

    /// Sleeps like [`wait_for`](Self::wait_for), but fails the task, without a run of its handler, when one
    /// of the tasks does not complete.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Message;
    ///
    /// let message: Message = Message::wait_for_ok(["fetch", "parse"]);
    /// assert!(message.waits().unwrap().ok);
    /// ```
    pub fn wait_for_ok<I>(tasks: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        Self::waiting("wait_for_ok", tasks, true)
    }

    /// Sets the time at which a [`wait_for`](Self::wait_for) or a [`wait_for_signal`](Self::wait_for_signal) ends at the
    /// latest; no such time by default. Replaces [`within`](Self::within). Has no effect on other messages.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Message;
    ///
    /// let at = "2030-01-01T00:00:00Z".parse()?;
    /// let message: Message = Message::wait_for(["fetch"]).deadline(at);
    /// assert_eq!(message.waits().unwrap().deadline, Some(at));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deadline(self, at: Timestamp) -> Self {
        self.until(Wake::At(at))
    }

    /// Sets how long a [`wait_for`](Self::wait_for) or a [`wait_for_signal`](Self::wait_for_signal) lasts at most; without a
    /// limit by default. The duration is counted from when the message is applied, by the clock of the node. Replaces
    /// [`deadline`](Self::deadline). Has no effect on other messages.
    ///
    /// The next run learns from `TaskContext::wait_expired` whether the wait had its whole time. A wait that ends after
    /// `9999-12-30T22:00:00Z` makes the message an [`error`](Self::error) (field `within`).
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_statemachine::{Message, TaskState, transition};
    ///
    /// let now = jiff::Timestamp::UNIX_EPOCH;
    /// let message = Message::wait_for(["fetch"]).within(Duration::from_secs(60));
    /// let waits = transition(&TaskState::new(now), &message, now)?;
    /// assert_eq!(waits.due().unwrap().as_second(), 60);
    /// # Ok::<(), windlass_statemachine::TransitionError>(())
    /// ```
    #[must_use]
    pub fn within(self, wait: Duration) -> Self {
        self.until(Wake::After(wait))
    }

    fn until(mut self, until: Wake) -> Self {
        if let Some(waits) = &mut self.body.waits {
            // The transition sets the deadline of a duration.
            waits.deadline = match until {
                Wake::At(at) => Some(at),
                Wake::After(_) => None,
            };
            self.body.action = Action::Sleep { until };
        }
        self.signal_until(until);
        self
    }

    /// Returns the wait that the message asks for. Its deadline is `None` for one that is given by [`within`](Self::within).
    pub fn waits(&self) -> Option<&Waits> {
        self.body.waits.as_deref()
    }

    fn waiting<I>(field: &'static str, tasks: I, ok: bool) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<TaskId>,
        <I::Item as TryInto<TaskId>>::Error: Into<Invalid>,
    {
        let mut tasks = tasks.into_iter().peekable();
        if tasks.peek().is_none() {
            return Self::run();
        }
        match Waits::new(field, tasks) {
            Ok(mut waits) => {
                waits.ok = ok;
                let until = Wake::At(waits.until());
                let mut message = Self::from(Action::Sleep { until });
                message.body.waits = Some(Box::new(waits));
                message
            }
            Err(error) => Self::refused(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActionKind, Untyped};

    #[test]
    fn a_wait_for_no_task_runs_at_once() {
        let none: [&str; 0] = [];
        assert_eq!(Message::<Untyped>::wait_for(none).kind(), ActionKind::Run);
    }

    #[test]
    fn only_a_wait_takes_a_deadline() {
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(Message::<Untyped>::run().deadline(at), Message::run());
        let wait = Duration::from_secs(1);
        assert_eq!(Message::<Untyped>::run().within(wait), Message::run());
        let waits: Message = Message::wait_for(["a"]);
        let sleeps = |message: &Message| message.action().clone();
        let until = waits.clone().within(wait).deadline(at);
        assert_eq!(sleeps(&until), sleeps(&Message::sleep_until(at)));
        assert_eq!(until.waits().unwrap().deadline, Some(at));
        let lasts = waits.deadline(at).within(wait);
        assert_eq!(sleeps(&lasts), sleeps(&Message::sleep_for(wait)));
        assert_eq!(lasts.waits().unwrap().deadline, None);
    }
}
