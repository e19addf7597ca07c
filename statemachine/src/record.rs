//! The persisted JSON forms, separate from the types that the rest of the crate works with.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    ActionKind, Command, CommitId, ErrorEntry, ErrorLog, Fence, Invalid, Json, Outcome, Progress,
    Signal, StateKind, TaskState, TaskStatus,
    state::{Deadlines, FIRST_DATA_VERSION, LastCommand, SettledSignal},
    waits::Waits,
};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns the data version of a record without one. Such a record was written before kinds had
/// versions, by a kind with one version, or has no data.
fn first() -> u32 {
    FIRST_DATA_VERSION
}

fn is_first(version: &u32) -> bool {
    *version == FIRST_DATA_VERSION
}

/// The state of a task, as it is stored.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct StateRecord {
    /// The name of the state.
    state: StateKind,
    /// When a sleeping task wakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// Since when it is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// The result of a completed task: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    result: Option<Json>,
    /// The data of its last checkpoint: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    data: Option<Json>,
    /// The version of the data; 1 by default.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    data_version: u32,
    /// Its last errors, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ErrorEntry>,
    /// How many errors it had in all; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errors_total: Option<u64>,
    /// How many attempts in a row have failed or been abandoned; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    attempts: u32,
    /// How many more attempts its retry policy allows, if the policy has such a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts_left: Option<u32>,
    /// How often it was claimed; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    claims: u64,
    /// How often it was started again after it had ended; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: u32,
    /// The number of writes so far; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    reschedules: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    version: u64,
    /// The claim that wrote it; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    fence: Fence,
    /// The id of the write, if a claimed task made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<CommitId>,
    /// The last command that had an effect on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_command: Option<LastCommand>,
    /// How far its handler is, as it has reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// The tasks that it waits for, or has waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waits: Option<Box<Waits>>,
    /// The deadlines that still matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadlines: Option<Box<Deadlines>>,
    /// The order of the last signal that a handler has kept; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    kept_signals: u64,
    /// The signals that got their outcome in this write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    settled_signals: Vec<SettledSignal>,
}

impl Serialize for TaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StateRecord::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TaskState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = StateRecord::deserialize(deserializer)?;
        Self::try_from(record).map_err(serde::de::Error::custom)
    }
}

impl From<TaskState> for StateRecord {
    fn from(state: TaskState) -> Self {
        let code = state.code();
        let (until, result) = match state.status {
            TaskStatus::Sleeping { until } => (Some(until), None),
            TaskStatus::Completed { result } => (None, result),
            _ => (None, None),
        };
        let errors_total = Some(state.errors.total()).filter(|n| *n > 0);
        Self {
            state: code,
            until,
            since: Some(state.since),
            result,
            data: state.data,
            data_version: state.data_version,
            errors: state.errors.entries().to_vec(),
            errors_total,
            attempts: state.attempts,
            attempts_left: state.attempts_left,
            claims: state.claims,
            incarnation: state.incarnation,
            reschedules: state.reschedules,
            version: state.version,
            fence: state.fence,
            commit: state.commit,
            last_command: state.last_command,
            progress: state.progress,
            waits: state.waits,
            deadlines: state.deadlines,
            kept_signals: state.kept_signals,
            settled_signals: state.settled_signals,
        }
    }
}

impl TryFrom<StateRecord> for TaskState {
    type Error = Invalid;

    fn try_from(record: StateRecord) -> Result<Self, Invalid> {
        let status = match record.state {
            StateKind::Runnable => TaskStatus::Runnable,
            StateKind::Sleeping => TaskStatus::Sleeping {
                until: record.until.ok_or_else(|| {
                    Invalid::new("until", "is missing; a sleeping task has a time to wake")
                })?,
            },
            StateKind::Paused => TaskStatus::Paused,
            StateKind::Fault => TaskStatus::Fault,
            StateKind::Completed => TaskStatus::Completed {
                result: record.result,
            },
            StateKind::Failed => TaskStatus::Failed,
            StateKind::Killed => TaskStatus::Killed,
        };
        // A record by another writer may lack `since`: the time of its last error is the best
        // estimate.
        let since = record
            .since
            .or_else(|| record.errors.last().map(|e| e.timestamp))
            .unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Self {
            status,
            since,
            data: record.data,
            data_version: record.data_version,
            errors: ErrorLog::from_parts(record.errors, record.errors_total),
            attempts: record.attempts,
            attempts_left: record.attempts_left,
            claims: record.claims,
            incarnation: record.incarnation,
            reschedules: record.reschedules,
            version: record.version,
            fence: record.fence,
            commit: record.commit,
            last_command: record.last_command,
            progress: record.progress,
            waits: record.waits,
            deadlines: record.deadlines,
            kept_signals: record.kept_signals,
            settled_signals: record.settled_signals,
        })
    }
}

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
}

impl CommandRecord {
    fn plain(message: String) -> Self {
        Self {
            message,
            until: None,
            result: None,
            name: None,
            payload: None,
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
