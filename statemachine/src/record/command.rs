//! The stored forms of a command and of its outcome.

#[cfg(feature = "schema")]
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    ActionKind, Command, Invalid, Json, Note, Outcome, Signal, StateKind, command::NotedCommand,
};

/// A command for one task.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct CommandRecord {
    /// The name of the command: every message but `error`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::CommandName"))]
    message: String,
    /// When a `sleep` ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Timestamp>"))]
    until: Option<String>,
    /// The result of a `complete`: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    result: Option<Json>,
    /// The name of a `signal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The value of a `signal`: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    payload: Option<Json>,
    /// Why it was sent: one line of up to 500 bytes.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::note::stored"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    note: Option<Note>,
}

impl CommandRecord {
    fn plain(message: String) -> Self {
        Self {
            message,
            until: None,
            result: None,
            name: None,
            payload: None,
            note: None,
        }
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CommandRecord::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = CommandRecord::deserialize(deserializer)?;
        Self::try_from(record).map_err(serde::de::Error::custom)
    }
}

impl Serialize for NotedCommand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = CommandRecord::from(self.command.clone());
        record.note.clone_from(&self.note);
        record.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NotedCommand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut record = CommandRecord::deserialize(deserializer)?;
        let note = record.note.take();
        let command = Command::try_from(record).map_err(serde::de::Error::custom)?;
        Ok(Self { command, note })
    }
}

impl From<Command> for CommandRecord {
    fn from(command: Command) -> Self {
        let mut record = Self::plain(command.kind().as_str().to_owned());
        match command {
            Command::Sleep { until } => record.until = Some(until.to_string()),
            Command::Complete { result } => record.result = result,
            Command::Signal(signal) => {
                record.name = Some(signal.name().to_owned());
                record.payload = signal.payload_json().cloned();
            }
            _ => {}
        }
        record
    }
}

impl TryFrom<CommandRecord> for Command {
    type Error = Invalid;

    fn try_from(record: CommandRecord) -> Result<Self, Invalid> {
        Ok(match record.message.parse::<ActionKind>()? {
            ActionKind::Run => Self::Run,
            ActionKind::Sleep => Self::Sleep {
                until: match record.until {
                    Some(text) => crate::time::parse("until", &text)?,
                    None => {
                        let reason = "is missing; a sleep needs a time to wake";
                        return Err(Invalid::new("until", reason));
                    }
                },
            },
            ActionKind::Pause => Self::Pause,
            ActionKind::Release => Self::Release,
            ActionKind::Checkpoint => Self::Checkpoint,
            ActionKind::Complete => Self::Complete {
                result: record.result,
            },
            ActionKind::Kill => Self::Kill,
            ActionKind::Signal => {
                let missing = || Invalid::new("name", "is missing; a signal needs a name");
                let signal = Signal::new(record.name.ok_or_else(missing)?);
                Self::Signal(match record.payload {
                    Some(payload) => signal.with_json(payload),
                    None => signal,
                })
            }
            ActionKind::Error => {
                return Err(Invalid::new(
                    "message",
                    "'error' is a handler's to return; send kill to end a task",
                ));
            }
        })
    }
}

/// The outcome of a command.
// Flat, because a JSON document is kept as its text only at the top level.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct OutcomeRecord {
    /// What happened.
    outcome: OutcomeKind,
    /// The state before, of `applied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<StateKind>,
    /// The state after, of `applied`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<StateKind>,
    /// The message that the handler returned instead, of `overridden`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<ActionKind>,
    /// Why the task does not take the command, of `rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The reply of the handler, of `answered`: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    reply: Option<Json>,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum OutcomeKind {
    /// The task has taken the command.
    Applied,
    /// The command was delivered to the handler, which returned another message.
    Overridden,
    /// The task does not take the command.
    Rejected,
    /// The handler has replied to the signal.
    Answered,
    /// The handler had the signal, and returned without a reply.
    Unanswered,
}

impl From<Outcome> for OutcomeRecord {
    fn from(outcome: Outcome) -> Self {
        let of = |outcome| Self {
            outcome,
            from: None,
            to: None,
            by: None,
            reason: None,
            reply: None,
        };
        match outcome {
            Outcome::Applied { from, to } => Self {
                from: Some(from),
                to: Some(to),
                ..of(OutcomeKind::Applied)
            },
            Outcome::Overridden { by } => Self {
                by: Some(by),
                ..of(OutcomeKind::Overridden)
            },
            Outcome::Rejected { reason } => Self {
                reason: Some(reason),
                ..of(OutcomeKind::Rejected)
            },
            Outcome::Answered { reply } => Self {
                reply: Some(reply),
                ..of(OutcomeKind::Answered)
            },
            Outcome::Unanswered => of(OutcomeKind::Unanswered),
        }
    }
}

impl TryFrom<OutcomeRecord> for Outcome {
    type Error = Invalid;

    fn try_from(record: OutcomeRecord) -> Result<Self, Invalid> {
        let missing = |field| Invalid::new(field, "is missing in an outcome");
        Ok(match record.outcome {
            OutcomeKind::Applied => Self::Applied {
                from: record.from.ok_or_else(|| missing("from"))?,
                to: record.to.ok_or_else(|| missing("to"))?,
            },
            OutcomeKind::Overridden => Self::Overridden {
                by: record.by.ok_or_else(|| missing("by"))?,
            },
            OutcomeKind::Rejected => Self::Rejected {
                reason: record.reason.ok_or_else(|| missing("reason"))?,
            },
            OutcomeKind::Answered => Self::Answered {
                reply: record.reply.unwrap_or_else(Json::null),
            },
            OutcomeKind::Unanswered => Self::Unanswered,
        })
    }
}
