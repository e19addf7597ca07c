use std::time::{Duration, Instant};

use super::*;
use crate::{
    NewTask,
    schedule::{Gap, Schedule, times::before},
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn spec() -> Schedule {
    Schedule::new(NewTask::new("k"))
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Counts by visiting each time.
fn visited(times: &Times, first: Timestamp, to: Timestamp) -> Tally {
    let mut tally = Tally::default();
    let mut cursor = before(first);
    while let Some(nominal) = times.next(cursor.into())
        && nominal <= to
    {
        cursor = nominal;
        tally.before_last = tally.last.replace(nominal);
        tally.times += 1;
    }
    tally
}

/// Schedules of every kind of time.
fn specs() -> Vec<Schedule> {
    let fraction = at("2030-03-30T00:00:00.25Z");
    vec![
        spec().every(seconds(7), None),
        spec().every(seconds(5000), fraction),
        spec()
            .every(Duration::from_millis(1500), None)
            .every(seconds(60), fraction),
        spec()
            .every(seconds(97), None)
            .every(seconds(3 * 24 * 3600), None)
            .cron("*/7 * * * *"),
        spec().cron("13 * * * * *"),
        spec().every_months(1, at("2029-12-31T01:30:00Z")),
        spec()
            .every_months(1, at("2029-12-31T01:30:00.5Z"))
            .every_months(3, None)
            .cron("30 2 L-3 * *")
            .cron("@every 7h"),
        spec()
            .every_months(1, at("2030-01-27T00:30:00Z"))
            .fold(Fold::Both)
            .gap(Gap::Skip),
        spec().cron("0 0 3 * * FRI-MON 2030"),
        spec().cron("30 2 * * *").cron("*/20 * * * *"),
        spec().cron("0,30 2 * * *").gap(Gap::Skip),
        spec()
            .cron("30 2 * * *")
            .cron("45 1 * * *")
            .fold(Fold::Both),
        spec()
            .cron("0 12 * * *")
            .cron("15 2 * * *")
            .cron("50 23 * * *"),
        spec()
            .cron("*/5 * * * *")
            .except_cron("*/15 8-9 * * *")
            .except_date("2030-03-31".parse().unwrap())
            .except_at(at("2030-03-30T12:05:00Z"))
            .at(at("2030-03-30T12:05:30Z"))
            .at(at("2030-03-30T12:10:00Z"))
            .at(at("2030-03-30T09:15:00Z"))
            .at(fraction),
        // Out of order, and some twice.
        spec()
            .every(Duration::from_millis(1500), None)
            .at(at("2030-03-31T01:00:00.75Z"))
            .at(fraction)
            .at(fraction)
            .except_at(at("2030-03-31T09:00:01.5Z"))
            .except_at(at("2030-03-31T00:59:58.5Z"))
            .except_at(at("2030-03-30T12:05:00Z"))
            .except_at(at("2030-03-31T00:59:58.5Z"))
            .except_date("2030-10-27".parse().unwrap())
            .except_date("2030-04-01".parse().unwrap()),
        spec()
            .cron("* * * * *")
            .start(at("2030-03-30T05:00:00Z"))
            .end(at("2030-10-27T01:10:00Z")),
    ]
}

#[test]
fn a_tally_is_what_a_visit_of_each_time_counts() {
    // Spans around changes of the clocks, and where a zone skips a day.
    let spans = [
        (
            "Europe/Berlin",
            "2030-03-30T00:30:00.5Z",
            "2030-04-01T01:07:00Z",
        ),
        (
            "Europe/Berlin",
            "2030-10-26T22:00:00Z",
            "2030-10-28T00:00:00Z",
        ),
        (
            "Europe/Berlin",
            "2030-10-27T00:40:00Z",
            "2030-10-27T01:20:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "2030-04-06T11:00:00Z",
            "2030-04-07T16:00:00Z",
        ),
        (
            "Australia/Lord_Howe",
            "2030-10-05T15:30:00Z",
            "2030-10-06T11:00:00Z",
        ),
        (
            "Pacific/Apia",
            "2011-12-29T03:00:00Z",
            "2011-12-31T12:00:00Z",
        ),
        (
            "America/New_York",
            "2030-03-30T12:00:00Z",
            "2030-03-31T12:00:00.75Z",
        ),
        ("UTC", "1969-12-30T23:59:58.5Z", "1970-01-01T00:00:01Z"),
    ];
    for (number, spec) in specs().into_iter().enumerate() {
        for (zone, first, to) in spans {
            let times = Times::new("s", &spec.clone().zone(zone)).unwrap();
            let (first, to) = (at(first), at(to));
            let tally = Tally::of(&times, first, to);
            assert_eq!(tally, visited(&times, first, to), "{number} {zone} {first}");
        }
    }
}

#[test]
fn sixty_years_are_counted_without_a_visit_of_each_time() {
    let year = 365 * 24 * 3600;
    let (first, to) = (Timestamp::UNIX_EPOCH, at("2030-01-01T00:00:00Z"));
    let total = to.as_second() as u64 + 1;
    let cases = [
        (spec().every(seconds(1), None), total),
        (spec().cron("* * * * * *"), total),
        (spec().cron("* * * * * *").zone("Europe/Berlin"), total),
        (spec().cron("* * * * * *").every(seconds(7), None), total),
        (
            spec().every(seconds(7), None).every(seconds(49), None),
            total.div_ceil(7),
        ),
        (spec().every(seconds(year), None), 61),
    ];
    for (spec, expected) in cases {
        let times = Times::new("s", &spec).unwrap();
        let began = Instant::now();
        assert_eq!(Tally::of(&times, first, to).times, expected, "{spec:?}");
        // Visiting each time would take minutes.
        assert!(began.elapsed() < Duration::from_secs(20), "{spec:?}");
    }
}

#[test]
fn thousands_of_excluded_times_are_not_compared_with_each_day_of_a_century() {
    let single =
        (0..10_000).map(|n| at("2031-01-01T00:00:00Z") + jiff::SignedDuration::from_secs(n));
    let all = single.fold(spec(), |spec, time| spec.at(time).except_at(time));
    let days = (0..10_000).map(|n| jiff::civil::date(2010, 1, 1) + jiff::Span::new().days(n));
    let daily = all.clone().cron("@daily").except_cron("@daily");
    let daily = days.fold(daily, |spec, day| spec.except_date(day));
    let from = at("2030-01-01T00:00:00Z");
    for spec in [all, daily] {
        let times = Times::new("s", &spec).unwrap();
        let began = Instant::now();
        assert_eq!(times.next(from.into()), None);
        // To compare each of them with each day takes a minute.
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}

#[test]
fn single_times_of_which_many_are_excluded_end_with_the_last_of_them() {
    let single = |n: i64| at("2031-01-01T00:00:00Z") + jiff::SignedDuration::from_secs(n);
    let all = (0..3000).fold(spec(), |spec, n| spec.at(single(n)));
    let spec = (0..2999).fold(all, |spec, n| spec.except_at(single(n)));
    let times = Times::new("s", &spec).unwrap();
    let found = times.next(at("2030-01-01T00:00:00Z").into());
    assert_eq!(found, Some(single(2999)));
    assert_eq!(times.next(single(2999).into()), None);
}
