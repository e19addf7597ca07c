//! [`Due`]: decides which of the times that have passed submit a run.

use jiff::{SignedDuration, Timestamp};

use super::{
    left_out::{LeftOut, Why},
    missed::Missed,
    tally::Tally,
    times::{Cursor, Times, before},
};

/// How long after its due time a run counts as late. A time that is decided later than this was
/// missed.
pub(crate) const LATE_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The most runs that one write submits.
pub(crate) const RUNS_AT_ONCE: usize = 50;

/// The most times that one run of the handler looks at.
const LOOKED_AT: usize = 10_000;

/// The times that have passed since the last one that was decided.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// The times to run, oldest first, and whether each is late.
    pub(crate) run: Vec<(Timestamp, bool)>,
    /// The times that were missed and are not made up for.
    pub(crate) missed: Option<LeftOut>,
    /// The last of the times, whether it runs or was missed.
    pub(crate) last: Option<Timestamp>,
    /// Whether more times may have passed.
    pub(crate) more: bool,
}

impl Due {
    /// Returns the times that are due at `now`. Those that were due by `missed_to` were missed, however long ago that is.
    pub(crate) fn new(
        times: &Times,
        mut cursor: Cursor,
        (now, missed_to): (Timestamp, Option<Timestamp>),
    ) -> Self {
        let missed = &times.spec().missed;
        let within = missed.within.0;
        let mut found = Self::default();
        // Only under `last`, once a time is late: the newest time so far, and whether it is late.
        let mut newest = found.pass_missed(times, &mut cursor, (now, missed_to));
        for looked in 1.. {
            let Some((nominal, age)) = next(times, cursor, now) else {
                break;
            };
            cursor = nominal.into();
            found.last = Some(nominal);
            let late = age > LATE_AFTER || missed_to.is_some_and(|to| times.due(nominal) <= to);
            match missed.run {
                // The run would miss its deadline at once.
                _ if times.within().has_passed(nominal, now) => found.miss(nominal),
                _ if !late && newest.is_none() => found.run.push((nominal, false)),
                _ if !late => {
                    found.replace(&mut newest, (nominal, false));
                }
                Missed::None => found.miss(nominal),
                _ if age > within => found.miss(nominal),
                Missed::Last => found.replace(&mut newest, (nominal, true)),
                Missed::All => found.run.push((nominal, true)),
            }
            if found.run.len() >= RUNS_AT_ONCE || looked >= LOOKED_AT {
                found.more = true;
                break;
            }
        }
        // A later time may replace it.
        match newest {
            Some((nominal, _)) if found.more && next(times, cursor, now).is_some() => {
                found.miss(nominal);
            }
            newest => found.run.extend(newest),
        }
        found
    }

    /// Counts the times that are certainly missed, and moves the cursor to the last of them. Returns the newest
    /// time so far that may run late, under `last`.
    fn pass_missed(
        &mut self,
        times: &Times,
        cursor: &mut Cursor,
        (now, missed_to): (Timestamp, Option<Timestamp>),
    ) -> Option<(Timestamp, bool)> {
        let missed = &times.spec().missed;
        // Every time before the returned one was due more than `age` ago.
        let older_than = |age: SignedDuration| {
            let since = age.saturating_add(times.delay());
            before(now.checked_sub(since).unwrap_or(Timestamp::MIN))
        };
        // The same for the times before the end of a pause.
        let paused = missed_to.and_then(|to| to.checked_sub(times.delay()).ok());
        let late = older_than(LATE_AFTER);
        let late = paused.map_or(late, |to| late.max(before(to)));
        let too_old = match missed.run {
            Missed::None => late,
            Missed::Last | Missed::All => older_than(missed.within.0.max(LATE_AFTER)),
        };
        let failed = times.within().passed_up_to(now);
        if let Some((first, tally)) =
            self.tally(times, cursor, failed.map_or(too_old, |at| at.max(too_old)))
        {
            self.miss_all(tally.left_out(first, Why::Missed));
        }
        if missed.run != Missed::Last {
            return None;
        }
        // The last of these times replaces the others.
        let (first, tally) = self.tally(times, cursor, late)?;
        let newest = tally.last.map(|last| (last, true));
        let others = Tally {
            times: tally.times.saturating_sub(1),
            last: tally.before_last,
            before_last: None,
        };
        self.miss_all(others.left_out(first, Why::Missed));
        newest
    }

