//! [`Schedule`]: the spec of a schedule: when it submits runs, and which.

mod clauses;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use windlass_statemachine::{Invalid, Json, plain};

use super::{
    clause::{Every, Except},
    cron::is_reboot,
    data::Data,
    missed::{Missed, MissedTimes},
    overlap::Overlap,
    span::{Length, time, times},
    template::{Template, is_default, or_default},
    zone::{Fold, Gap},
};
use crate::NewTask;

/// When a schedule submits runs, and which runs.
///
/// # Flow
///
/// Pass the run as a task without an id, then add the times: any number of cron expressions, intervals and
/// explicit times. [`Schedules::create`](super::Schedules::create) makes a task of the kind `schedule`
/// from the spec. In JSON (the props of that task) each method is a field of the same name.
///
/// # Guarantees
///
/// Each nominal time submits at most one run, whose id is `SCHEDULE@NOMINAL`.
///
/// # Errors
///
/// [`check`](Self::check), and every operation that takes a schedule, returns [`Invalid`] with the name
/// of the field.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass::{NewTask, schedule::{Missed, Overlap, Schedule}};
///
/// let backup = NewTask::new("exec").props(&serde_json::json!({"command": "backup"}));
/// let nightly = Schedule::new(backup)
///     .cron("30 2 * * *")
///     .zone("Europe/Berlin")
///     .jitter(Duration::from_secs(600))
///     .overlap(Overlap::Skip)
///     .missed(Missed::Last, Duration::from_secs(3600));
/// let now = "2030-06-01T12:00:00Z".parse()?;
/// let next = nightly.preview("nightly", now, 2)?;
/// assert_eq!(next[0].nominal.to_string(), "2030-06-02T00:30:00Z");
/// assert_eq!(next[0].local.to_string(), "2030-06-02T02:30:00+02:00[Europe/Berlin]");
/// # Ok::<(), windlass::BoxError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Schedule {
    /// The template of the runs: a task without id, start, waits, deadlines and unique key.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "windlass_statemachine::wire::TaskForm")
    )]
    pub(crate) run: Template,
    /// What the schedule is for, as text; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Cron expressions of local times: 5 fields, 6 with the second first, 7 with the second first and
    /// the year last, a name as `@daily`, `@every 15m`, or `@reboot`.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) cron: Vec<String>,
    /// Intervals in elapsed time, independent of the clocks of the zone, or in months of its calendar.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) every: Vec<Every>,
    /// Single times.
    #[serde(default, deserialize_with = "times")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) at: Vec<Timestamp>,
    /// Times at which no run is submitted.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Except::is_empty")]
    pub(crate) except: Except,
    /// The first instant that may be a nominal time; none by default.
    #[serde(default, deserialize_with = "time")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Timestamp>,
    /// The last instant that may be a nominal time; none by default.
    #[serde(default, deserialize_with = "time")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Timestamp>,
    /// The number of runs after which the schedule completes; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    /// The time zone of cron expressions and excluded days, by its IANA name; `UTC` by default.
    #[serde(default = "utc", deserialize_with = "or_utc")]
    #[serde(skip_serializing_if = "is_utc")]
    pub(crate) zone: String,
    /// How long after its nominal time a run is due; 0 by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Length::is_zero")]
    pub(crate) offset: Length,
    /// The largest delay of a run. The delay follows from the id and the nominal time; 0 by
    /// default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Length::is_zero")]
    pub(crate) jitter: Length,
    /// Fails a run that has not started this long after its nominal time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_within: Option<Length>,
    /// Fails a run that has not ended this long after its nominal time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end_within: Option<Length>,
    /// What happens at a local time that the clocks skip; `after` by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) gap: Gap,
    /// What happens at a local time that the clocks repeat; `first` by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) fold: Fold,
    /// How a time is handled while an earlier run is live; `skip` by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) overlap: Overlap,
    /// Which of the times that passed while no node was running are made up for; the last one of an
    /// hour by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) missed: MissedTimes,
    /// Whether the schedule pauses when a run has failed; `false` by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) pause_on_failure: bool,
    /// The time from which on the nominal times count; set when the schedule is created or
    /// replaced.
    #[serde(default, deserialize_with = "time")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    /// The data of the ended schedule that this one replaces: the same write deletes the ended one and
    /// submits this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub(crate) earlier: Option<Box<Data>>,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn or_utc<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_else(utc))
}

fn is_utc(zone: &String) -> bool {
    zone == "UTC"
}

impl Schedule {
    /// Returns a schedule without times yet, whose runs are like this task. The id, the start and the
    /// if-exists rule of the task are not used.
    pub fn new<J>(run: NewTask<J>) -> Self {
        Self {
            run: Template::of(run),
            description: None,
            cron: Vec::new(),
            every: Vec::new(),
            at: Vec::new(),
            except: Except::default(),
            start: None,
            end: None,
            count: None,
            zone: utc(),
            offset: Length::default(),
            jitter: Length::default(),
            start_within: None,
            end_within: None,
            gap: Gap::default(),
            fold: Fold::default(),
            overlap: Overlap::default(),
            missed: MissedTimes::default(),
            pause_on_failure: false,
            since: None,
            earlier: None,
        }
    }

