//! [`Pause`]: who paused a task, and what the pause interrupted.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Author, Note, QueuedCommand, TaskState, TaskStatus, waits::NO_DEADLINE};

/// Who paused a task, why, and what the pause interrupted. The state of a paused task has it, unless a program that does not know it wrote the
/// state.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Author, Command, CommandId, QueuedCommand, state::Pause};
///
/// let sent = QueuedCommand::new(CommandId::new("c1")?, 7, Command::Pause).by(Author::new("alice")?);
/// let pause = Pause::of(&sent);
/// assert_eq!((pause.command, pause.to_string()), (Some(7), "alice".to_owned()));
/// assert_eq!(Pause::by_handler().to_string(), "its handler");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Pause {
    /// The order of the command that paused the task; absent when its handler paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<u64>,
    /// Who sent the command, if the sender named an author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// Why the command was sent, if its sender wrote a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// When the task was to wake, if it slept until a time. A resume runs it at once, also before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the task waited for other tasks. A resume runs it without waiting for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
}

impl Pause {
    /// Returns the pause by a command.
    pub fn of(command: &QueuedCommand) -> Self {
        Self {
            command: Some(command.order),
            by: command.by.clone(),
            note: command.note.clone(),
            ..Self::default()
        }
    }

    /// Returns the pause by the handler of the task.
    pub fn by_handler() -> Self {
        Self::default()
    }

    /// Adds what the pause of a task in this state interrupts. A second pause adds what the first one interrupted.
    pub(crate) fn interrupting(mut self, state: &TaskState) -> Self {
        match (&state.status, &state.paused) {
            (TaskStatus::Sleeping { until }, _) => {
                self.until = Some(*until).filter(|until| *until != NO_DEADLINE);
                self.waited = state.is_waiting();
            }
            (TaskStatus::Paused, Some(first)) => {
                (self.until, self.waited) = (first.until, first.waited);
            }
            _ => {}
        }
        self
    }
}

impl std::fmt::Display for Pause {
    /// Writes who paused the task, and the note: `alice: the database moves`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.by, self.command) {
            (Some(by), _) => write!(f, "{by}")?,
            (None, Some(command)) => write!(f, "command {command}")?,
            (None, None) => f.write_str("its handler")?,
        }
        match &self.note {
            Some(note) => write!(f, ": {note}"),
            None => Ok(()),
        }
    }
}
