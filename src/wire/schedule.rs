//! [`ScheduleForm`]: a schedule and its times, as clients read them.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use windlass_statemachine::{StateKind, TaskId};

use crate::schedule::{Counts, LastRun, LeftOut, RefusedTime, Schedule, ScheduleRecord, Time};

/// A time of a schedule.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TimeForm {
    /// The nominal time, as the expressions define it. It names the run.
    pub nominal: Timestamp,
    /// When the run is due: the nominal time plus offset and jitter.
    pub due: Timestamp,
    /// The nominal time in the zone of the schedule: `2030-06-02T02:30:00+02:00[Europe/Berlin]`.
    pub local: String,
    /// The time by which the run has to start.
    pub start_by: Option<Timestamp>,
    /// The time by which the run has to end.
    pub end_by: Option<Timestamp>,
}

impl From<&Time> for TimeForm {
    fn from(time: &Time) -> Self {
        Self {
            nominal: time.nominal,
            due: time.due,
            local: time.local.to_string(),
            start_by: time.start_by,
            end_by: time.end_by,
        }
    }
}

/// A schedule. Every field except `late_seconds`, `upcoming`, `waits` and `last_run` is present; an absent value is
/// `null`.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, schedule::Schedule, store::Store, wire::ScheduleForm};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
/// let client = Client::new(&Store::open("memory:").await?);
/// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * MON");
/// client.schedules().create("weekly", report).await?;
/// let record = client.schedules().get("weekly").await?;
/// let form = serde_json::to_value(ScheduleForm::from(&record))?;
/// assert_eq!(form["spec"]["cron"][0], "0 6 * * MON");
/// # Ok(()) }
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ScheduleRecord"))]
#[non_exhaustive]
pub struct ScheduleForm<'a> {
    /// The id of the schedule and of its task.
    pub id: &'a TaskId,
    /// The state of its task; `null` when its record cannot be read.
    pub state: Option<StateKind>,
    /// The next time that will submit a run, if the schedule is live and not paused.
    pub next: Option<TimeForm>,
    /// How long its next time has passed without a run, in whole seconds; `null` if none has, or less than 3 seconds ago. Only
    /// of a single schedule and in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_seconds: Option<Option<u64>>,
    /// The next five times that will submit a run; only of a single schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upcoming: Option<Vec<TimeForm>>,
    /// The last time that was decided.
    pub last: Option<Timestamp>,
    /// How the times of the schedule were decided so far.
    pub counts: Counts,
    /// The runs that were live when the schedule last checked.
    pub runs: Vec<String>,
    /// Future times that submit no run.
    pub skipped: &'a [Timestamp],
    /// Why the schedule is paused.
    pub note: Option<&'a str>,
    /// The time up to which a clock that was ahead has decided its times.
    pub ahead: Option<Timestamp>,
    /// The last time that submitted no run because another task has its id.
    pub refused: Option<&'a RefusedTime>,
    /// The last times that submitted no run, oldest first: at most 10 entries.
    pub left_out: &'a [LeftOut],
    /// The fields of the schedule.
    pub spec: Option<&'a Schedule>,
    /// Why the fields cannot be read.
    pub wrong: Option<String>,
    /// Why it submits no runs at present; only of a single schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Option<String>>,
    /// The last run, only of a single schedule and in lists; `null` before the first run, and when its task was
    /// deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Option<&'a LastRun>>,
}

impl<'a> From<&'a ScheduleRecord> for ScheduleForm<'a> {
    fn from(record: &'a ScheduleRecord) -> Self {
        let run = |at: &Timestamp| format!("{}@{at}", record.id);
        Self {
            id: &record.id,
            state: record.state,
            next: record.next.as_ref().map(TimeForm::from),
            late_seconds: None,
            upcoming: None,
            last: record.last,
            counts: record.counts,
            runs: record.runs.iter().map(run).collect(),
            skipped: &record.skipped,
            note: record.note.as_deref(),
            ahead: record.ahead,
            refused: record.refused.as_ref(),
            left_out: &record.left_out,
            spec: record.spec.as_ref().ok(),
            wrong: record.spec.as_ref().err().map(ToString::to_string),
            waits: None,
            last_run: None,
        }
    }
}

impl<'a> ScheduleForm<'a> {
    /// Adds how late the schedule is ([`ScheduleRecord::late`]).
    #[must_use]
    pub fn with_late(self, late: Option<Duration>) -> Self {
        Self {
            late_seconds: Some(late.map(|late| late.as_secs())),
            ..self
        }
    }

    /// Adds the last run.
    #[must_use]
    pub fn with_last_run(self, run: Option<&'a LastRun>) -> Self {
        Self {
            last_run: Some(run),
            ..self
        }
    }

    /// Adds the next times.
    #[must_use]
    pub fn with_upcoming(self, times: &[Time]) -> Self {
        Self {
            upcoming: Some(times.iter().map(TimeForm::from).collect()),
            ..self
        }
    }

    /// Adds why the schedule submits no runs.
    #[must_use]
    pub fn with_waits(self, waits: Option<String>) -> Self {
        Self {
            waits: Some(waits),
            ..self
        }
    }
}

/// An action on a schedule.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Action"))]
#[non_exhaustive]
pub struct ScheduleActionForm<'a> {
    /// The schedule.
    pub id: &'a TaskId,
    /// What was done.
    pub action: &'a str,
    /// The runs that `trigger` and `backfill` submitted, or that `delete` has sent a kill to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<&'a [TaskId]>,
}

impl<'a> ScheduleActionForm<'a> {
    /// Returns the form of an action, with the runs that it has submitted or killed.
    pub fn new(id: &'a TaskId, action: &'a str, runs: Option<&'a [TaskId]>) -> Self {
        Self { id, action, runs }
    }
}
