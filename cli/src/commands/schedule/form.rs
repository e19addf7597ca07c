//! The JSON forms of a schedule and of its times.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use windlass::{
    StateKind, TaskId,
    schedule::{Counts, LeftOut, RefusedTime, Schedule, ScheduleRecord, Time},
};

use super::last::LastRun;

/// A time of a schedule.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TimeForm {
    /// The nominal time, as the expressions define it. It names the run.
    nominal: Timestamp,
    /// When the run is due: the nominal time plus offset and jitter.
    due: Timestamp,
    /// The nominal time in the zone of the schedule: `2030-06-02T02:30:00+02:00[Europe/Berlin]`.
    local: String,
    /// The time by which the run has to start.
    start_by: Option<Timestamp>,
    /// The time by which the run has to end.
    end_by: Option<Timestamp>,
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

/// A schedule. Every field except `upcoming`, `waits` and `last_run` is present; an absent value is
/// `null`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct View<'a> {
    /// The id of the schedule and of its task.
    id: &'a TaskId,
    /// The state of its task; `null` when its record cannot be read.
    state: Option<StateKind>,
    /// The next time that will submit a run, if the schedule is live and not paused.
    next: Option<TimeForm>,
    /// The next five times that will submit a run; only in `schedule get`.
    #[serde(skip_serializing_if = "Option::is_none")]
    upcoming: Option<Vec<TimeForm>>,
    /// The last time that was decided.
    last: Option<Timestamp>,
    /// How the times of the schedule were decided so far.
    counts: Counts,
    /// The runs that were live when the schedule last checked.
    runs: Vec<String>,
    /// Future times that submit no run.
    skipped: &'a [Timestamp],
    /// Why the schedule is paused.
    note: Option<&'a str>,
    /// The time up to which a clock that was ahead has decided its times.
    ahead: Option<Timestamp>,
    /// The last time that submitted no run because another task has its id.
    refused: Option<&'a RefusedTime>,
    /// The last times that submitted no run, oldest first: at most 10 entries.
    left_out: &'a [LeftOut],
    /// The fields of the schedule.
    spec: Option<&'a Schedule>,
    /// Why the fields cannot be read.
    wrong: Option<String>,
    /// Why it submits no runs at present; only in `schedule get`.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Option<String>>,
    /// The last run, only in `schedule get` and `list`; `null` before the first run, and when its task was
    /// deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run: Option<Option<&'a LastRun>>,
}

impl<'a> From<&'a ScheduleRecord> for View<'a> {
    fn from(record: &'a ScheduleRecord) -> Self {
        let run = |at: &Timestamp| format!("{}@{at}", record.id);
        Self {
            id: &record.id,
            state: record.state,
            next: record.next.as_ref().map(TimeForm::from),
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

impl<'a> View<'a> {
    pub(super) fn with_last_run(self, run: Option<&'a LastRun>) -> Self {
        Self {
            last_run: Some(run),
            ..self
        }
    }

    pub(super) fn with_upcoming(self, times: &[Time]) -> Self {
        Self {
            upcoming: Some(times.iter().map(TimeForm::from).collect()),
            ..self
        }
    }

    pub(super) fn with_waits(self, waits: Option<String>) -> Self {
        Self {
            waits: Some(waits),
            ..self
        }
    }
}

/// A schedule of an import or a dry run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlanForm<'a> {
    /// The schedule.
    pub(super) id: &'a TaskId,
    /// `created` or `exists` for an import; `would create` or `would update` for a dry run.
    pub(super) action: &'static str,
    /// The fields of the schedule.
    #[cfg_attr(test, schemars(with = "Schedule"))]
    pub(super) spec: &'a Value,
    /// Its next times: five, or three for a line of an import.
    pub(super) next: Vec<TimeForm>,
}
