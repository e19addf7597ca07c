//! [`Command`]: what an operator or a program sends to one task, and its [`Outcome`].

mod noted;

pub use noted::NotedCommand;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Action, ActionKind, Author, CommandId, Invalid, Json, Message, Note, Signal, StateKind,
    message::Wake, record::OutcomeRecord,
};

/// A command that an operator may send to a task: every message except Error, plus signals.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Command;
///
/// let command: Command = serde_json::from_str(r#"{"message":"pause"}"#)?;
/// assert_eq!(command, Command::Pause);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Runs the task: wakes a sleeping one, resumes a paused one.
    Run,
    /// Lets the task sleep until a time.
    Sleep {
        /// When to wake.
        until: Timestamp,
    },
    /// Pauses the task until the next command.
    Pause,
    /// Releases the claim.
    Release,
    /// Persists the data of a running handler now. It never stops the handler.
    Checkpoint,
    /// Ends the task as completed.
    Complete {
        /// The result of the task.
        result: Option<Json>,
    },
    /// Ends the task for good, as killed.
    Kill,
    /// Delivers a value to the handler, which replies to it. It wakes a task that sleeps or is
    /// paused.
    Signal(Signal),
}

impl Command {
    /// Returns a command that sends a signal with a payload.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `payload`) for a value without a JSON form. [`check`](Self::check) reports all
    /// other errors.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Command;
    ///
    /// let command = Command::signal("interval", &30)?;
    /// let text = serde_json::to_string(&command).unwrap();
    /// assert_eq!(text, r#"{"message":"signal","name":"interval","payload":30}"#);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn signal<T: Serialize + ?Sized>(
        name: impl Into<String>,
        payload: &T,
    ) -> Result<Self, Invalid> {
        Ok(Self::Signal(Signal::new(name).with_payload(payload)?))
    }

    /// Returns the name of the command.
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Run => ActionKind::Run,
            Self::Sleep { .. } => ActionKind::Sleep,
            Self::Pause => ActionKind::Pause,
            Self::Release => ActionKind::Release,
            Self::Checkpoint => ActionKind::Checkpoint,
            Self::Complete { .. } => ActionKind::Complete,
            Self::Kill => ActionKind::Kill,
            Self::Signal(_) => ActionKind::Signal,
        }
    }

    /// Returns the message that carries the command out. A handler may return it unchanged. That of
    /// a signal is Run: it wakes the task, and the handler replies.
    pub fn to_message<J>(&self) -> Message<J> {
        match self {
            Self::Run | Self::Signal(_) => Action::Run,
            Self::Sleep { until } => Action::Sleep {
                until: Wake::At(*until),
            },
            Self::Pause => Action::Pause,
            Self::Release => Action::Release,
            Self::Checkpoint => Action::Checkpoint,
            Self::Complete { result } => Action::Complete {
                result: result.clone(),
            },
            Self::Kill => Action::Kill,
        }
        .into()
    }

    /// Returns whether a handler that ignores the command is aborted at the end of its grace. False
    /// for Run, Checkpoint and signals: a running handler need not stop for them.
    pub fn aborts(&self) -> bool {
        !matches!(self, Self::Run | Self::Checkpoint | Self::Signal(_))
    }

    /// Checks the command when it is sent.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: field `until` for a sleep that would end in the past, field `result` for one that is
    /// nested too deep ([`Json::check_depth`]), those of [`Signal::check`] for a signal.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        match self {
            Self::Sleep { until } if *until <= now => Err(Invalid::new(
                "until",
                format!("{until} is in the past; give a time after {now}, or send run"),
            )),
            Self::Complete {
                result: Some(result),
            } => result.check_depth("result"),
            Self::Signal(signal) => signal.check(),
            _ => Ok(()),
        }
    }
}

/// A command in the queue of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedCommand {
    /// Its place: commands of a task are applied in this order.
    pub order: u64,
    /// Its id.
    pub id: CommandId,
    /// The command.
    pub command: Command,
    /// Who sent it, if the sender named an author.
    pub by: Option<Author>,
    /// Why it was sent, if its sender wrote a note.
    pub note: Option<Note>,
}

impl QueuedCommand {
    /// Returns a command with its place and its id, without an author and without a note.
    pub fn new(id: CommandId, order: u64, command: Command) -> Self {
        let (by, note) = (None, None);
        Self {
            order,
            id,
            command,
            by,
            note,
        }
    }

    /// Sets who sent it.
    #[must_use]
    pub fn by(mut self, by: impl Into<Option<Author>>) -> Self {
        self.by = by.into();
        self
    }

    /// Sets why it was sent.
    #[must_use]
    pub fn note(mut self, note: impl Into<Option<Note>>) -> Self {
        self.note = note.into();
        self
    }
}

/// The outcome of a command. Every acknowledged command gets exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was applied.
    Applied {
        /// The state before.
        from: StateKind,
        /// The state after.
        to: StateKind,
    },
    /// The command was delivered to the handler, which returned another message.
    Overridden {
        /// What the handler returned instead.
        by: ActionKind,
    },
    /// The task does not take the command.
    Rejected {
        /// Why.
        reason: String,
    },
    /// The handler has replied to the signal.
    Answered {
        /// The reply.
        reply: Json,
    },
    /// The handler had the signal, and returned without a reply.
    Unanswered,
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        OutcomeRecord::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = OutcomeRecord::deserialize(deserializer)?;
        Self::try_from(record).map_err(serde::de::Error::custom)
    }
}