    /// Moves the cursor over the times up to `to`. Returns the first of them, and their tally.
    fn tally(
        &mut self,
        times: &Times,
        cursor: &mut Cursor,
        to: Timestamp,
    ) -> Option<(Timestamp, Tally)> {
        let first = times.next(*cursor).filter(|first| *first <= to)?;
        let tally = Tally::of(times, first, to);
        *cursor = tally.last?.into();
        self.last = tally.last;
        Some((first, tally))
    }

    fn miss_all(&mut self, missed: Option<LeftOut>) {
        let Some(missed) = missed else {
            return;
        };
        match &mut self.missed {
            Some(all) => all.add(&missed),
            None => self.missed = Some(missed),
        }
    }

    /// Counts a time that is not made up for.
    fn miss(&mut self, nominal: Timestamp) {
        self.miss_all(Some(LeftOut::one(nominal, Why::Missed)));
    }

    /// Replaces an earlier time by a newer one, which runs instead.
    fn replace(&mut self, newest: &mut Option<(Timestamp, bool)>, newer: (Timestamp, bool)) {
        if let Some((earlier, _)) = newest.replace(newer) {
            self.miss(earlier);
        }
    }
}

/// Returns the next time if it is due, and how long it has been due.
fn next(times: &Times, cursor: Cursor, now: Timestamp) -> Option<(Timestamp, SignedDuration)> {
    let nominal = times.next(cursor)?;
    let age = now.duration_since(times.due(nominal));
    (!age.is_negative()).then_some((nominal, age))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{NewTask, schedule::Schedule};

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn due(spec: &Schedule, last: &str, now: &str) -> Due {
        let times = Times::new("s", spec).unwrap();
        Due::new(&times, at(last).into(), (at(now), None))
    }

    fn hourly() -> Schedule {
        Schedule::new(NewTask::new("k")).cron("@hourly")
    }

    fn runs(due: &Due) -> Vec<String> {
        let run =
            |(at, late): &(Timestamp, bool)| format!("{at}{}", if *late { " late" } else { "" });
        due.run.iter().map(run).collect()
    }

    fn missed(due: &Due) -> u64 {
        due.missed.as_ref().map_or(0, |missed| missed.times)
    }

    #[test]
    fn a_time_is_due_from_its_due_time_on() {
        let spec = hourly().offset(5 * MINUTE);
        assert_eq!(
            due(&spec, "2030-01-01T00:00:00Z", "2030-01-01T01:04:59Z"),
            Due::default()
        );
        let now = due(&spec, "2030-01-01T00:00:00Z", "2030-01-01T01:05:00Z");
        assert_eq!(runs(&now), ["2030-01-01T01:00:00Z"]);
    }

    #[test]
    fn two_weeks_offline_run_the_last_time_within_the_hour() {
        let spec = hourly();
        let (last, now) = ("2030-01-01T00:00:00Z", "2030-01-15T00:30:00Z");
        let found = due(&spec, last, now);
        assert_eq!(runs(&found), ["2030-01-15T00:00:00Z late"]);
        assert_eq!(missed(&found), 14 * 24 - 1);
        assert_eq!(found.last, Some(at("2030-01-15T00:00:00Z")));
        let found = due(&spec.clone().missed(Missed::None, 60 * MINUTE), last, now);
        assert_eq!((runs(&found).len(), missed(&found)), (0, 14 * 24));
        let found = due(&spec.missed(Missed::All, 3 * 60 * MINUTE), last, now);
        assert_eq!(
            runs(&found).len(),
            3,
            "01:00 of 3 hours before is too old by half an hour"
        );
        assert_eq!(missed(&found), 14 * 24 - 3);
    }

    #[test]
    fn years_of_seconds_are_counted_at_once_and_none_is_lost() {
        let seconds = Schedule::new(NewTask::new("k")).every(Duration::from_secs(1), None);
        let (epoch, now) = ("1970-01-01T00:00:00Z", "2030-01-15T00:00:00Z");
        let total = at(now).as_second() as u64;
        for spec in [
            seconds.clone(),
            Schedule::new(NewTask::new("k")).cron("* * * * * *"),
        ] {
            let found = due(&spec, epoch, now);
            assert_eq!(found.run, [(at(now), false)], "the last of all");
            assert_eq!(missed(&found), total - 1);
            let left_out = found.missed.clone().unwrap();
            assert_eq!(
                (left_out.first, left_out.last),
                (at("1970-01-01T00:00:01Z"), at("2030-01-14T23:59:59Z"))
            );
            assert!(!found.more, "one write says all of it");
        }
        // All times of the last 60 years may run, and one of them does.
        let all_within = seconds
            .clone()
            .missed(Missed::Last, 60 * 366 * 24 * 60 * MINUTE);
        let found = due(
            &all_within.offset(2 * MINUTE).jitter(Duration::from_secs(1)),
            epoch,
            now,
        );
        assert_eq!(
            (found.run.len() as u64 + missed(&found), found.more),
            (total - 121, false)
        );
        let none = seconds.clone().missed(Missed::None, MINUTE);
        let found = due(&none, epoch, now);
        assert_eq!(
            (found.run.len(), missed(&found)),
            (50, total - 61),
            "50 of the last minute are a write"
        );
        // The times of the last ten minutes start in time.
        let in_time = seconds
            .missed(Missed::All, 60 * MINUTE)
            .start_within(10 * MINUTE);
        let found = due(&in_time, epoch, now);
        assert_eq!((found.run.len(), missed(&found)), (50, total - 600));
    }

    #[test]
    fn times_of_the_last_minute_are_not_missed() {
        let spec = Schedule::new(NewTask::new("k"))
            .cron("*/20 * * * * *")
            .missed(Missed::None, MINUTE);
        let found = due(&spec, "2030-01-01T00:00:00Z", "2030-01-01T00:02:10Z");
        let expected = [
            "2030-01-01T00:01:20Z",
            "2030-01-01T00:01:40Z",
            "2030-01-01T00:02:00Z",
        ];
        assert_eq!(runs(&found), expected);
        assert_eq!(missed(&found), 3);
    }

    /// Each of them ran, whatever the schedule does with missed times: they were not a minute old.
    #[test]
    fn times_of_a_short_pause_that_is_caught_up_were_missed() {
        let (last, now) = ("2030-01-01T00:00:00Z", "2030-01-01T00:00:55Z");
        let caught_up = |missed: Missed| {
            let spec = Schedule::new(NewTask::new("k")).cron("*/10 * * * * *");
            let times = Times::new("s", &spec.missed(missed, 60 * MINUTE)).unwrap();
            let pause = Some(at("2030-01-01T00:00:40Z"));
            let found = Due::new(&times, at(last).into(), (at(now), pause));
            (runs(&found), self::missed(&found))
        };
        let after = "2030-01-01T00:00:50Z".to_owned();
        assert_eq!(caught_up(Missed::None), (vec![after.clone()], 4));
        assert_eq!(caught_up(Missed::Last), (vec![after.clone()], 4));
        let mut all: Vec<String> = (1..5)
            .map(|n| format!("2030-01-01T00:00:{n}0Z late"))
            .collect();
        all.push(after);
        assert_eq!(caught_up(Missed::All), (all, 0));
    }

    #[test]
    fn the_newest_time_runs_after_an_outage() {
        let spec = Schedule::new(NewTask::new("k")).cron("*/20 * * * * *");
        let spec = spec.missed(Missed::Last, 60 * MINUTE);
        let found = due(&spec, "2030-01-01T00:00:00Z", "2030-01-01T00:02:10Z");
        assert_eq!(runs(&found), ["2030-01-01T00:02:00Z"]);
        assert_eq!(missed(&found), 5);
    }
}
