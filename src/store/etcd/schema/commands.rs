//! Stored commands: queued ones, and those with an outcome.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    Author, Command, CommandId, Invalid, Note, Outcome, QueuedCommand, Signal, TaskId,
    command::NotedCommand,
};

use super::{
    json::{extended, parse, write},
    kv::KeyValue,
    numbers::number,
};
use crate::store::{ChangeKind, CommandRecord, Error, rules::kept_time::kept};

/// The largest result or payload, in bytes, that is kept with the outcome of a command.
const CONTENT_KEPT: usize = 4096;

/// The longest text, in characters, that a line of the history has of a command that cannot be read.
const MALFORMED_SHOWN: usize = 200;

/// The prefix of the names of commands from a Metafora commander's slot.
const SLOT: &str = "slot-";

/// The fields of a stored command in addition to its message.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Author>,
    #[serde(default, skip_serializing_if = "super::json::is_zero")]
    place: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    became: Option<Outcome>,
    /// The text of a command that a node could not read. A newer program may be able to.
    #[serde(default, skip_serializing)]
    malformed: Option<String>,
}

/// Returns whether a command that needs no handler is queued. A signal needs the handler, so it waits with a
/// task that a limit holds back.
pub(crate) fn has_order<'a>(queue: impl IntoIterator<Item = &'a Stored>) -> bool {
    let is_signal = |stored: &Stored| matches!(stored.command, Ok(Command::Signal(_)));
    queue.into_iter().any(|stored| !is_signal(stored))
}

/// A command, queued or with its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// The last part of its key; `None` for a Metafora commander's single slot.
    pub(crate) name: Option<String>,
    pub(crate) order: u64,
    pub(crate) revision: i64,
    /// The value of its key; with an outcome, the text of a command that a node could not read.
    pub(crate) text: String,
    pub(crate) command: Result<Command, String>,
    pub(crate) sent_at: Timestamp,
    pub(crate) by: Option<Author>,
    pub(crate) note: Option<Note>,
    pub(crate) became: Option<Outcome>,
}

impl Stored {
    /// Returns the value of `/NS/tasks/ID/commands/NAME`.
    pub(crate) fn write(
        command: &NotedCommand,
        at: Timestamp,
        (place, by): (u32, Option<&Author>),
    ) -> Result<String, Error> {
        let sent = Sent {
            sent_at: Some(kept(at)),
            by: by.cloned(),
            place,
            ..Sent::default()
        };
        Ok(extended(
            write("command", command)?,
            &write("command", &sent)?,
        ))
    }

    /// Returns the value of a command from another store, queued or with its outcome.
    pub(crate) fn of(command: &CommandRecord) -> Result<String, Error> {
        let sent = Sent {
            sent_at: Some(kept(command.sent_at)),
            by: command.by.clone(),
            place: 0,
            order: Some(command.order),
            became: command.outcome.clone(),
            malformed: None,
        };
        let text = write("command", &command.noted())?;
        Ok(extended(text, &write("command", &sent)?))
    }

    /// Returns the value of `/NS/outcomes/ID/NAME`. Leaves out a large result, which the state of the
    /// completed task contains, so that one write does not contain it twice. Also leaves out a large
    /// payload, because a large reply may be next to it.
    pub(crate) fn write_outcome(&self, outcome: Outcome) -> Result<String, Error> {
        let sent = Sent {
            sent_at: Some(self.sent_at),
            // Every command of the slot comes from Metafora.
            by: self.by.clone().filter(|_| self.name.is_some()),
            place: 0,
            order: Some(self.order),
            became: Some(outcome),
            malformed: None,
        };
        let noted = |command| write("command", &NotedCommand::new(command, self.note.clone()));
        let text = match &self.command {
            Ok(Command::Complete { result: Some(json) }) if json.len() > CONTENT_KEPT => {
                noted(Command::Complete { result: None })?
            }
            Ok(Command::Signal(signal))
                if signal
                    .payload_json()
                    .is_some_and(|p| p.len() > CONTENT_KEPT) =>
            {
                noted(Command::Signal(Signal::new(signal.name())))?
            }
            Ok(command) => noted(command.clone())?,
            Err(_) => write("command", &serde_json::json!({ "malformed": self.text }))?,
        };
        Ok(extended(text, &write("command", &sent)?))
    }

