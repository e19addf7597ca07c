//! [`NotedCommand`]: the stored form of a command with its note.

use crate::{Command, Note};

/// A command with the note of its sender, as stores keep it: the JSON of the [`Command`], with the field `note`.
///
/// A program that knows no notes reads the command and ignores the note. A note that cannot be read is left out, and
/// the command stays.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Command, command::NotedCommand};
///
/// let text = r#"{"message":"pause","note":"the database moves"}"#;
/// let read: NotedCommand = serde_json::from_str(text)?;
/// assert_eq!(read.command, Command::Pause);
/// assert_eq!(read.note.as_ref().unwrap().as_str(), "the database moves");
/// assert_eq!(serde_json::to_string(&read)?, text);
/// assert_eq!(serde_json::from_str::<Command>(text)?, Command::Pause);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedCommand {
    /// The command.
    pub command: Command,
    /// Why it was sent, if its sender wrote a note.
    pub note: Option<Note>,
}

impl NotedCommand {
    /// Returns a command with the note of its sender.
    pub fn new(command: Command, note: Option<Note>) -> Self {
        Self { command, note }
    }
}

impl From<Command> for NotedCommand {
    fn from(command: Command) -> Self {
        Self::new(command, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another program may have written it: the command is more important than its note.
    #[test]
    fn a_note_that_cannot_be_read_leaves_the_command() {
        for note in ["\"\"", "7", "null", "{\"a\":1}", "\"a\\nb\""] {
            let text = format!(r#"{{"message":"kill","note":{note}}}"#);
            let read: NotedCommand = serde_json::from_str(&text).unwrap();
            assert_eq!(read, NotedCommand::from(Command::Kill), "{text}");
        }
    }

    #[test]
    fn a_payload_keeps_its_digits_beside_a_note() {
        let text = r#"{"message":"signal","name":"go","payload":9007199254740993.10,"note":"n"}"#;
        let read: NotedCommand = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
