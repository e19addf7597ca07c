//! [`SendCommand`]: a command on its way to a task.

use crate::{Command, CommandId, Note, TaskId, command::NotedCommand};

/// A command that is sent to a task.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Command, CommandId, Note, message::SendCommand};
///
/// let send = SendCommand::new("report".parse()?, CommandId::new("c1")?, Command::Pause);
/// let noted = send.note(Note::new("the database moves")?);
/// assert_eq!(noted.note.unwrap().as_str(), "the database moves");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendCommand {
    /// The task it goes to.
    pub task: TaskId,
    /// The id of the command. Sending a command again with the same id is the same command.
    pub id: CommandId,
    /// The command.
    pub command: Command,
    /// Why it is sent; `None` by default.
    pub note: Option<Note>,
}

impl SendCommand {
    /// Returns a command without a note.
    pub fn new(task: TaskId, id: CommandId, command: Command) -> Self {
        let note = None;
        Self {
            task,
            id,
            command,
            note,
        }
    }

    /// Sets why it is sent.
    #[must_use]
    pub fn note(mut self, note: impl Into<Option<Note>>) -> Self {
        self.note = note.into();
        self
    }

    /// Returns the command with its note, as stores keep it.
    pub fn noted(&self) -> NotedCommand {
        NotedCommand::new(self.command.clone(), self.note.clone())
    }
}
