//! [`Effects`]: tasks and commands in the same write as a transition, and how a message gets them.

use std::time::Duration;

use jiff::Timestamp;

use super::{Message, Wake};
use crate::{Command, CommandId, Invalid, Task, TaskId};

/// A command that is sent to a task as an effect of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendCommand {
    /// The task it goes to.
    pub task: TaskId,
    /// The id of the command; sending the same id again is the same command.
    pub id: CommandId,
    /// The command.
    pub command: Command,
}

/// A task that is submitted as an effect of a transition. A [`Task`] converts, and so does a `NewTask`
/// of the library.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitTask {
    /// The task.
    pub task: Task,
    /// The task starts this long after the message is applied, whatever its `start_at` says; `None` to
    /// leave `start_at` as it is.
    pub start_in: Option<Duration>,
}

impl From<Task> for SubmitTask {
    fn from(task: Task) -> Self {
        let start_in = None;
        Self { task, start_in }
    }
}

/// Tasks and commands that are submitted and sent in the same atomic write as a transition, or not at
/// all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    /// Tasks to submit.
    pub submit: Vec<Task>,
    /// Commands to send to other tasks.
    pub send: Vec<SendCommand>,
}

impl Effects {
    /// Returns whether there are no effects.
    pub fn is_empty(&self) -> bool {
        self.submit.is_empty() && self.send.is_empty()
    }
}

impl Message {
    /// The same message, which also submits a task: in the same write, or not at all.
    ///
    /// A task that is invalid makes the message a [`fail`](Self::fail) without effects, whose error
    /// names the field.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass_statemachine::{ActionKind, Message, Task, message::SubmitTask};
    ///
    /// let task = Task::new("reminder-7".parse()?, "mail".parse()?);
    /// let tomorrow = SubmitTask { task, start_in: Some(Duration::from_secs(86_400)) };
    /// let message = Message::complete().and_submit(tomorrow);
    /// assert_eq!(message.effects().submit.len(), 1);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    #[must_use]
    pub fn and_submit<T>(mut self, task: T) -> Self
    where
        T: TryInto<SubmitTask>,
        T::Error: Into<Invalid>,
    {
        match task.try_into() {
            Ok(_) if self.refused => {}
            Ok(SubmitTask { task, start_in }) => {
                let at = self.effects.submit.len();
                self.starts.extend(start_in.map(|wait| (at, wait)));
                self.effects.submit.push(task);
            }
            Err(e) => self.refuse("a task to submit", &e.into()),
        }
        self
    }

    /// The same message, which also sends a command to another task: in the same write, or not
    /// at all. Ids are names or what converts to one, such as text.
    ///
    /// An id that is invalid makes the message a [`fail`](Self::fail) without effects, whose error
    /// names the field.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{ActionKind, Command, Message};
    ///
    /// let message = Message::complete().and_send("next", "next-1", Command::Run);
    /// assert_eq!(message.effects().send[0].task.as_str(), "next");
    /// let message = Message::complete().and_send("a/b", "c", Command::Run);
    /// assert_eq!(message.kind(), ActionKind::Error);
    /// ```
    #[must_use]
    pub fn and_send<T, I>(mut self, task: T, id: I, command: Command) -> Self
    where
        T: TryInto<TaskId>,
        T::Error: Into<Invalid>,
        I: TryInto<CommandId>,
        I::Error: Into<Invalid>,
    {
        let task = task.try_into().map_err(Into::into);
        let send = task.and_then(|task| {
            let id = id.try_into().map_err(Into::into)?;
            Ok(SendCommand { task, id, command })
        });
        match send {
            Ok(_) if self.refused => {}
            Ok(send) => self.effects.send.push(send),
            Err(e) => self.refuse("a command to send", &e),
        }
        self
    }

    /// Makes the message a failure, for an effect that cannot be carried out.
    fn refuse(&mut self, what: &str, error: &Invalid) {
        let data = self.data.take();
        *self = Self::fail(format_args!("{what} is invalid: {error}"));
        self.data = data;
        self.refused = true;
    }

    /// Sets the start of each submitted task that starts after a while.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `start_in`) when one is beyond the year 9999.
    pub(crate) fn resolve_starts(&mut self, now: Timestamp) -> Result<(), Invalid> {
        for (at, wait) in std::mem::take(&mut self.starts) {
            let start = Wake::After(wait).resolve(now);
            let beyond = "is beyond the year 9999; start the task sooner";
            let start = start.map_err(|_| Invalid::new("start_in", beyond))?;
            if let Some(task) = self.effects.submit.get_mut(at) {
                task.start_at = Some(start);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;

    #[test]
    fn an_effect_with_a_bad_name_makes_the_message_a_failure() {
        let bad = || Message::complete().and_send("a/b", "c", Command::Run);
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
}