    /// Returns whether each start of a machine submits a run.
    pub(crate) fn is_at_boot(&self) -> bool {
        self.cron.iter().any(|text| is_reboot(text))
    }

    /// Returns whether both specs have equal fields for the nominal times.
    pub(crate) fn has_times_of(&self, other: &Self) -> bool {
        // Each field is named, so that a new field has to be assigned to one of the two sides.
        let Self {
            cron,
            every,
            at,
            except,
            start,
            end,
            zone,
            gap,
            fold,
            run: _,
            description: _,
            count: _,
            offset: _,
            jitter: _,
            start_within: _,
            end_within: _,
            overlap: _,
            missed: _,
            pause_on_failure: _,
            since: _,
            earlier: _,
        } = self;
        (cron, every, at, except) == (&other.cron, &other.every, &other.at, &other.except)
            && (start, end, zone) == (&other.start, &other.end, &other.zone)
            && (gap, fold) == (&other.gap, &other.fold)
    }

    /// Reads the JSON form, as in the props of the task. A field that is `null` counts as absent.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `schedule`) when the JSON does not have that form. [`check`](Self::check) checks
    /// `zone`, `cron` and the other fields.
    pub fn from_json(json: &Json) -> Result<Self, Invalid> {
        plain::object(json.as_str()).map_err(|wrong| Invalid::new("schedule", wrong))
    }

    /// Sets the description, which says what the schedule is for: 1 to 1,024 bytes of printable text.
    /// [`Schedules::get`](super::Schedules::get) returns it; the runs do not have it.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{NewTask, schedule::Schedule};
    ///
    /// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * MON");
    /// let report = report.description("the figures for the meeting on Monday");
    /// report.check("weekly", "2030-01-01T00:00:00Z".parse()?)?;
    /// # Ok::<(), windlass::BoxError>(())
    /// ```
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Sets the first instant that may be a nominal time.
    pub fn start(mut self, at: Timestamp) -> Self {
        self.start = Some(at);
        self
    }

    /// Sets the last instant that may be a nominal time. The schedule completes after it.
    pub fn end(mut self, at: Timestamp) -> Self {
        self.end = Some(at);
        self
    }

    /// Sets the number of runs after which the schedule completes. Triggered and backfilled runs do not
    /// count.
    pub fn count(mut self, runs: u64) -> Self {
        self.count = Some(runs);
        self
    }

    /// Sets the time zone of cron expressions and excluded days, by its IANA name; UTC by default.
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = name.into();
        self
    }

    /// Sets how long after the nominal time a run is due; 0 by default.
    pub fn offset(mut self, after: Duration) -> Self {
        self.offset = after.into();
        self
    }

    /// Sets the largest delay of a run; 0 by default. The delay of each run follows from the id and the
    /// nominal time. The run is never due at or after the next nominal time.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most.into();
        self
    }

    /// Sets a deadline for each run: it has to start within this duration from its nominal time, or it fails. No
    /// such deadline by default. A time that is decided later than that submits no run, and counts as missed. The
    /// deadline of a run that is triggered or backfilled counts from its submit.
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{NewTask, schedule::Schedule};
    ///
    /// let minutes = |n: u64| Duration::from_secs(n * 60);
    /// let report = Schedule::new(NewTask::new("report")).cron("0 6 * * *");
    /// let report = report.start_within(minutes(10)).end_within(minutes(60));
    /// let next = report.preview("report", "2030-01-01T00:00:00Z".parse()?, 1)?;
    /// assert_eq!(next[0].start_by.unwrap().to_string(), "2030-01-01T06:10:00Z");
    /// assert_eq!(next[0].end_by.unwrap().to_string(), "2030-01-01T07:00:00Z");
    /// # Ok::<(), windlass::BoxError>(())
    /// ```
    pub fn start_within(mut self, duration: Duration) -> Self {
        self.start_within = Some(duration.into());
        self
    }

    /// Sets a deadline for each run: it has to end within this duration from its nominal time, or it fails.
    /// Otherwise like [`start_within`](Self::start_within).
    pub fn end_within(mut self, duration: Duration) -> Self {
        self.end_within = Some(duration.into());
        self
    }

    /// Sets what happens at a fixed local time that the clocks skip; [`Gap::After`] by default.
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// Sets what happens at a fixed local time that the clocks repeat; [`Fold::First`] by default.
    pub fn fold(mut self, fold: Fold) -> Self {
        self.fold = fold;
        self
    }

    /// Sets how a time is handled while an earlier run is live; [`Overlap::Skip`] by default.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets which of the times that passed while no node was running are made up for, if they are at
    /// most `within` ago; by default the last one of an hour.
    pub fn missed(mut self, run: Missed, within: Duration) -> Self {
        let within = within.into();
        self.missed = MissedTimes { run, within };
        self
    }

    /// Sets whether the schedule pauses when a run has failed; false by default. The schedule
    /// checks its runs at the next time.
    pub fn pause_on_failure(mut self, pause: bool) -> Self {
        self.pause_on_failure = pause;
        self
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
