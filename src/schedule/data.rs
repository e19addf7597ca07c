//! [`Data`]: what a schedule keeps between two times.

use jiff::{SignedDuration, Timestamp, civil::DateTime};
use serde::{Deserialize, Serialize};

use super::{
    spec::Schedule,
    times::{Cursor, Times, before},
};

/// How many times of a schedule went which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Counts {
    /// Runs that were submitted because their time came.
    pub fired: u64,
    /// Those of them that were submitted more than a minute after they were due.
    pub late: u64,
    /// Times that an operator skipped, or that passed while the schedule was paused.
    pub skipped: u64,
    /// Times that passed while no node was running, and are not made up for.
    pub missed: u64,
    /// Times that submitted no run because earlier ones were live.
    pub overlapped: u64,
    /// Times that submitted no run because a task that is no run of the schedule has its id.
    pub refused: u64,
    /// Runs that an operator triggered or backfilled.
    pub requested: u64,
}

impl Counts {
    /// Adds the counts of an earlier time of the same schedule.
    pub(crate) fn add(&mut self, earlier: &Self) {
        let Self {
            fired,
            late,
            skipped,
            missed,
            overlapped,
            refused,
            requested,
        } = earlier;
        self.fired += fired;
        self.late += late;
        self.skipped += skipped;
        self.missed += missed;
        self.overlapped += overlapped;
        self.refused += refused;
        self.requested += requested;
    }
}

/// A time that submitted no run, and why.
///
/// # Example
///
/// ```
/// use windlass::{Client, schedule::ScheduleRecord};
///
/// fn complain(schedule: &ScheduleRecord) {
///     if let Some(refused) = &schedule.refused {
///         println!("{}: {}", refused.nominal, refused.reason);
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefusedTime {
    /// The nominal time.
    pub nominal: Timestamp,
    /// Which task has the id of the run.
    pub reason: String,
}

/// What a schedule keeps between two times: the data of its task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Data {
    /// The last nominal time that was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Timestamp>,
    /// What the clocks of the zone showed then, by the zone's rules of that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) local: Option<DateTime>,
    pub(crate) counts: Counts,
    /// The nominal times of runs that may be live.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<Timestamp>,
    /// Times to come that submit no run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) skip: Vec<Timestamp>,
    /// Why the schedule is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// The last time that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<RefusedTime>,
    /// What replaced the props.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<Schedule>,
}

/// A clock that was set back by more than this was wrong before: the schedule goes on from the present.
const SET_BACK: SignedDuration = SignedDuration::from_hours(24);

impl Data {
    /// Returns the time after which the next one is searched.
    pub(crate) fn cursor(&self, spec: &Schedule, now: Timestamp) -> Cursor {
        let cursor = match self.last {
            Some(last) => Cursor {
                last,
                local: self.local,
            },
            None => before(spec.since.or(spec.start).unwrap_or(now)).into(),
        };
        match self.last.is_some() && cursor.last.duration_since(now) > SET_BACK {
            true => now.into(),
            false => cursor,
        }
    }

    /// Counts a time whose run cannot be submitted.
    pub(crate) fn refuse(&mut self, refused: RefusedTime) {
        self.counts.refused += 1;
        self.refused = Some(refused);
    }

    /// Returns whether all runs of the spec were submitted.
    pub(crate) fn is_complete(&self, spec: &Schedule) -> bool {
        spec.count.is_some_and(|count| self.counts.fired >= count)
    }

    /// Returns the first `count` times that are to submit a run.
    pub(crate) fn coming(&self, times: &Times, now: Timestamp, count: usize) -> Vec<Timestamp> {
        let left = times
            .spec()
            .count
            .map(|runs| runs.saturating_sub(self.counts.fired));
        let left = left.and_then(|left| usize::try_from(left).ok());
        let count = count.min(left.unwrap_or(count));
        let mut cursor = self.cursor(times.spec(), now);
        let mut found = Vec::new();
        while found.len() < count
            && let Some(nominal) = times.next(cursor)
        {
            cursor = nominal.into();
            if !self.skip.contains(&nominal) {
                found.push(nominal);
            }
        }
        found
    }

    /// Moves on to a time that was decided.
    pub(crate) fn pass(&mut self, nominal: Timestamp, times: &Times) {
        self.last = Some(nominal);
        self.local = Some(times.local(nominal));
    }
}
