//! The policies that ship with windlass.

use proptest::prelude::*;

use super::*;
use crate::{Fence, TaskState};

fn errors(times: &[i64]) -> Vec<ErrorEntry> {
    times
        .iter()
        .map(|s| ErrorEntry::new(Timestamp::from_second(*s).unwrap(), "no"))
        .collect()
}

fn ask(policy: &Retry, errors: &[ErrorEntry], attempts: u32, jitter: f64) -> Decision {
    let now = errors.last().unwrap().timestamp;
    policy.decide(&Failure {
        errors,
        attempts,
        now,
        jitter,
    })
}

#[test]
fn the_eighth_strike_within_the_window_fails() {
    let policy = Retry::strikes();
    let seven = errors(&[0, 1, 2, 3, 4, 5, 6]);
    let ten_minutes = Decision::Sleep(Wake::After(Duration::from_secs(600)));
    assert_eq!(ask(&policy, &seven, 7, 0.5), ten_minutes);
    let eight = errors(&[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(ask(&policy, &eight, 8, 0.5), Decision::Fail);
    // The first error is older than the window, so the task does not fail yet.
    let spread = errors(&[0, 1, 2, 3, 4, 5, 6, 4 * 3600 + 1]);
    assert_eq!(ask(&policy, &spread, 8, 0.5), ten_minutes);
}

#[test]
fn the_default_makes_eight_attempts_in_about_a_minute() {
    let (policy, log) = (Retry::default(), errors(&[0]));
    let mut total = Duration::ZERO;
    for attempts in 1..8 {
        match ask(&policy, &log, attempts, 0.5) {
            Decision::Sleep(Wake::After(wait)) => total += wait,
            other => panic!("{attempts}: {other:?}"),
        }
    }
    assert_eq!(total, Duration::from_millis(63_500));
    assert_eq!(ask(&policy, &log, 8, 0.5), Decision::Fail);
    assert_eq!(
        ask(
            &Retry::exponential(u32::MAX, Duration::from_secs(300)),
            &log,
            50,
            1.0
        ),
        Decision::Sleep(Wake::After(Duration::from_secs(300)))
    );
}

#[test]
fn each_policy_says_how_many_attempts_are_left() {
    let seven = errors(&[-20_000, 0, 1, 2, 3, 4, 5]);
    let abandoned = Retry::Abandoned;
    for (policy, attempts, left) in [
        (Retry::strikes(), 7, 2),
        (Retry::default(), 1, 7),
        (Retry::default(), 9, 0),
        (Retry::Never, 1, 0),
        (abandoned, 1, MAX_ABANDONED - 1),
    ] {
        let now = seven[6].timestamp;
        let failure = Failure {
            errors: &seven,
            attempts,
            now,
            jitter: 0.5,
        };
        assert_eq!(policy.left(&failure), Some(left), "{policy:?}");
    }
}

#[test]
fn exponential_waits_grow_to_the_cap_and_end() {
    let policy = Retry::exponential(5, Duration::from_secs(3));
    let log = errors(&[0]);
    let wait = |attempts, jitter| match ask(&policy, &log, attempts, jitter) {
        Decision::Sleep(Wake::After(wait)) => wait.as_secs_f64(),
        other => panic!("{other:?}"),
    };
    assert_eq!(wait(1, 0.0), 0.0);
    assert_eq!(wait(1, 0.5), 0.5);
    assert_eq!(wait(2, 0.5), 1.0);
    assert_eq!(wait(3, 0.5), 1.5, "capped");
    assert_eq!(wait(4, 0.5), 1.5);
    assert_eq!(ask(&policy, &log, 5, 0.5), Decision::Fail);
}

#[test]
fn never_fails_at_once() {
    assert_eq!(ask(&Retry::Never, &errors(&[0]), 1, 0.0), Decision::Fail);
}

#[test]
fn only_an_abandoned_attempt_is_followed_by_another() {
    let policy = Retry::Abandoned;
    assert_eq!(ask(&policy, &errors(&[0]), 1, 0.0), Decision::Fail);
    let now = Timestamp::from_second(1).unwrap();
    let state = TaskState::new(now).claimed(Fence(2), Some("a"), now);
    let errors = state.errors.entries().to_vec();
    assert_eq!(ask(&policy, &errors, 1, 0.0), Decision::Run);
    assert_eq!(ask(&policy, &errors, MAX_ABANDONED - 1, 0.0), Decision::Run);
    assert_eq!(ask(&policy, &errors, MAX_ABANDONED, 0.0), Decision::Fail);
    // The text alone is not a lost node: a handler may return the same text.
    let same_text = [ErrorEntry::new(now, &errors[0].error)];
    assert_eq!(ask(&policy, &same_text, 1, 0.0), Decision::Fail);
}

#[test]
fn an_error_as_old_as_the_window_still_counts() {
    let policy = Retry::strikes();
    let window = 4 * 3600;
    let fails = |now| ask(&policy, &errors(&[0, 1, 2, 3, 4, 5, 6, now]), 8, 0.5);
    assert_eq!(fails(window), Decision::Fail);
    assert_ne!(fails(window + 1), Decision::Fail);
}

#[test]
fn what_a_stored_policy_leaves_out_has_its_default() {
    let strikes: Retry = serde_json::from_str(r#"{"policy":"strikes"}"#).unwrap();
    assert_eq!(strikes, Retry::strikes());
    let exponential: Retry = serde_json::from_str(r#"{"policy":"exponential"}"#).unwrap();
    assert_eq!(exponential, Retry::exponential(8, Duration::from_secs(300)));
}

/// A policy with the defaults of the trait.
#[derive(Debug)]
struct PolicyOfDefaults;

impl RetryPolicy for PolicyOfDefaults {
    fn decide(&self, _: &Failure<'_>) -> Decision {
        Decision::Fail
    }
}

#[test]
fn a_policy_that_counts_no_attempts_reports_no_number_of_them() {
    let one = errors(&[0]);
    let failure = Failure {
        errors: &one,
        attempts: 1,
        now: one[0].timestamp,
        jitter: 0.5,
    };
    assert_eq!(PolicyOfDefaults.left(&failure), None);
}

#[test]
fn a_task_keeps_8_errors_or_as_many_as_its_policy_counts() {
    let strikes = |errors| Retry::Strikes {
        errors,
        window: Duration::ZERO,
        sleep: Duration::ZERO,
    };
    assert_eq!(PolicyOfDefaults.keeps(), 8);
    for (policy, keeps) in [
        (Retry::Never, 8),
        (Retry::Abandoned, 8),
        (Retry::exponential(100, Duration::ZERO), 8),
        (strikes(3), 8),
        (strikes(20), 20),
    ] {
        assert_eq!(policy.keeps(), keeps, "{policy:?}");
    }
}

#[test]
fn a_policy_takes_the_numbers_of_its_range() {
    let second = Duration::from_secs(1);
    let week = Duration::from_secs(604_800);
    let over = week + Duration::from_nanos(1);
    let strikes = |errors, sleep| Retry::Strikes {
        errors,
        window: Duration::MAX,
        sleep,
    };
    let exponential = |base, factor, cap, attempts| Retry::Exponential {
        base,
        factor,
        cap,
        attempts,
    };
    for (retry, field) in [
        (strikes(1, week), None),
        (strikes(64, week), None),
        (strikes(0, week), Some("retry.errors")),
        (strikes(65, week), Some("retry.errors")),
        (strikes(1, over), Some("retry.sleep")),
        (exponential(week, 1.0, week, 1), None),
        (exponential(second, 1000.0, week, u32::MAX), None),
        (exponential(second, 2.0, week, 0), Some("retry.attempts")),
        (exponential(second, 0.99, week, 1), Some("retry.factor")),
        (exponential(second, 1000.1, week, 1), Some("retry.factor")),
        (exponential(second, f64::NAN, week, 1), Some("retry.factor")),
        (exponential(over, 2.0, week, 1), Some("retry.base")),
        (exponential(second, 2.0, over, 1), Some("retry.cap")),
        (Retry::Never, None),
        (Retry::Abandoned, None),
        (Retry::default(), None),
    ] {
        let refused = retry.check().err();
        let found = refused.as_ref().map(Invalid::field);
        assert_eq!(found, field, "{retry:?}");
    }
}

#[test]
fn golden_json() {
    for (retry, text) in [
        (
            Retry::strikes(),
            r#"{"policy":"strikes","errors":8,"window":"4h","sleep":"10m"}"#,
        ),
        (
            Retry::exponential(20, Duration::from_secs(90)),
            r#"{"policy":"exponential","base":"1s","factor":2.0,"cap":"1m 30s","attempts":20}"#,
        ),
        (Retry::Never, r#"{"policy":"never"}"#),
        (Retry::Abandoned, r#"{"policy":"abandoned"}"#),
    ] {
        assert_eq!(serde_json::to_string(&retry).unwrap(), text);
        assert_eq!(serde_json::from_str::<Retry>(text).unwrap(), retry);
    }
}

proptest! {
    #[test]
    fn no_policy_waits_longer_than_it_may(
        base in 0u64..10_000_000, factor in 1.0f64..1000.0, cap in 0u64..10_000_000,
        attempts in 1u32..u32::MAX, jitter in 0.0f64..1.0,
    ) {
        let policy = Retry::Exponential {
            base: Duration::from_secs(base), factor,
            cap: Duration::from_secs(cap), attempts: u32::MAX,
        };
        match ask(&policy, &errors(&[0]), attempts, jitter) {
            Decision::Sleep(Wake::After(wait)) => {
                prop_assert!(wait <= Duration::from_secs(cap).min(MAX_WAIT));
            }
            Decision::Fail => prop_assert_eq!(attempts, u32::MAX),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
