//! The deadlines of runs: durations of the schedule that count from the time of each run.

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::Invalid;

use super::{span::Length, spec::Schedule};

/// By when a run has to start and to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Within {
    start: Option<SignedDuration>,
    end: Option<SignedDuration>,
}

impl Within {
    /// Reads the durations of a schedule whose offset and jitter were already checked.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (fields `start_within`, `end_within`) for a duration that ends before a run may be due, and for
    /// an end before the start.
    pub(crate) fn new(spec: &Schedule) -> Result<Self, Invalid> {
        let latest = spec.offset.0.saturating_add(spec.jitter.0);
        let read = |field, length: Option<Length>| match length {
            None => Ok(None),
            Some(length) => check(field, length, latest).map(Some),
        };
        let start = read("start_within", spec.start_within)?;
        let end = read("end_within", spec.end_within)?;
        if let (Some(starts), Some(ends), Some(given)) = (start, end, spec.end_within)
            && ends < starts
        {
            let reason = format!(
                "{given} is less than start_within, {}; give a longer one",
                Length(starts)
            );
            return Err(Invalid::new("end_within", reason));
        }
        Ok(Self { start, end })
    }

    /// Returns `start_by` and `end_by` of a run whose durations count from `from`.
    pub(crate) fn deadlines(self, from: Timestamp) -> (Option<Timestamp>, Option<Timestamp>) {
        let at = |within: Option<SignedDuration>| {
            within.map(|within| from.checked_add(within).unwrap_or(Timestamp::MAX))
        };
        (at(self.start), at(self.end))
    }

    /// Returns the last nominal time whose run would fail at once.
    pub(crate) fn passed_up_to(self, now: Timestamp) -> Option<Timestamp> {
        let within = self.start.into_iter().chain(self.end).min()?;
        now.checked_sub(within).ok()
    }

    /// Returns whether a run of this nominal time would fail at once.
    pub(crate) fn has_passed(self, nominal: Timestamp, now: Timestamp) -> bool {
        let (start, end) = self.deadlines(nominal);
        start.into_iter().chain(end).any(|at| at <= now)
    }
}

fn check(
    field: &'static str,
    length: Length,
    latest: SignedDuration,
) -> Result<SignedDuration, Invalid> {
    let within = length.check(field)?;
    if within > latest {
        return Ok(within);
    }
    let reason = match latest.is_zero() {
        true => format!("{length} fails every run; give a longer time"),
        false => format!(
            "{length} is over when a run is due, up to {} after its time (offset and jitter); give a longer one",
            Length(latest)
        ),
    };
    Err(Invalid::new(field, reason))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::NewTask;

    const MINUTE: Duration = Duration::from_secs(60);

    fn spec() -> Schedule {
        Schedule::new(NewTask::new("k")).cron("@hourly")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn deadlines_are_durations_from_a_time() {
        let within = Within::new(&spec().start_within(MINUTE)).unwrap();
        let from = at("2030-01-01T02:00:00Z");
        let start = at("2030-01-01T02:01:00Z");
        assert_eq!(within.deadlines(from), (Some(start), None));
        assert!(!within.has_passed(from, at("2030-01-01T02:00:59Z")));
        assert!(within.has_passed(from, start));
        assert_eq!(within.passed_up_to(start), Some(from));
        let none = Within::new(&spec()).unwrap();
        assert!(!none.has_passed(from, Timestamp::MAX));
        assert_eq!(within.deadlines(Timestamp::MAX).0, Some(Timestamp::MAX));
    }

    #[test]
    fn each_wrong_duration_is_named() {
        let negative: Schedule =
            serde_json::from_str(r#"{"run":{"kind":"k"},"cron":["@daily"],"end_within":"-5m"}"#)
                .unwrap();
        for (spec, says) in [
            (
                spec().start_within(Duration::ZERO),
                "start_within: 0s fails every run",
            ),
            (negative, "end_within: "),
            (
                spec()
                    .offset(MINUTE)
                    .jitter(MINUTE)
                    .start_within(2 * MINUTE),
                "start_within: 2m is over when a run is due, up to 2m after its time",
            ),
            (
                spec().offset(2 * MINUTE).end_within(MINUTE),
                "end_within: 1m is over when a run is due",
            ),
            (
                spec().start_within(2 * MINUTE).end_within(MINUTE),
                "end_within: 1m is less than start_within, 2m",
            ),
        ] {
            let refused = spec.check("s", at("2030-01-01T00:00:00Z")).unwrap_err();
            assert!(refused.to_string().starts_with(says), "{refused}");
        }
    }
}
