//! Commands to tasks, and their outcomes.

use std::time::Duration;

use windlass_statemachine::{Command, CommandId, Invalid, Outcome, TaskId, Wake};

use super::{Client, name, only};
use crate::store::{CommandRecord, Error, SendCommand};

impl Client {
    /// Sends a command to a task, and returns the id of the command. The command stays in the queue
    /// until a node claims the task, and gets exactly one outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (a sleep that ends in the past), [`Error::NotFound`],
    /// [`Error::AlreadyFinished`], [`Error::Unavailable`].
    pub async fn command(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        command: Command,
    ) -> Result<CommandId, Error> {
        let id = CommandId::new(crate::unique_id::new().to_string())?;
        let send = SendCommand::new(name(task)?, id.clone(), command);
        only(self.send_each(vec![send]).await)?;
        Ok(id)
    }

    /// Sends a command like [`command`](Self::command), with an id of your choice. Sending the same
    /// id again has no further effect, even when the time of a sleep has passed in the meantime.
    ///
    /// # Errors
    ///
    /// The errors of [`command`](Self::command); [`Error::Invalid`] (field `name`, `payload` or `command`)
    /// for a signal whose id was given to another command of the task.
    pub async fn command_with_id(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        id: impl TryInto<CommandId, Error: Into<Invalid>>,
        command: Command,
    ) -> Result<(), Error> {
        // The store checks only a command whose id is new: the time of a repeated one may have passed.
        let send = SendCommand::new(name(task)?, name(id)?, command);
        self.send_again(send).await
    }

    /// Lets a task sleep for this long from now, by the store's clock. [`Command::Sleep`] takes a
    /// time instead.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `until`) for a duration of zero, and for an end after `9999-12-30T22:00:00Z`; and the
    /// errors of [`command`](Self::command).
    pub async fn sleep_for(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        wait: Duration,
    ) -> Result<CommandId, Error> {
        let until = Wake::After(wait).resolve(self.store.clock().now())?;
        self.command(task, Command::Sleep { until }).await
    }

    /// Sends a command to many tasks, and returns the ids of the commands in the order of the tasks.
    /// Each succeeds or fails on its own.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the command itself is invalid. Errors of single tasks are in the
    /// returned list.
    pub async fn command_many(
        &self,
        tasks: &[TaskId],
        command: Command,
    ) -> Result<Vec<Result<CommandId, Error>>, Error> {
        command.check(self.store.clock().now())?;
        let mut ids = Vec::with_capacity(tasks.len());
        let mut sends = Vec::with_capacity(tasks.len());
        for task in tasks {
            let id = CommandId::new(crate::unique_id::new().to_string())?;
            ids.push(id.clone());
            sends.push(SendCommand::new(task.clone(), id, command.clone()));
        }
        let answers = self.send_each(sends).await;
        let answers = answers.into_iter().zip(ids);
        Ok(answers.map(|(answer, id)| answer.map(|_| id)).collect())
    }

    /// Returns the outcome of a command; `None` while it is in the queue.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] (also after its task was deleted), [`Error::Unavailable`].
    pub async fn outcome(
        &self,
        id: impl TryInto<CommandId, Error: Into<Invalid>>,
    ) -> Result<Option<Outcome>, Error> {
        let id = name(id)?;
        Ok(self.store.registry().command(&id).await?.outcome)
    }

    /// Returns the commands of a task, in order, including those that have an outcome.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn commands(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
    ) -> Result<Vec<CommandRecord>, Error> {
        self.store.registry().commands(&name(task)?).await
    }
}
