//! [`Effects`]: changes of other tasks in the same write as a transition, and the methods that add them to a message.

use super::{
    Message,
    submits::{SubmitTask, Times},
};
use crate::{
    Command, CommandId, Delete, Guard, Invalid, Require, Reschedule, RetryTask, Submit, TaskId,
    operation::SendCommand,
};

/// Changes of other tasks in the same atomic write as a transition: all of them, or none and no
/// transition.
///
/// A store applies them in the order of the fields, after it has decided all guards. A task may have
/// either one delete, one retry or one reschedule, or up to one submit and any number of commands.
/// The task whose message it is may only get commands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    /// Tasks to submit.
    pub submit: Vec<Submit>,
    /// Commands to send. A command may go to a task of `submit`.
    pub send: Vec<SendCommand>,
    /// Tasks to delete.
    pub delete: Vec<Delete>,
    /// Ended tasks to start again.
    pub retry: Vec<RetryTask>,
    /// Unclaimed tasks that change: their due time, priority, kind, limits, data or props.
    pub reschedule: Vec<Reschedule>,
    /// What must hold. Otherwise the transition and all effects are refused.
    pub require: Vec<Guard>,
}

impl Effects {
    /// Returns how many operations they are, without the guards.
    pub fn operations(&self) -> usize {
        let changes = self.delete.len() + self.retry.len() + self.reschedule.len();
        self.submit.len() + self.send.len() + changes
    }

    /// Returns how many bytes the props of the tasks to submit have, which are almost all of what is stored.
    pub fn bytes(&self) -> usize {
        let tasks = self.submit.iter();
        tasks.map(|submit| submit.task.props.len()).sum()
    }

    /// Returns whether there are no effects.
    pub fn is_empty(&self) -> bool {
        self.changes_nothing() && self.require.is_empty()
    }

    /// Returns whether the effects hold nothing but guards.
    pub(crate) fn changes_nothing(&self) -> bool {
        let moves_none = self.retry.is_empty() && self.reschedule.is_empty();
        moves_none && self.submit.is_empty() && self.send.is_empty() && self.delete.is_empty()
    }
}

impl<J> Message<J> {
    /// Adds the submit of a task, in the same write as the transition: both happen, or neither.
    ///
    /// An invalid task makes the message a [`fail`](Self::fail) without effects, whose error names
    /// the field.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_statemachine::{Message, SubmitTask, Task};
    ///
    /// let mut tomorrow = SubmitTask::from(Task::new("reminder-7".parse()?, "mail".parse()?));
    /// tomorrow.start_in = Some(Duration::from_secs(86_400)); // counted from when the message is applied
    /// let message: Message = Message::complete().and_submit(tomorrow);
    /// assert_eq!(message.effects().submit.len(), 1);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    #[must_use]
    pub fn and_submit<T>(mut self, task: T) -> Self
    where
        T: TryInto<SubmitTask>,
        T::Error: Into<Invalid>,
    {
        let new = task.try_into().map_err(Into::into);
        match new.and_then(SubmitTask::split) {
            Ok(_) if self.body.refused => {}
            Ok((submit, times)) => {
                if times != Times::default() {
                    let at = self.body.effects.submit.len();
                    self.body.times.push((at, times));
                }
                self.body.effects.submit.push(submit);
            }
            Err(e) => self.refuse("a task to submit", &e),
        }
        self
    }

    /// Adds a command to another task, in the same write as the transition: both happen, or
    /// neither. An id is a name or anything that converts to one, such as text.
    ///
    /// An invalid id makes the message a [`fail`](Self::fail) without effects, whose error names
    /// the field.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{ActionKind, Command, Message};
    ///
    /// let message: Message = Message::complete().and_send("next", "next-1", Command::Run);
    /// assert_eq!(message.effects().send[0].task.as_str(), "next");
    /// let message: Message = Message::complete().and_send("a/b", "c", Command::Run);
    /// assert_eq!(message.kind(), ActionKind::Error);
    /// ```
    #[must_use]
    pub fn and_send<T, I>(self, task: T, id: I, command: Command) -> Self
    where
        T: TryInto<TaskId>,
        T::Error: Into<Invalid>,
        I: TryInto<CommandId>,
        I::Error: Into<Invalid>,
    {
        let task = task.try_into().map_err(Into::into);
        let send = task.and_then(|task| {
            let id = id.try_into().map_err(Into::into)?;
            Ok(SendCommand::new(task, id, command))
        });
        self.and_sent(send)
    }

    /// Adds a command that was read, or the failure of an invalid one.
    pub(crate) fn and_sent(mut self, send: Result<SendCommand, Invalid>) -> Self {
        match send {
            Ok(_) if self.body.refused => {}
            Ok(send) => self.body.effects.send.push(send),
            Err(e) => self.refuse("a command to send", &e),
        }
        self
    }

    /// Adds the deletion of another task with everything that belongs to it, in the same write as the
    /// transition: both happen, or neither. A task that a node has claimed is refused;
    /// [`and_force_delete`](Self::and_force_delete) deletes it too.
    ///
    /// An invalid id makes the message a [`fail`](Self::fail), as in [`and_send`](Self::and_send).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Message;
    ///
    /// let message: Message = Message::complete().and_delete("draft").and_retry("report");
    /// assert_eq!(message.effects().delete[0].task.as_str(), "draft");
    /// assert_eq!(message.effects().retry[0].task.as_str(), "report");
    /// ```
    #[must_use]
    pub fn and_delete(mut self, task: impl TryInto<TaskId, Error: Into<Invalid>>) -> Self {
        if let Some(task) = self.named("a task to delete", task) {
            self.body.effects.delete.push(task.into());
        }
        self
    }

