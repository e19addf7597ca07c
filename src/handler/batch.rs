//! [`TaskBatch`]: several tasks of one kind for one call of a handler.

use std::fmt::Display;

use futures::future::{FutureExt, select_all};
use windlass_statemachine::Message;

use super::{context::TaskContext, returned::failed, signals::Stop};

/// Tasks that a batch handler ([`Builder::batch_handler`](crate::runner::Builder::batch_handler)) works on in one call:
/// at least one.
#[derive(Debug)]
pub struct TaskBatch {
    tasks: Vec<TaskContext>,
}

impl TaskBatch {
    /// `tasks` has at least one.
    pub(crate) fn new(tasks: Vec<TaskContext>) -> Self {
        Self { tasks }
    }

    /// Returns the tasks, in the order in which they were claimed.
    pub fn tasks(&self) -> &[TaskContext] {
        &self.tasks
    }

    /// Returns one message for each task: the form of [`IntoMessages`] for a handler whose tasks have different outcomes.
    pub fn each(&self, message: impl FnMut(&TaskContext) -> Message) -> Vec<Message> {
        self.tasks.iter().map(message).collect()
    }

    /// Resolves when one of the tasks should stop, with its place in [`tasks`](Self::tasks) and the reason. A task that
    /// does not stop within the grace of its kind is taken out of the batch: its message has no effect.
    pub async fn stop_requested(&self) -> (usize, Stop) {
        let stops = self.tasks.iter().map(|task| task.stop_requested().boxed());
        let (stop, at, _) = select_all(stops).await;
        (at, stop)
    }
}

/// A value that a batch handler may return: a [`Message`] for every task, one message for each task in their order, or a
/// `Result` of either, whose error becomes the Error message of every task.
///
/// A list of another length fails the attempts of all tasks.
pub trait IntoMessages {
    /// Converts the value into messages for this number of tasks.
    fn into_messages(self, tasks: usize) -> Vec<Message>;
}

impl IntoMessages for Message {
    fn into_messages(self, tasks: usize) -> Vec<Message> {
        vec![self; tasks]
    }
}

impl IntoMessages for Vec<Message> {
    fn into_messages(self, tasks: usize) -> Vec<Message> {
        if self.len() == tasks {
            return self;
        }
        let error = format!(
            "the batch handler returned {} messages for {tasks} tasks; return one for each",
            self.len()
        );
        vec![Message::error(error); tasks]
    }
}

impl<T: IntoMessages, E: Display> IntoMessages for Result<T, E> {
    fn into_messages(self, tasks: usize) -> Vec<Message> {
        match self {
            Ok(messages) => messages.into_messages(tasks),
            Err(error) => failed::<windlass_statemachine::Untyped>(error).into_messages(tasks),
        }
    }
}
