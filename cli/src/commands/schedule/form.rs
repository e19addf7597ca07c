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
    /// The time that the expressions give. It names the run.
    nominal: Timestamp,
    /// When the run is due: the nominal time, the offset and the jitter.
    due: Timestamp,
    /// The nominal time in the zone of the schedule: `2030-06-02T02:30:00+02:00[Europe/Berlin]`.
    local: String,
    /// By when the run has to start.
    start_by: Option<Timestamp>,
    /// By when the run has to end.
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

/// A schedule. Every field but `upcoming`, `waits` and `last_run` is there; an absent value is `null`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct View<'a> {
    /// The id of the schedule and of its task.
    id: &'a TaskId,
    /// The state of its task; `null` when its record cannot be read.
    state: Option<StateKind>,
    /// The next time that is to submit a run, if the schedule is live and not paused.
    next: Option<TimeForm>,
    /// The next five times that are to submit a run, of `schedule get`.
    #[serde(skip_serializing_if = "Option::is_none")]
    upcoming: Option<Vec<TimeForm>>,
    /// The last time that was decided.
    last: Option<Timestamp>,
    /// How many times went which way.
    counts: Counts,
    /// The runs that were live when the schedule looked last.
    runs: Vec<String>,
    /// Times to come that submit no run.
    skipped: &'a [Timestamp],
    /// Why it is paused.
    note: Option<&'a str>,
    /// Up to when a clock that was ahead has decided its times.
    ahead: Option<Timestamp>,
    /// The last time that submitted no run because another task has its id.
    refused: Option<&'a RefusedTime>,
    /// The last times that submitted no run, oldest first: at most 10 entries.
    left_out: &'a [LeftOut],
    /// The fields of the schedule.
    spec: Option<&'a Schedule>,
    /// Why the fields cannot be read.
    wrong: Option<String>,
    /// Why it does not submit runs at present, of `schedule get`.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Option<String>>,
    /// The last run, of `schedule get` and `list`; `null` before the first, and when its task was deleted.
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

/// A schedule that was imported, or that a dry run has made.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PlanForm<'a> {
    /// The schedule.
    pub(super) id: &'a TaskId,
    /// `created` or `exists` of an import; `would create` or `would update` of a dry run.
    pub(super) action: &'static str,
    /// The fields of the schedule.
    #[cfg_attr(test, schemars(with = "Schedule"))]
    pub(super) spec: &'a Value,
    /// Its next times: five, or three of a line that is imported.
    pub(super) next: Vec<TimeForm>,
}