    /// Adds a deletion like [`and_delete`](Self::and_delete), also for a task that a node has claimed: the node stops
    /// its handler.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Message;
    ///
    /// let message: Message = Message::complete().and_force_delete("draft");
    /// assert!(message.effects().delete[0].force);
    /// ```
    #[must_use]
    pub fn and_force_delete(mut self, task: impl TryInto<TaskId, Error: Into<Invalid>>) -> Self {
        if let Some(task) = self.named("a task to delete", task) {
            self.body.effects.delete.push(Delete::new(task).forced());
        }
        self
    }

    /// Adds an explicit retry of another task that has ended, in the same write as the transition: both
    /// happen, or neither.
    ///
    /// An invalid id makes the message a [`fail`](Self::fail), as in [`and_send`](Self::and_send). For an
    /// example see [`and_delete`](Self::and_delete).
    #[must_use]
    pub fn and_retry(mut self, task: impl TryInto<TaskId, Error: Into<Invalid>>) -> Self {
        if let Some(task) = self.named("a task to retry", task) {
            self.body.effects.retry.push(task.into());
        }
        self
    }

    /// Adds a retry like [`and_retry`](Self::and_retry), with other data or props for the task.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Json, Message, RetryTask};
    ///
    /// let corrected = RetryTask::new("report".parse()?).data(Json::parse("data", "7")?);
    /// let message: Message = Message::complete().and_retry_with(corrected);
    /// assert!(message.effects().retry[0].data.is_some());
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    #[must_use]
    pub fn and_retry_with(mut self, retry: RetryTask) -> Self {
        if !self.body.refused {
            self.body.effects.retry.push(retry);
        }
        self
    }

    /// Adds a change of another task that is not claimed (its due time, priority, kind, limits, data or props), in the
    /// same write as the transition: both happen, or neither.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Message, Reschedule};
    ///
    /// let first = Reschedule::new("report".parse()?).priority(5);
    /// let message: Message = Message::complete().and_reschedule(first);
    /// assert_eq!(message.effects().reschedule[0].priority, Some(5));
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    #[must_use]
    pub fn and_reschedule(mut self, change: Reschedule) -> Self {
        if !self.body.refused {
            self.body.effects.reschedule.push(change);
        }
        self
    }

    /// Adds a condition on another task. When it does not hold, the store refuses the message with all
    /// its effects, and the attempt has failed.
    ///
    /// An invalid id makes the message a [`fail`](Self::fail), as in [`and_send`](Self::and_send).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Message, Require, StateKind};
    ///
    /// let message: Message = Message::complete()
    ///     .and_require("order-7", Require::State(StateKind::Paused))
    ///     .and_delete("order-7");
    /// assert_eq!(message.effects().require[0].task.as_str(), "order-7");
    /// ```
    #[must_use]
    pub fn and_require(
        mut self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        require: Require,
    ) -> Self {
        if let Some(task) = self.named("a task to require", task) {
            self.body.effects.require.push(Guard { task, require });
        }
        self
    }

    /// Returns the task of an effect; `None` when the message takes no effects, or stops taking them
    /// because this id is invalid.
    fn named(
        &mut self,
        what: &str,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Option<TaskId> {
        match task.try_into() {
            Ok(task) => (!self.body.refused).then_some(task),
            Err(e) => {
                self.refuse(what, &e.into());
                None
            }
        }
    }

    /// Makes the message a failure, because an effect is invalid.
    fn refuse(&mut self, what: &str, error: &Invalid) {
        let data = self.body.data.take();
        *self = Self::fail(format_args!("{what} is invalid: {error}"));
        self.body.data = data;
        self.body.refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Task, Untyped};

    #[test]
    fn an_effect_with_a_bad_name_makes_the_message_a_failure() {
        let bad = || Message::<Untyped>::complete().and_send("a/b", "c", Command::Run);
        let message = bad().and_send("good", "c", Command::Run).with_data(&7);
        let Action::Error { error, retryable } = message.action() else {
            panic!("{message:?}")
        };
        assert!(
            error.starts_with("a command to send is invalid: id: 'a/b'"),
            "{error}"
        );
        assert!(!retryable);
        assert!(message.effects().is_empty());
        assert_eq!(message.data().unwrap().as_str(), "7");
        let task = Task::new("t".parse().unwrap(), "k".parse().unwrap());
        assert!(bad().and_submit(task).effects().is_empty());
    }

    #[test]
    fn each_effect_with_a_bad_id_names_what_it_is_and_the_field() {
        for (message, what) in [
            (
                Message::<Untyped>::run().and_delete("a/b"),
                "a task to delete",
            ),
            (Message::run().and_retry("a/b"), "a task to retry"),
            (
                Message::run().and_require("a/b", Require::Exists),
                "a task to require",
            ),
        ] {
            let change = Reschedule::new("c".parse().unwrap()).priority(1);
            let message = message
                .and_reschedule(change)
                .and_delete("c")
                .and_retry("c");
            let Action::Error { error, retryable } = message.action() else {
                panic!("{message:?}")
            };
            let expected = format!("{what} is invalid: id: 'a/b'");
            assert!(error.starts_with(&expected), "{error}");
            assert!(!retryable && message.effects().is_empty());
        }
    }
}
