//! The notes of commands: those that a client gives its commands, and those that a history shows.

use std::collections::HashMap;

use windlass_statemachine::{Note, message::SendCommand};

use super::Client;
use crate::store::{Change, ChangeKind, CommandRecord};

impl Client {
    /// Returns the same client for commands that are sent for this reason. Each command that it sends has the note, unless
    /// the caller gives the command another one.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, Command, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let id = client.submit(NewTask::new("report")).await?;
    /// let noted = client.clone().with_note("the database moves".parse::<windlass::Note>()?);
    /// noted.command(&id, Command::Pause).await?;
    /// let note = client.commands(&id).await?[0].note.clone();
    /// assert_eq!(note.unwrap().as_str(), "the database moves");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_note(mut self, note: impl Into<Option<Note>>) -> Self {
        self.note = note.into();
        self
    }

    /// Gives a command without a note that of this client.
    pub(super) fn noted(&self, mut send: SendCommand) -> SendCommand {
        send.note = send.note.or_else(|| self.note.clone());
        send
    }

    /// Returns the note of the commands that this client sends.
    pub fn note(&self) -> Option<&Note> {
        self.note.as_ref()
    }
}

/// Adds the notes of commands to the changes that say that they were sent.
pub(super) fn add(history: &mut [Change], commands: &[CommandRecord]) {
    let notes = commands
        .iter()
        .filter_map(|sent| Some((sent.order, sent.note.as_ref()?)));
    let notes: HashMap<u64, &Note> = notes.collect();
    for change in history {
        if let ChangeKind::Commanded { command } = change.what {
            change.note = notes.get(&command).map(|note| (*note).clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windlass_statemachine::{Command, QueuedCommand};

    use super::*;

    #[test]
    fn only_the_line_of_a_command_with_a_note_gets_one() {
        let at = Timestamp::UNIX_EPOCH;
        let sent = |order, note: Option<&str>| {
            let queued =
                QueuedCommand::new(format!("c{order}").parse().unwrap(), order, Command::Pause);
            let note: Option<Note> = note.map(|note| note.parse().unwrap());
            CommandRecord::new("a".parse().unwrap(), queued.note(note), at)
        };
        let line = |what| Change::new(1, at, "a".parse().unwrap(), what);
        let mut history = [
            line(ChangeKind::Retried),
            line(ChangeKind::Commanded { command: 3 }),
            line(ChangeKind::Commanded { command: 4 }),
        ];
        add(&mut history, &[sent(3, Some("n")), sent(4, None)]);
        let notes = history.map(|change| change.note.map(|note| note.to_string()));
        assert_eq!(notes, [None, Some("n".to_owned()), None]);
    }
}
