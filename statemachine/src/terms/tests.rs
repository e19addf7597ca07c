//! Tests of the terms.

use super::*;
use crate::Task;

#[test]
fn a_wrong_limit_names_its_field() {
    for (text, field) in [
        (r#"{"key":"","at_once":1}"#, "limits.key: "),
        (r#"{"key":"a/b","at_once":1}"#, "limits.key: "),
        (r#"{"key":"a","at_once":0}"#, "limits.at_once: "),
        (
            r#"{"key":"a","starts":10001,"within":"1m"}"#,
            "limits.starts: ",
        ),
        (
            r#"{"key":"a","starts":1,"within":"169h"}"#,
            "limits.within: ",
        ),
        (
            r#"{"key":"a","at_once":0}"#,
            "limits.at_once: 0 is not from 1 to 10000",
        ),
        (
            r#"{"key":"a","at_once":1.5}"#,
            "is 1.5, not a whole number from 1 to 10000",
        ),
        (r#"{"key":"a","starts":1}"#, "limits: need"),
        (r#"{"key":"a"}"#, "limits: need"),
        (r#"{"key":"a","at_once":1,"within":"1m"}"#, "limits: need"),
    ] {
        let error = serde_json::from_str::<Limit>(text).unwrap_err();
        assert!(error.to_string().starts_with(field), "{text}: {error}");
    }
    let error = serde_json::from_str::<Unique>(r#"{"key":"a","within":"0s"}"#).unwrap_err();
    assert!(error.to_string().starts_with("unique.within: "), "{error}");
}

#[test]
fn terms_that_do_not_fit_together_name_the_field() {
    let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
    let (early, late) = (at("2030-01-01T00:00:00Z"), at("2030-01-02T00:00:00Z"));
    let plain = Task::new("a".parse().unwrap(), "k".parse().unwrap());
    let limit = |n| Limit::at_once("a", n).unwrap();
    let rate = Limit::starts("a", 1, Duration::from_secs(1)).unwrap();
    let many = (0..9).map(|n| Limit::at_once(n.to_string(), 1).unwrap());
    for (task, field) in [
        (
            Task {
                limits: vec![limit(1), limit(2)],
                ..plain.clone()
            },
            Some("limits"),
        ),
        (
            Task {
                limits: many.collect(),
                ..plain.clone()
            },
            Some("limits"),
        ),
        (
            Task {
                limits: vec![limit(1), rate],
                ..plain.clone()
            },
            None,
        ),
        (
            Task {
                start_at: late,
                start_by: early,
                ..plain.clone()
            },
            Some("start_by"),
        ),
        (
            Task {
                start_at: late,
                end_by: early,
                ..plain.clone()
            },
            Some("end_by"),
        ),
        (
            Task {
                start_by: late,
                end_by: early,
                ..plain.clone()
            },
            Some("end_by"),
        ),
        (
            Task {
                start_at: early,
                start_by: late,
                end_by: late,
                ..plain
            },
            None,
        ),
    ] {
        let wrong = task.check(1 << 20).err();
        assert_eq!(wrong.as_ref().map(Invalid::field), field, "{wrong:?}");
    }
}

#[test]
fn a_length_of_time_may_have_days() {
    let text = r#"{"key":"a","starts":1,"within":"7d"}"#;
    let week = Duration::from_secs(7 * 24 * 3600);
    let limit = serde_json::from_str::<Limit>(text).unwrap();
    assert_eq!(limit, Limit::starts("a", 1, week).unwrap());
    let negative = r#"{"key":"a","within":"-1h"}"#;
    assert!(serde_json::from_str::<Unique>(negative).is_err());
}
