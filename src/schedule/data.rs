//! [`Data`]: the state that a schedule keeps between two times.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp, civil::DateTime};
use serde::{Deserialize, Serialize};

use super::{
    left_out::{LeftOut, Why, append},
    spec::Schedule,
    times::{Cursor, Times, before},
};

/// The most earlier runs that a schedule follows.
pub(crate) const FOLLOWED: usize = 1_000;

/// How the nominal times of a schedule were decided so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Counts {
    /// Runs that were submitted because their time came. Runs that an operator requested earlier are not
    /// counted here.
    pub fired: u64,
    /// Runs of `fired` that were submitted more than a minute after they were due.
    pub late: u64,
    /// Times that an operator skipped, and times that passed while the schedule was paused.
    pub skipped: u64,
    /// Times that passed while no node was running, and that are not made up for.
    pub missed: u64,
    /// Times that submitted no run because earlier runs were live, or because a later time replaced them.
    pub overlapped: u64,
    /// Times that submitted no run because another task, which is not a run of the schedule, has
    /// the id.
    pub refused: u64,
    /// Runs that an operator triggered or backfilled.
    pub requested: u64,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RefusedTime {
    /// The nominal time.
    pub nominal: Timestamp,
    /// Which other task has the id of the run.
    pub reason: String,
}

/// The state that a schedule keeps between two times: the data of its task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Data {
    /// The last nominal time that was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Timestamp>,
    /// The local time of `last`, by the rules of the zone when it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) local: Option<DateTime>,
    pub(crate) counts: Counts,
    /// The nominal times of runs that may be live.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<Timestamp>,
    /// The runs of `runs` that have got the command of the overlap policy for the next time. One write cannot send all
    /// of these commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stopping: Vec<Timestamp>,
    /// Future times that submit no run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) skip: Vec<Timestamp>,
    /// Why the schedule is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// The last time that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<RefusedTime>,
    /// The nominal time of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_run: Option<Timestamp>,
    /// The last times that submitted no run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<LeftOut>,
    /// When the last command that ended a pause reached a node, in microseconds since 1970; 0 for none. `None` until a node has
    /// checked. The time only names the command: its queue position is another one in a copy of the store.
    #[serde(rename = "resumed_at", skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<i64>,
    /// Whether the times of the present pause will be decided, rather than skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) catches_up: bool,
    /// The end of the pause whose times are being decided: those that were due by then were missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed_to: Option<Timestamp>,
    /// The starts of machines that are to submit a run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) boots: Vec<Timestamp>,
    /// The ids of the last starts that were decided, or are among `boots`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) booted: Vec<String>,
    /// The spec that replaced the props.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<Schedule>,
}

/// A schedule never decides a time before it is due. If the last decided time is further ahead than this, a clock
/// that was ahead decided it, and the schedule continues from the present. The clocks of two nodes differ by less.
pub(crate) const AHEAD: SignedDuration = SignedDuration::from_secs(60);

impl Data {
    /// Returns the position from which the next time is searched.
    pub(crate) fn cursor(&self, spec: &Schedule, now: Timestamp) -> Cursor {
        let cursor = match self.last {
            Some(last) => Cursor {
                last,
                local: self.local,
            },
            None => before(spec.since.or(spec.start).unwrap_or(now)).into(),
        };
        match self.ahead(spec, now) {
            Some(_) => now.into(),
            None => cursor,
        }
    }

    /// Returns the time up to which a clock that was ahead has decided, if one did.
    pub(crate) fn ahead(&self, spec: &Schedule, now: Timestamp) -> Option<Timestamp> {
        let come = self.last.or(spec.since)?;
        (come.duration_since(now) > AHEAD).then_some(come)
    }

    /// Returns the data of a new schedule.
    pub(crate) fn first() -> Self {
        Self {
            resumed: Some(0),
            ..Self::default()
        }
    }

    /// Returns the data of a schedule that replaces this ended one and begins now.
    pub(crate) fn of_ended(mut self, now: Timestamp) -> Self {
        self.skip.retain(|skipped| *skipped > now);
        Self {
            last: None,
            local: None,
            stopping: Vec::new(),
            boots: Vec::new(),
            note: None,
            resumed: Some(0),
            catches_up: false,
            missed_to: None,
            spec: None,
            ..self
        }
    }

    /// Counts times that submit no run.
    pub(crate) fn leave_out(&mut self, left_out: LeftOut) {
        let (counts, times) = (&mut self.counts, left_out.times);
        match left_out.why {
            Why::Missed => counts.missed += times,
            Why::Skipped => counts.skipped += times,
            Why::Overlapped => counts.overlapped += times,
            Why::Refused => counts.refused += times,
            Why::Other => {}
        }
        append(&mut self.left_out, left_out, self.last_run);
    }

    /// Counts a time whose run cannot be submitted.
    pub(crate) fn refuse(&mut self, refused: RefusedTime) {
        self.leave_out(LeftOut::one(refused.nominal, Why::Refused));
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

    /// Adds runs that may be live, and drops the oldest beyond the most that a schedule follows.
    pub(crate) fn follow(&mut self, runs: impl IntoIterator<Item = Timestamp>) {
        let mut known: HashSet<Timestamp> = self.runs.iter().copied().collect();
        let new = runs.into_iter().filter(|run| known.insert(*run));
        self.runs.extend(new);
        self.runs.drain(..self.runs.len().saturating_sub(FOLLOWED));
    }

    /// Moves on to a time that was decided.
    pub(crate) fn pass(&mut self, nominal: Timestamp, times: &Times) {
        self.last = Some(nominal);
        self.local = Some(times.local(nominal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_earlier_and_later_versions_are_read() {
        let earlier = r#"{"last":"2030-01-01T00:00:00Z","counts":{"fired":2,"missed":1}}"#;
        let data: Data = serde_json::from_str(earlier).unwrap();
        assert_eq!((data.counts.fired, data.last_run), (2, None));
        assert_eq!((data.left_out.len(), data.resumed), (0, None));

        let later = r#"{"counts":{"fired":2,"held":1},"held":[1],"left_out":[
            {"first":"2030-01-01T00:00:00Z","last":"2030-01-01T01:00:00Z","times":2,"why":"held"}]}"#;
        let mut data: Data = serde_json::from_str(later).unwrap();
        assert_eq!((data.counts.fired, data.left_out[0].why), (2, Why::Other));
        let nominal = "2030-01-01T02:00:00Z".parse().unwrap();
        data.leave_out(LeftOut::one(nominal, Why::Missed));
        let whys: Vec<Why> = data.left_out.iter().map(|entry| entry.why).collect();
        assert_eq!(whys, [Why::Other, Why::Missed]);
    }
}
