use std::time::Duration;

use super::*;
use crate::{
    NewTask,
    schedule::{Missed, Overlap},
};

fn spec() -> Schedule {
    Schedule::new(NewTask::new("report"))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const NOW: &str = "2030-01-01T00:00:00Z";
const HOUR: Duration = Duration::from_secs(3600);

fn listed(spec: &Schedule, after: &str, count: usize) -> Vec<String> {
    let times = spec.preview("s", at(after), count).unwrap();
    times.iter().map(|time| time.nominal.to_string()).collect()
}

#[test]
fn cron_intervals_and_times_come_together_minus_exclusions() {
    let spec = spec()
        .cron("0 6 * * *")
        .cron("0 18 * * *")
        .every(12 * HOUR, at("2030-01-01T06:00:00Z"))
        .at(at("2030-01-02T09:30:00Z"))
        .except_date("2030-01-03".parse().unwrap())
        .except_cron("0 18 * * WED")
        .except_at(at("2030-01-01T06:00:00Z"));
    let expected = [
        "2030-01-01T18:00:00Z",
        "2030-01-02T06:00:00Z",
        "2030-01-02T09:30:00Z",
        "2030-01-04T06:00:00Z",
    ];
    assert_eq!(listed(&spec, NOW, 4), expected);
}

/// More seconds in a row are excluded than anyone counts one by one.
#[test]
fn a_schedule_of_seconds_goes_on_after_a_day_that_is_excluded() {
    let seconds = |spec: Schedule| spec.every(Duration::from_secs(1), None).cron("* * * * * *");
    let day = seconds(spec()).except_date("2030-01-01".parse().unwrap());
    let expected = ["2030-01-01T23:00:00Z", "2030-01-01T23:00:01Z"];
    let after = "2029-12-31T22:59:59.5Z";
    assert_eq!(listed(&day.zone("Europe/Berlin"), after, 2), expected);
    let weekdays = seconds(spec()).except_cron("* * * * * MON-FRI");
    assert_eq!(listed(&weekdays, NOW, 1), ["2030-01-05T00:00:00Z"]);
    let never = seconds(spec()).except_cron("* * * * * *");
    let refused = never.check("s", at(NOW)).unwrap_err();
    assert!(refused.reason().contains("each is excluded"), "{refused}");
}

#[test]
fn start_and_end_bound_the_nominal_times_and_are_included() {
    let spec = spec()
        .cron("@daily")
        .start(at("2030-01-03T00:00:00Z"))
        .end(at("2030-01-04T00:00:00Z"));
    let expected = ["2030-01-03T00:00:00Z", "2030-01-04T00:00:00Z"];
    assert_eq!(listed(&spec, NOW, 5), expected);
}

#[test]
fn an_interval_follows_elapsed_time_where_the_clocks_change() {
    let spec = spec()
        .every(6 * HOUR, at("2030-03-30T00:00:00Z"))
        .zone("Europe/Berlin");
    let expected = ["2030-03-31T00:00:00Z", "2030-03-31T06:00:00Z"];
    assert_eq!(listed(&spec, "2030-03-30T23:00:00Z", 2), expected);
    let before = "1960-01-01T01:00:00Z";
    assert_eq!(listed(&spec, before, 1), ["1960-01-01T06:00:00Z"]);
}

#[test]
fn a_run_is_due_after_its_offset_and_a_jitter_that_never_changes() {
    let spec = spec().cron("@hourly").offset(HOUR / 12).jitter(HOUR / 2);
    let times = spec.preview("s", at(NOW), 100).unwrap();
    let waits: Vec<_> = times
        .iter()
        .map(|t| t.due.duration_since(t.nominal))
        .collect();
    let bounds = SignedDuration::from_secs(300)..SignedDuration::from_secs(2100);
    assert!(waits.iter().all(|wait| bounds.contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
    assert_eq!(spec.preview("s", at(NOW), 100).unwrap(), times);
    assert_ne!(spec.preview("t", at(NOW), 100).unwrap(), times);
}

#[test]
fn the_jitter_never_passes_the_next_nominal_time() {
    // Most times are an hour apart, some five minutes: only the hour is checked.
    let mut spec = spec().cron("@hourly").jitter(HOUR);
    for day in 1..30 {
        spec = spec.at(at(&format!("2031-01-{day:02}T00:05:00Z")));
    }
    spec.check("s", at(NOW)).unwrap();
    let times = spec.preview("s", at("2031-01-01T00:00:00Z"), 400).unwrap();
    for pair in times.windows(2) {
        assert!(pair[0].due < pair[1].nominal, "{pair:?}");
    }
}

#[test]
fn each_wrong_field_is_named() {
    let day = 24 * HOUR;
    let negative: Schedule =
        serde_json::from_str(r#"{"run":{"kind":"k"},"cron":["@daily"],"offset":"-5m"}"#).unwrap();
    let wrong = [
        ("cron", spec().cron("0 0 30 2 *")),
        ("except.cron", spec().cron("@daily").except_cron("nonsense")),
        ("zone", spec().cron("@daily").zone("Europe/Atlantis")),
        (
            "end",
            spec()
                .cron("@daily")
                .start(at(NOW))
                .end(at("2029-01-01T00:00:00Z")),
        ),
        ("jitter", spec().cron("@daily").jitter(day + HOUR)),
        ("jitter", spec().every(HOUR, None).jitter(2 * HOUR)),
        ("offset", negative),
        ("every", spec().every(Duration::ZERO, None)),
        ("count", spec().cron("@daily").count(0)),
        ("overlap", spec().cron("@daily").overlap(Overlap::Allow(0))),
        (
            "overlap",
            spec().cron("@daily").overlap(Overlap::Allow(1_001)),
        ),
        ("schedule", spec()),
        ("schedule", spec().at(at("2029-01-01T00:00:00Z"))),
        (
            "schedule",
            spec().cron("@daily").end(at("2029-01-01T00:00:00Z")),
        ),
        ("schedule", spec().cron("@daily").except_cron("* * * * *")),
        ("kind", Schedule::new(NewTask::new("")).cron("@daily")),
        (
            "run.labels",
            Schedule::new(NewTask::new("k").label("schedule", "x")).cron("@daily"),
        ),
    ];
    for (field, spec) in wrong {
        let error = spec.check("s", at(NOW)).unwrap_err();
        assert_eq!(error.field(), field, "{error}");
    }
    let long = "x".repeat(129);
    for id in ["", "a/b", "a,b", &long] {
        let error = spec().cron("@daily").check(id, at(NOW)).unwrap_err();
        assert_eq!(error.field(), "id", "{error}");
    }
}

#[test]
fn the_json_form_is_short_and_survives() {
    let spec = spec()
        .cron("@daily")
        .zone("Europe/Berlin")
        .missed(Missed::All, 2 * HOUR)
        .overlap(Overlap::Allow(3));
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(
        text,
        r#"{"run":{"kind":"report"},"cron":["@daily"],"zone":"Europe/Berlin","overlap":{"allow":3},"missed":{"run":"all","within":"2h"}}"#
    );
    assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), spec);
}

#[test]
fn times_that_a_change_of_the_zone_moves_do_not_come_twice() {
    // 11:00 was handled at 09:00 UTC, by rules that said +02. By the present rules it is 10:00 UTC.
    let spec = spec().cron("0 11 * * *").zone("Europe/Berlin");
    let times = Times::new("s", &spec).unwrap();
    let cursor = Cursor {
        last: at("2030-01-10T09:00:00Z"),
        local: Some("2030-01-10T11:00:00".parse().unwrap()),
    };
    assert_eq!(times.next(cursor), Some(at("2030-01-11T10:00:00Z")));
    // Steps follow elapsed time: none is left out.
    let steps = Times::new("s", &spec.cron("*/30 * * * *")).unwrap();
    assert_eq!(steps.next(cursor), Some(at("2030-01-10T09:30:00Z")));
}

#[test]
fn limits_are_kept_and_what_fits_one_run_is_refused() {
    let limit = windlass_statemachine::Limit::at_once("db", 1).unwrap();
    let run = || NewTask::new("report");
    let spec = Schedule::new(run().limit(limit.clone()));
    let spec = spec.cron("@daily");
    spec.check("s", at(NOW)).unwrap();
    let read =
        Schedule::from_json(&windlass_statemachine::Json::new("schedule", &spec).unwrap()).unwrap();
    let task = read.run.task("s@1".parse().unwrap(), Default::default());
    assert_eq!(task.unwrap().limits, [limit]);
    for (run, field) in [
        (run().start_at(at(NOW)), "start_at"),
        (run().after(["a"]), "after"),
        (run().start_by(at(NOW)), "start_by"),
        (run().end_within(HOUR), "end_by"),
        (run().unique("a", HOUR), "unique"),
    ] {
        let refused = Schedule::new(run).cron("@daily").check("s", at(NOW));
        let refused = refused.unwrap_err();
        assert_eq!(refused.field(), field);
        let instead = field
            .strip_suffix("_by")
            .map(|what| format!("'{what}_within'"));
        let instead = instead.unwrap_or_else(|| "leave it out".to_owned());
        assert!(refused.to_string().contains(&instead), "{refused}");
    }
}

#[test]
fn a_cron_expression_after_its_last_year_is_refused_with_that_reason() {
    let spec = spec().cron("@daily").start(at("9000-01-01T00:00:00Z"));
    let refused = spec.check("s", at(NOW)).unwrap_err();
    assert!(
        refused.reason().contains("before the year 5000"),
        "{refused}"
    );
}

proptest::proptest! {
    #[test]
    fn no_schedule_fails_at_the_end_of_time(
        before in 0_i64..40_000_000,
        every in 1_i64..40_000_000,
        offset in 0_i64..=i64::MAX,
        jitter in 0_i64..40_000_000,
        within in 1_i64..=i64::MAX,
        zone in proptest::sample::select(vec!["UTC", "Pacific/Kiritimati", "America/Los_Angeles"]),
    ) {
        let start = Timestamp::MAX - SignedDuration::from_secs(before);
        let seconds = |n: i64| Duration::from_secs(n.unsigned_abs());
        let plain = spec().every(seconds(every), start).start(start).zone(zone).at(Timestamp::MAX);
        let spec = plain.offset(seconds(offset)).jitter(seconds(jitter)).start_within(seconds(within));
        // Whether the fields fit together is not what is tested: each gives an answer.
        drop(spec.check("s", start));
        if let Ok(times) = spec.preview("s", start, 5) {
            proptest::prop_assert!(times.windows(2).all(|pair| pair[0].nominal < pair[1].nominal));
            proptest::prop_assert!(times.iter().all(|time| time.due >= time.nominal));
        }
        let cron = self::spec().cron("@hourly").start(start).zone(zone);
        proptest::prop_assert!(cron.check("s", start).is_err());
        proptest::prop_assert!(cron.preview("s", start, 5).is_ok_and(|times| times.is_empty()));
    }
}