    pub(crate) fn read(name: Option<&str>, kv: &KeyValue) -> Self {
        let sent: Sent = parse(kv).unwrap_or_default();
        let malformed = sent.malformed.as_deref();
        let readable = malformed.and_then(|text| serde_json::from_str(text).ok());
        let noted = parse::<NotedCommand>(kv).or_else(|reason| readable.ok_or(reason));
        let (command, note) = match noted {
            Ok(NotedCommand { command, note }) => (Ok(command), note),
            Err(reason) => (Err(reason), None),
        };
        let text = match malformed {
            Some(text) => text.to_owned(),
            None => String::from_utf8_lossy(kv.value()).into_owned(),
        };
        let first = match name {
            Some(_) => kv.create_revision(),
            // Each write of the slot is a different command.
            None => kv.mod_revision(),
        };
        Self {
            name: name.map(str::to_owned),
            order: sent.order.unwrap_or_else(|| number(first, sent.place)),
            revision: kv.mod_revision(),
            text,
            command,
            note,
            sent_at: kept(sent.sent_at.unwrap_or(Timestamp::UNIX_EPOCH)),
            by: match name.is_none_or(|name| name.starts_with(SLOT)) {
                true => Some(Author::metafora()),
                false => sent.by,
            },
            became: sent.became,
        }
    }

    /// Returns the record for clients; `None` for a command that cannot be read.
    pub(crate) fn record(&self, task: &TaskId) -> Option<CommandRecord> {
        Some(CommandRecord {
            id: self.id().ok()?,
            task: task.clone(),
            order: self.order,
            command: self.command.clone().ok()?,
            sent_at: self.sent_at,
            by: self.by.clone(),
            note: self.note.clone(),
            outcome: self.became.clone(),
        })
    }

    /// Returns the line of the history that says that it was sent.
    pub(crate) fn change(&self) -> ChangeKind {
        let command = self.order;
        match &self.command {
            Ok(_) => ChangeKind::Commanded { command },
            Err(_) => ChangeKind::MalformedCommand {
                command,
                text: self.text.chars().take(MALFORMED_SHOWN).collect(),
            },
        }
    }

    /// Returns the name of the key of its outcome.
    pub(crate) fn key_name(&self) -> String {
        let slot = || format!("{SLOT}{}", self.order);
        self.name.clone().unwrap_or_else(slot)
    }

    pub(crate) fn id(&self) -> Result<CommandId, Invalid> {
        CommandId::new(self.key_name())
    }
}

/// Returns the commands that can be read.
pub(crate) fn reported(queue: &[Stored]) -> Vec<QueuedCommand> {
    let readable = queue.iter().filter_map(|stored| {
        let (id, command) = (stored.id().ok()?, stored.command.clone().ok()?);
        let queued = QueuedCommand::new(id, stored.order, command);
        Some(queued.by(stored.by.clone()).note(stored.note.clone()))
    });
    let mut commands: Vec<_> = readable.collect();
    commands.sort_by_key(|c| c.order);
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Stored {
        Stored::read(Some("c"), &KeyValue::new("p/c", text, 1))
    }

    #[test]
    fn a_command_that_an_older_node_could_not_read_is_read_with_its_outcome() {
        let waiting = r#"{"message":"signal","name":"go","payload":7}"#;
        let stored = serde_json::json!({
            "malformed": waiting,
            "became": { "outcome": "rejected", "reason": "no" },
        });
        let stored = read(&stored.to_string());
        let record = stored.record(&"t".parse().unwrap()).unwrap();
        assert_eq!(record.command, Command::signal("go", &7).unwrap());
        let reason = "no".to_owned();
        assert_eq!(record.outcome, Some(Outcome::Rejected { reason }));
        let unknown = read(r#"{"malformed":"dance"}"#);
        assert!(unknown.command.is_err());
        let what = |command, text: &str| ChangeKind::MalformedCommand {
            command,
            text: text.to_owned(),
        };
        assert_eq!(unknown.change(), what(unknown.order, "dance"));
        let long = "é".repeat(1000);
        let waiting = read(&long);
        assert_eq!(waiting.change(), what(waiting.order, &"é".repeat(200)));
    }

    #[test]
    fn a_large_payload_is_not_kept_with_the_outcome() {
        for (bytes, is_kept) in [(10, true), (5000, false)] {
            let command = Command::signal("go", &"x".repeat(bytes)).unwrap();
            let waiting = Stored::write(&command.into(), Timestamp::UNIX_EPOCH, (0, None)).unwrap();
            let ended = read(&waiting).write_outcome(Outcome::Unanswered).unwrap();
            let kept = read(&ended);
            assert_eq!(kept.became, Some(Outcome::Unanswered));
            let Ok(Command::Signal(signal)) = kept.command else {
                panic!("{ended}")
            };
            assert_eq!(signal.payload_json().is_some(), is_kept);
        }
    }
}
