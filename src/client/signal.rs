//! Signals to tasks, and their replies: [`Client::signal`].

use serde::{Serialize, de::DeserializeOwned};
use windlass_statemachine::{
    ActionKind, Command, CommandId, Invalid, Json, Outcome, Signal, TaskId, message::SendCommand,
};

use super::{Client, name, only};
use crate::store::Error;

/// Why there is no reply to a signal.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// The handler received the signal, and returned without a reply.
    #[error("the handler returned without a reply to the signal")]
    Unanswered,
    /// The task rejected the signal: it had ended, or its kind does not accept signals. The text is
    /// the reason.
    #[error("the signal was rejected: {0}")]
    Rejected(String),
    /// The reply is of another type.
    #[error("the task replied, but its reply cannot be read: {0}")]
    Unreadable(#[source] Invalid),
    /// The signal was not sent, or its outcome is not known. [`Error::NotFound`]: the task does not exist,
    /// or was deleted in the meantime. [`Error::AlreadyFinished`]: the task has ended.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<Invalid> for SignalError {
    fn from(invalid: Invalid) -> Self {
        Self::Store(invalid.into())
    }
}

impl Client {
    /// Sends a signal to a task, and waits for the reply of its handler. The signal wakes a task that
    /// sleeps or is paused.
    ///
    /// The wait has no time limit: a task may take the signal days later. Dropping the future does not
    /// withdraw the signal. To wait for the reply in another process, send the signal under an id of
    /// your choice ([`command_with_id`](Self::command_with_id) with [`Command::signal`]), and call
    /// [`reply`](Self::reply) there.
    ///
    /// # Errors
    ///
    /// [`SignalError`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{BoxError, Client, Command, Message, NewTask, Runner, TaskContext};
    /// use windlass::{client::SignalError, store::Store};
    ///
    /// /// Pauses until it is approved.
    /// async fn deploy(task: TaskContext) -> Result<Message, BoxError> {
    ///     let commands = task.commands();
    ///     loop {
    ///         tokio::select! {
    ///             biased;
    ///             Some(command) = commands.next() => {
    ///                 if let Command::Signal(signal) = command {
    ///                     return Ok(Message::complete().answer(&signal, &"deployed"));
    ///                 }
    ///             }
    ///             stop = task.stop_requested() => return Ok(stop.message()),
    ///             () = std::future::ready(()) => return Ok(Message::pause()),
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let store = Store::open("memory:").await?;
    /// let runner = Runner::builder(&store).handler("deploy", deploy).start().await?;
    /// let client = Client::new(&store);
    /// let id = client.submit(NewTask::new("deploy")).await?;
    /// let reply: String = client.signal(&id, "approve", &"ann").await?;
    /// assert_eq!(reply, "deployed");
    /// let refused = client.signal::<()>(&id, "approve", &"bob").await;
    /// assert!(matches!(refused, Err(SignalError::Store(_))), "it has ended");
    /// # runner.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn signal<T: DeserializeOwned>(
        &self,
        task: impl TryInto<TaskId, Error: Into<Invalid>>,
        name: &str,
        payload: &(impl Serialize + ?Sized + Sync),
    ) -> Result<T, SignalError> {
        let command = Command::signal(name, payload)?;
        let id = self.command(task, command).await?;
        self.reply(&id).await
    }

    /// Waits for the reply to a signal that was sent under this id.
    ///
    /// # Errors
    ///
    /// [`SignalError`]; [`Error::Invalid`] (field `command`) for the id of a command that is not a
    /// signal.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{BoxError, Client, Command, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let id = client.submit(NewTask::new("deploy")).await?;
    /// client.command_with_id(&id, "approval-7", Command::signal("approve", &true)?).await?;
    /// // No node runs: the signal waits, and a later call waits for its reply.
    /// let reply = client.reply::<bool>("approval-7");
    /// assert!(tokio::time::timeout(Duration::from_millis(10), reply).await.is_err());
    /// assert_eq!(client.outcome("approval-7").await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn reply<T: DeserializeOwned>(
        &self,
        id: impl TryInto<CommandId, Error: Into<Invalid>>,
    ) -> Result<T, SignalError> {
        let id: CommandId = name(id)?;
        let record = self.store().registry().command(&id).await?;
        if record.command.kind() != ActionKind::Signal {
            let reason = format!("'{id}' is {}, not a signal", record.command.kind());
            return Err(Invalid::new("command", reason).into());
        }
        let reply: Json = match self.wait_outcome(&id).await? {
            Outcome::Answered { reply } => reply,
            Outcome::Rejected { reason } => return Err(SignalError::Rejected(reason)),
            _ => return Err(SignalError::Unanswered),
        };
        reply.get("reply").map_err(SignalError::Unreadable)
    }

    /// Sends a command whose id may have been sent before.
    pub(super) async fn send_again(&self, send: SendCommand) -> Result<(), Error> {
        let sent = self.noted(send.clone());
        only(self.send_each(vec![send]).await)?;
        self.check_sent(&sent).await
    }

    /// Refuses the id of a command that was sent with another content: a store keeps the first one, and takes the second one
    /// for its repetition. Of `sleep` and `complete` the time and the result are not compared. The author does not count.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] with the field that differs (`task`, `command`, `name`, `payload`, `note`); [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Command, NewTask, store::{SendCommand, Store}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("poll").id("a")).await?;
    /// client.command_with_id("a", "c1", Command::Pause).await?;
    /// let kill = SendCommand::new("a".parse()?, "c1".parse()?, Command::Kill);
    /// assert!(client.check_sent(&kill).await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn check_sent(&self, send: &SendCommand) -> Result<(), Error> {
        let there = match self.store().registry().command(&send.id).await {
            Ok(there) => there,
            // The id is new, or its command was deleted with its task.
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let id = &send.id;
        if there.task != send.task {
            let reason = format!(
                "is another one than that of command '{id}', which was sent before; give a new id"
            );
            return Err(Invalid::new("task", reason).into());
        }
        if let Command::Signal(signal) = &send.command {
            check_repeats(id, &there.command, signal)?;
        } else if there.command.kind() != send.command.kind() {
            let reason = format!(
                "'{id}' is the id of a {}, which was sent before; give a new id",
                there.command.kind()
            );
            return Err(Invalid::new("command", reason).into());
        }
        if there.note != send.note {
            let reason = format!(
                "of command '{id}' is another one than when it was sent before; give a new id"
            );
            return Err(Invalid::new("note", reason).into());
        }
        Ok(())
    }
}

/// Refuses the id of a command other than this signal: a store treats a known id as a repeat.
fn check_repeats(id: &CommandId, sent: &Command, signal: &Signal) -> Result<(), Error> {
    let other = |field, was: String| {
        let reason = format!(
            "of signal '{id}' is another one than that of the {was} which was sent under this id; give a \
                 new id"
        );
        Err(Invalid::new(field, reason).into())
    };
    let Command::Signal(sent) = sent else {
        return other("command", format!("command {}", sent.kind()));
    };
    if sent.name() != signal.name() {
        return other("name", format!("signal '{}'", sent.name()));
    }
    let is_same = match (sent.payload_json(), signal.payload_json()) {
        (None, None) => true,
        (Some(sent), Some(new)) => sent.same_value(new),
        _ => false,
    };
    match is_same {
        true => Ok(()),
        false => other("payload", "signal".to_owned()),
    }
}
