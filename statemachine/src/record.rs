//! The persisted JSON forms, separate from the types that the rest of the crate works with.

mod command;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    AwaitedSignal, CommitId, ErrorEntry, ErrorLog, Fence, Invalid, Json, Progress, StateKind,
    TaskState, TaskStatus,
    state::{
        Deadlines, Delivery, EarlierData, FIRST_DATA_VERSION, KEPT, KEPT_DELIVERIES, LastCommand,
        Pause, Recent, Report, SettledSignal,
    },
    waits::Waits,
};

#[cfg(feature = "schema")]
pub(crate) use self::command::CommandRecord;
pub(crate) use self::command::OutcomeRecord;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns whether a list has nothing.
fn is_none<T>(list: &[T]) -> bool {
    list.is_empty()
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
    /// Since when the task is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// Since when a claimed runnable task runs; of an unclaimed one, when its last run began or was released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_since: Option<Timestamp>,
    /// Who paused a paused task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused: Option<Box<Pause>>,
    /// The result of a completed task: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    result: Option<Json>,
    /// The data of the last checkpoint: any JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::json::present"
    )]
    data: Option<Json>,
    /// The version of the data; 1 by default.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    data_version: u32,
    /// What the data was before its last replacements, oldest first: up to 8. Each is an array of the time in microseconds
    /// since 1970, the bytes, and the data if it had up to 128 bytes.
    #[serde(default, skip_serializing_if = "is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::state::StoredEarlierData>")
    )]
    earlier_data: Recent<EarlierData, KEPT>,
    /// The last errors, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ErrorEntry>,
    /// How many errors it had in all; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errors_total: Option<u64>,
    /// How many attempts in a row failed or were abandoned; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    attempts: u32,
    /// How many more attempts the retry policy allows; `null` if the policy does not count
    /// attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts_left: Option<u32>,
    /// How often it was claimed; 0 by default.
    #[serde(default, skip_serializing_if = "is_default")]
    claims: u64,
    /// How often it was retried after it had ended; 0 by default.
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
    /// The last command that changed the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_command: Option<LastCommand>,
    /// When the last commands with an outcome reached the owner: each an array of the order, and microseconds since 1970.
    #[serde(default, skip_serializing_if = "is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<(u64, i64)>"))]
    deliveries: Recent<Delivery, KEPT_DELIVERIES>,
    /// The progress that its handler has reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// The tasks that the task waits for, or has waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waits: Option<Box<Waits>>,
    /// The signal that the task waits for, or has waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    awaited_signal: Option<Box<AwaitedSignal>>,
    /// The deadlines that are not met yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadlines: Option<Box<Deadlines>>,
    /// The order of the last signal that a handler has kept in the queue; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    kept_signals: u64,
    /// The signals that got their outcome in this write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    settled_signals: Vec<SettledSignal>,
    /// The version at which the run of a remote worker began that was going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<u64>,
    /// The last applied report of a remote worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<Box<Report>>,
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
            run_since: state.run_since,
            paused: state.paused,
            result,
            data: state.data,
            data_version: state.data_version,
            earlier_data: state.earlier_data,
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
            deliveries: state.deliveries,
            progress: state.progress,
            waits: state.waits,
            awaited_signal: state.awaited_signal,
            deadlines: state.deadlines,
            kept_signals: state.kept_signals,
            settled_signals: state.settled_signals,
            run: state.run,
            report: state.report,
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
            run_since: record.run_since,
            paused: record.paused,
            data: record.data,
            data_version: record.data_version,
            earlier_data: record.earlier_data,
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
            deliveries: record.deliveries,
            progress: record.progress,
            waits: record.waits,
            awaited_signal: record.awaited_signal,
            deadlines: record.deadlines,
            kept_signals: record.kept_signals,
            settled_signals: record.settled_signals,
            run: record.run,
            report: record.report,
        })
    }
}
