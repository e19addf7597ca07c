//! [`RecordForm`]: a task as clients read it.

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{
    AwaitedSignal, ErrorEntry, Fence, Json, Kind, Limit, Meta, NodeName, Progress, Retry, TaskId,
    TaskState, TaskStatus, Unique, Waits,
    state::{Delivery, EarlierData, LastCommand, Pause},
    task::Labels,
};

use crate::store::{LimitedBy, Standing, TaskRecord};

/// A task as the store knows it. Every field is present; an absent value is `null`.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, store::Store, wire::RecordForm};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let client = Client::new(&Store::open("memory:").await?);
/// client.submit(NewTask::new("report").id("a")).await?;
/// let record = client.get("a").await?;
/// let form = RecordForm::at(&record, client.now());
/// assert_eq!((form.state, form.shown), ("runnable", "queued"));
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Record"))]
#[non_exhaustive]
pub struct RecordForm<'a> {
    /// The id, unique in the namespace.
    pub id: &'a TaskId,
    /// The kind, which selects the handler.
    pub kind: &'a Kind,
    /// The name of the state, or `quarantined` for a task whose record cannot be read.
    pub state: &'static str,
    /// Since when the task is in this state.
    pub since: Option<Timestamp>,
    /// The state as people say it: `running` for a runnable task that a node has claimed, `queued` for one that no node
    /// has claimed, otherwise as `state`.
    pub shown: &'static str,
    /// Since when: of a running task, since when this run goes on; of a queued one, since when it waits for a node;
    /// otherwise as `since`.
    pub shown_since: Option<Timestamp>,
    /// How many seconds a task that no node has claimed is past its due time; `null` for a task that is less than a
    /// second late.
    pub late_seconds: Option<u64>,
    /// Who paused a paused task: the order of the command, its author and its note. Without a `command`, the handler
    /// of the task paused it. `null` for a task that is not paused, and if the program that paused it did not record it.
    pub paused_by: Option<&'a Pause>,
    /// When a sleeping task wakes; `null` also for a task that waits for other tasks without a
    /// deadline.
    pub until: Option<Timestamp>,
    /// When the task is due to be claimed. Of a task whose claim has ended, when that was: `late_seconds` counts from here.
    pub due: Option<Timestamp>,
    /// How many attempts in a row have failed or been abandoned.
    pub attempts: u32,
    /// How many more attempts the retry policy allows; `null` if the policy does not count
    /// attempts.
    pub attempts_left: Option<u32>,
    /// How often the task was claimed.
    pub claims: u64,
    /// How often the task was started again after it had ended.
    pub incarnation: u32,
    /// The node that has claimed the task.
    pub node: Option<&'a NodeName>,
    /// The fence of the last claim; 0 before the first claim.
    pub fence: Fence,
    /// How many commands are in the task's queue.
    pub commands_waiting: u64,
    /// The progress that the handler has reported.
    pub progress: Option<&'a Progress>,
    /// The version of the state, which grows with each claim, transition, checkpoint, retry and reschedule. A guard of a
    /// transaction may require it.
    pub version: Option<u64>,
    /// The priority: tasks with a greater one are claimed first.
    pub priority: i32,
    /// Labels to find the task by and to choose nodes by.
    pub labels: &'a Labels,
    /// The earliest time at which the task starts, as its first submit has set it. A reschedule, and a submit that replaces the
    /// waiting task, change `until` and the due time,
    /// and not this time.
    pub start_at: Option<Timestamp>,
    /// The retry policy, which decides what follows a failed attempt; `null` for the policy of the
    /// kind.
    pub retry: Option<&'a Retry>,
    /// The time by which the first run must have begun.
    pub start_by: Option<Timestamp>,
    /// The time by which the task must have ended.
    pub end_by: Option<Timestamp>,
    /// The key that no other task may have for a period.
    pub unique: Option<&'a Unique>,
    /// The limits that the task shares with other tasks.
    pub limits: &'a [Limit],
    /// Text that travels with the task.
    pub meta: &'a Meta,
    /// The limit that holds the task back: no slot was free when a node tried to claim it.
    pub limited_by: Option<&'a LimitedBy>,
    /// The input of the handler: any JSON.
    pub props: &'a Json,
    /// The data of the last checkpoint: any JSON.
    pub data: Option<&'a Json>,
    /// The version of the data.
    pub data_version: Option<u32>,
    /// What the data was before its last replacements, oldest first: up to 8.
    pub earlier_data: Vec<EarlierDataForm<'a>>,
    /// The result of a completed task: any JSON.
    pub result: Option<&'a Json>,
    /// The last errors, oldest first.
    pub errors: &'a [ErrorEntry],
    /// The number of errors in all.
    pub errors_total: u64,
    /// The fingerprint of the last error: equal for errors that differ only in numbers, ids and
    /// paths.
    pub fingerprint: Option<String>,
    /// The last command that was applied to the task; signals are not counted.
    pub last_command: Option<&'a LastCommand>,
    /// When the last commands that have their outcome reached the owner of the task, oldest first: up to 8.
    pub deliveries: Vec<DeliveryForm>,
    /// The tasks that the task waits for, or has waited for.
    pub waits_for: Option<&'a Waits>,
    /// The signal that the task waits for, as its handler has declared it.
    pub awaits_signal: Option<&'a AwaitedSignal>,
    /// Why the record of a quarantined task cannot be read.
    pub quarantined: Option<String>,
    /// The submit order: the task's place among all submits.
    pub order: u64,
    /// When the task was submitted.
    pub submitted_at: Timestamp,
}