impl Outcome {
    /// Returns whether the command was applied.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied { .. })
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Applied { from, to } => write!(f, "applied ({from} → {to})"),
            Self::Overridden { by } => write!(f, "overridden (the handler returned {by})"),
            Self::Rejected { reason } => write!(f, "rejected: {reason}"),
            Self::Answered { reply } => write!(f, "answered: {}", reply.as_str()),
            Self::Unanswered => f.write_str("unanswered (the handler returned without a reply)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn golden_json() {
        let until: Timestamp = "2030-01-02T03:04:05Z".parse().unwrap();
        let cases = [
            (Command::Run, r#"{"message":"run"}"#),
            (
                Command::Sleep { until },
                r#"{"message":"sleep","until":"2030-01-02T03:04:05Z"}"#,
            ),
            (Command::Pause, r#"{"message":"pause"}"#),
            (Command::Release, r#"{"message":"release"}"#),
            (Command::Checkpoint, r#"{"message":"checkpoint"}"#),
            (
                Command::Complete { result: None },
                r#"{"message":"complete"}"#,
            ),
            (
                Command::Complete {
                    result: Some(serde_json::json!({"a": 1}).into()),
                },
                r#"{"message":"complete","result":{"a":1}}"#,
            ),
            (Command::Kill, r#"{"message":"kill"}"#),
            (
                Command::Signal(Signal::new("go")),
                r#"{"message":"signal","name":"go"}"#,
            ),
            (
                Command::signal("go", &9_007_199_254_740_993_u64).unwrap(),
                r#"{"message":"signal","name":"go","payload":9007199254740993}"#,
            ),
        ];
        for (command, text) in cases {
            assert_eq!(serde_json::to_string(&command).unwrap(), text);
            assert_eq!(serde_json::from_str::<Command>(text).unwrap(), command);
        }
        let outcomes = [
            (
                Outcome::Applied {
                    from: StateKind::Runnable,
                    to: StateKind::Paused,
                },
                r#"{"outcome":"applied","from":"runnable","to":"paused"}"#,
            ),
            (
                Outcome::Overridden {
                    by: ActionKind::Complete,
                },
                r#"{"outcome":"overridden","by":"complete"}"#,
            ),
            (
                Outcome::Rejected {
                    reason: "no".into(),
                },
                r#"{"outcome":"rejected","reason":"no"}"#,
            ),
            (
                Outcome::Answered {
                    reply: Json::parse("reply", "1.50").unwrap(),
                },
                r#"{"outcome":"answered","reply":1.50}"#,
            ),
            (
                Outcome::Answered {
                    reply: Json::null(),
                },
                r#"{"outcome":"answered","reply":null}"#,
            ),
            (Outcome::Unanswered, r#"{"outcome":"unanswered"}"#),
        ];
        for (outcome, text) in outcomes {
            assert_eq!(serde_json::to_string(&outcome).unwrap(), text);
            assert_eq!(serde_json::from_str::<Outcome>(text).unwrap(), outcome);
        }
    }

    #[test]
    fn malformed_commands_name_the_field() {
        for (text, says) in [
            (
                r#"{"message":"dance"}"#,
                "message: 'dance' is not one of run",
            ),
            (r#"{"message":"error"}"#, "message: 'error' is a handler's"),
            (r#"{"message":"sleep"}"#, "until: is missing"),
            (r#"{"message":"signal"}"#, "name: is missing"),
            (r#"{}"#, "missing field `message`"),
            (
                r#"{"message":"sleep","until":"tomorrow"}"#,
                "until: 'tomorrow'",
            ),
        ] {
            let error = serde_json::from_str::<Command>(text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_sleep_until_a_later_time_passes_the_check() {
        let now = Timestamp::UNIX_EPOCH;
        let tick = SignedDuration::from_nanos(1);
        for until in [now - tick, now] {
            let error = Command::Sleep { until }.check(now).unwrap_err();
            assert_eq!(error.field(), "until");
        }
        assert_eq!(Command::Sleep { until: now + tick }.check(now), Ok(()));
        let signal = Command::Signal(Signal::new(""));
        assert_eq!(signal.check(now).unwrap_err().field(), "name");
        for command in [Command::Run, Command::Pause, Command::Kill] {
            assert_eq!(command.check(now), Ok(()));
        }
    }

    #[test]
    fn a_result_that_is_nested_too_deep_is_refused() {
        let complete = |levels| {
            let text = "[".repeat(levels) + &"]".repeat(levels);
            let result = Some(crate::Json::parse("result", &text).unwrap());
            Command::Complete { result }.check(Timestamp::UNIX_EPOCH)
        };
        assert_eq!(complete(100), Ok(()));
        assert_eq!(complete(101).unwrap_err().field(), "result");
    }
}