/// What the data of a task was until it was replaced.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "EarlierData"))]
#[non_exhaustive]
pub struct EarlierDataForm<'a> {
    /// When it was replaced.
    pub until: Timestamp,
    /// How many bytes it had; 0 for a task without data, `null` if a mask hides a part of the data.
    pub bytes: Option<u64>,
    /// The data: any JSON. `null` also for a task without data, and for data of more than 128 bytes.
    pub data: Option<&'a Json>,
}

impl<'a> From<&'a EarlierData> for EarlierDataForm<'a> {
    fn from(earlier: &'a EarlierData) -> Self {
        Self {
            until: earlier.until,
            bytes: Some(earlier.bytes),
            data: earlier.data.as_ref(),
        }
    }
}

/// When a command reached the owner of its task.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Delivery"))]
#[non_exhaustive]
pub struct DeliveryForm {
    /// The place of the command in the queue of the task.
    pub order: u64,
    /// When the owner received it. Commands to remote workers have no delivery: it is not known.
    pub at: Timestamp,
}

impl From<&Delivery> for DeliveryForm {
    fn from(delivery: &Delivery) -> Self {
        Self {
            order: delivery.order,
            at: delivery.at,
        }
    }
}

/// Returns whether a task wakes at this time. The wake-up of a task that waits for others without a deadline is the
/// last second of all; stores cut it to milliseconds.
fn has_time(until: &Timestamp) -> bool {
    until.as_second() < Timestamp::MAX.as_second()
}

impl<'a> RecordForm<'a> {
    /// Returns the form of a record that was read at `now`, by the clock of the store: `late_seconds` counts to then.
    ///
    /// # Example
    ///
    /// ```
    /// use jiff::SignedDuration;
    /// use windlass::{Client, NewTask, store::Store, wire::RecordForm};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("report").id("a")).await?;
    /// let record = client.get("a").await?;
    /// let later = record.submitted_at + SignedDuration::from_millis(90_500);
    /// let form = RecordForm::at(&record, later);
    /// assert_eq!((form.shown, form.late_seconds), ("queued", Some(90)));
    /// # Ok(()) }
    /// ```
    pub fn at(record: &'a TaskRecord, now: Timestamp) -> Self {
        let task = &record.task;
        let state = record.state.as_ref().ok();
        let standing = Standing::of(record, now);
        Self {
            id: &task.id,
            kind: &task.kind,
            state: state.map_or("quarantined", |state| state.code().as_str()),
            since: state.map(|s| s.since),
            shown: standing.shown.as_str(),
            shown_since: standing.since,
            late_seconds: standing
                .late
                .map(|late| late.as_secs())
                .filter(|late| *late > 0),
            paused_by: standing.paused_by,
            until: state.and_then(|s| match s.status {
                TaskStatus::Sleeping { until } => Some(until).filter(has_time),
                _ => None,
            }),
            due: state.and_then(|state| match record.node {
                Some(_) => state.due(),
                None => state.ready(),
            }),
            attempts: state.map_or(0, |s| s.attempts),
            attempts_left: state.and_then(|s| s.attempts_left),
            claims: state.map_or(0, |s| s.claims),
            incarnation: state.map_or(0, |s| s.incarnation),
            node: record.node.as_ref(),
            fence: record.fence,
            commands_waiting: record.commands,
            progress: state.and_then(|s| s.progress.as_ref()),
            version: state.map(|s| s.version),
            priority: task.priority,
            labels: &task.labels,
            start_at: task.start_at,
            retry: task.retry.as_ref(),
            start_by: task.start_by,
            end_by: task.end_by,
            unique: task.unique.as_ref(),
            limits: &task.limits,
            meta: &task.meta,
            limited_by: record.limited_by.as_ref(),
            props: &task.props,
            data: state.and_then(|s| s.data.as_ref()),
            data_version: state.and_then(|s| s.data.as_ref().map(|_| s.data_version)),
            earlier_data: state.map_or_else(Vec::new, |s| {
                s.earlier_data.iter().map(EarlierDataForm::from).collect()
            }),
            result: state.and_then(|s| match &s.status {
                TaskStatus::Completed { result } => result.as_ref(),
                _ => None,
            }),
            errors: state.map_or(&[], |s| s.errors.entries()),
            errors_total: state.map_or(0, |s| s.errors.total()),
            fingerprint: record.fingerprint(),
            last_command: state.and_then(|s| s.last_command.as_ref()),
            deliveries: state.map_or_else(Vec::new, |s| {
                s.deliveries.iter().map(DeliveryForm::from).collect()
            }),
            waits_for: state.and_then(|s| s.waits.as_deref()),
            awaits_signal: state.and_then(TaskState::awaits_signal),
            quarantined: record.state.as_ref().err().map(ToString::to_string),
            order: record.order,
            submitted_at: record.submitted_at,
        }
    }
}
