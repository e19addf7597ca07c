//! Failed attempts and what the retry policy makes of them.

use std::time::Duration;

use windlass_statemachine::{
    Command, Decision, ErrorEntry, Failure, Message, Retry, RetryPolicy, StateKind, TaskState,
    TaskStatus, Wake,
};

use super::{AtOnce, asleep, result};
use crate::common::{Rig, json, t, t0};

#[test]
fn an_error_asks_the_strikes_policy_which_parks_the_task_for_ten_minutes() {
    let mut rig = Rig::of(TaskState::new(t0()), Retry::strikes());
    rig.begin();
    let message = Message::error("disk full").with_data(&"kept");
    assert_eq!(
        rig.returned(message),
        ["write sleeping +600s: error sleep; drop"]
    );
    assert_eq!(rig.error(), "disk full");
    assert_eq!(rig.written().attempts, 1);
    assert_eq!(rig.written().data, Some(json("\"kept\"")));
    assert_eq!(rig.stored(), ["done sleeping"]);
}

#[test]
fn the_eighth_strike_fails_the_task() {
    let mut state = TaskState::new(t0());
    for n in 0..7 {
        state.errors.push(t(n), "no", 8);
    }
    state.attempts = 7;
    let mut rig = Rig::of(state, Retry::strikes());
    assert_eq!(rig.begin(), ["start 8"]);
    let out = rig.at(8).returned(Message::error("the last"));
    assert_eq!(out, ["write failed: error error; drop"]);
    assert_eq!(rig.written().errors.entries().len(), 8);
    assert_eq!((rig.error(), rig.written().attempts), ("the last", 8));
    assert_eq!(rig.stored(), ["done failed"]);
}

#[test]
fn the_default_policy_retries_within_a_second_and_fails_the_eighth_attempt() {
    let mut rig = Rig::running();
    rig.jitter = 0.999_999_999;
    let out = rig.returned(Message::error("disk full"));
    assert_eq!(out, ["write sleeping +0.999999999s: error sleep"]);
    assert_eq!(rig.written().attempts_left, Some(7));
    let mut state = TaskState::new(t0());
    state.attempts = 7;
    let mut rig = Rig::of(state, Retry::default());
    assert_eq!(rig.begin(), ["start 8"]);
    let out = rig.returned(Message::error("the last"));
    assert_eq!(out, ["write failed: error error; drop"]);
    assert_eq!(rig.written().attempts_left, None);
}

#[test]
fn the_attempts_that_are_left_go_with_the_next_progress() {
    let mut rig = Rig::of(TaskState::new(t0()), Retry::exponential(3, Duration::ZERO));
    rig.begin();
    rig.returned(Message::error("1"));
    assert_eq!(rig.written().attempts_left, Some(2));
    rig.stored();
    rig.stored();
    rig.returned(Message::run());
    assert_eq!(
        (rig.written().attempts, rig.written().attempts_left),
        (0, None)
    );
}

#[test]
fn an_error_that_no_retry_fixes_fails_the_task_whatever_the_policy_says() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    let message = Message::fail("no such address").with_data(&1);
    assert_eq!(rig.returned(message), ["write failed: error error; drop"]);
    assert_eq!(
        (rig.error(), rig.written().attempts),
        ("no such address", 1)
    );
    assert_eq!(rig.written().errors.total(), 1);
    assert_eq!(rig.written().data, Some(json("1")));
    assert_eq!(rig.stored(), ["done failed"]);
}

#[test]
fn a_kill_stands_above_an_error_that_no_retry_fixes() {
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    let out = rig.returned(Message::fail("no"));
    assert_eq!(
        out.last().unwrap(),
        "write killed: kill#1; 1 applied runnable killed; drop"
    );
}

#[test]
fn exponential_waits_that_are_short_are_held_and_the_attempts_counted() {
    let retry = Retry::exponential(3, Duration::from_secs(60));
    let mut rig = Rig::of(TaskState::new(t0()), retry);
    assert_eq!(rig.begin(), ["start 1"]);
    assert_eq!(
        rig.returned(Message::error("1")),
        ["write sleeping +0.5s: error sleep"]
    );
    assert_eq!(rig.stored(), ["arm wake +0.5s"]);
    assert_eq!(rig.at(1).wake(), ["write runnable: run"]);
    assert_eq!(rig.stored(), ["start 2"]);
    assert_eq!(
        rig.returned(Message::error("2")),
        ["write sleeping +2s: error sleep"]
    );
    assert_eq!(rig.at(2).stored(), ["write runnable: run"], "over already");
    assert_eq!(rig.stored(), ["start 3"]);
    assert_eq!(
        rig.returned(Message::error("3")),
        ["write failed: error error; drop"]
    );
}

#[test]
fn a_return_that_is_no_error_resets_the_attempts_and_a_release_does_not() {
    for (message, attempts) in [
        (Message::run(), 0),
        (Message::checkpoint(), 0),
        (Message::pause(), 0),
        (Message::sleep_until(t(5)), 0),
        (Message::release(), 2),
    ] {
        let mut state = TaskState::new(t0());
        state.attempts = 2;
        let mut rig = Rig::of(state, Retry::default());
        assert_eq!(rig.begin(), ["start 3"]);
        rig.returned(message);
        assert_eq!(rig.written().attempts, attempts);
    }
}

#[test]
fn a_policy_may_try_again_at_once() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    assert_eq!(
        rig.returned(Message::error("no")),
        ["write runnable: error run"]
    );
    assert_eq!(rig.stored(), ["start 2"]);
}

#[test]
fn a_policy_that_panics_counts_as_the_default_one() {
    #[derive(Debug)]
    struct Broken;
    impl RetryPolicy for Broken {
        fn decide(&self, _: &Failure<'_>) -> Decision {
            panic!("no policy")
        }
        fn keeps(&self) -> usize {
            panic!("nor this")
        }
        fn left(&self, _: &Failure<'_>) -> Option<u32> {
            panic!("nor that")
        }
    }
    let mut state = TaskState::new(t0());
    for n in 0..20 {
        state.errors.push(t(-100_000 + n), "old", 64);
    }
    let mut rig = Rig::of(state, Broken);
    assert_eq!(rig.begin(), ["start 1"]);
    let out = rig.returned(Message::error("no"));
    assert_eq!(out, ["write sleeping +0.5s: error sleep"]);
    assert_eq!(rig.written().errors.entries().len(), 8);
    assert_eq!(rig.written().errors.total(), 21);
}

#[test]
fn a_policy_that_asks_for_an_endless_sleep_gives_up() {
    #[derive(Debug)]
    struct Endless;
    impl RetryPolicy for Endless {
        fn decide(&self, _: &Failure<'_>) -> Decision {
            Decision::Sleep(Wake::After(Duration::MAX))
        }
    }
    let mut rig = Rig::of(TaskState::new(t0()), Endless);
    rig.begin();
    assert_eq!(
        rig.returned(Message::error("no")),
        ["write failed: error error; drop"]
    );
    assert_eq!(rig.error(), "the retry policy asked for an endless sleep");
}

#[test]
fn a_policy_that_looks_back_further_keeps_more_errors_and_sees_them() {
    #[derive(Debug)]
    struct Long;
    impl RetryPolicy for Long {
        fn decide(&self, failure: &Failure<'_>) -> Decision {
            let ErrorEntry { error, .. } = failure.errors.last().unwrap();
            assert_eq!(error, "newest");
            if failure.errors.len() > 20 {
                Decision::Fail
            } else {
                Decision::Run
            }
        }
        fn keeps(&self) -> usize {
            1000
        }
    }
    let mut state = TaskState::new(t0());
    for _ in 0..20 {
        state.errors.push(t0(), "old", 64);
    }
    let mut rig = Rig::of(state, Long);
    rig.begin();
    rig.returned(Message::error("newest"));
    assert_eq!(rig.written().code(), StateKind::Failed);
    assert_eq!(rig.written().errors.entries().len(), 21);
}

#[test]
fn a_sleep_beyond_the_year_9999_is_an_error_of_the_handler() {
    let mut rig = Rig::running();
    let message = Message::sleep_for(Duration::MAX).with_data(&1);
    assert_eq!(rig.returned(message), ["write sleeping +0.5s: error sleep"]);
    assert_eq!(
        rig.error(),
        "the handler returned a message that cannot be applied: \
         until: is beyond 9999-12-30T22:00:00Z; sleep for a shorter time"
    );
    assert_eq!(
        rig.written().data,
        None,
        "nothing of such a message is kept"
    );
}

#[test]
fn data_that_is_too_large_fails_the_task_with_both_sizes() {
    let large = "x".repeat(99);
    for (message, says) in [
        (Message::run().with_data(&large), "data: has 101 bytes"),
        (Message::complete_with(&large), "result: has 101 bytes"),
        (
            Message::complete_with(&large[..60]).with_data(&large[..60]),
            "data: has 124 bytes",
        ),
    ] {
        let mut rig = Rig::running();
        let out = rig.returned(message);
        assert_eq!(out, ["write failed: error error; drop"]);
        let expected = format!("{says}; at most 100 are allowed (with the task's props)");
        assert_eq!(rig.error(), expected);
    }
    // As large as allowed is not too large.
    let mut rig = Rig::running();
    let message = Message::run().with_data(&large[..98]);
    assert_eq!(rig.returned(message), ["write runnable: run"]);
}

#[test]
fn data_that_is_kept_counts_against_a_result() {
    let mut state = TaskState::new(t0());
    state.data = Some(json(&format!("\"{}\"", "x".repeat(58))));
    let mut rig = Rig::of(state.clone(), Retry::Never);
    rig.begin();
    let message = Message::complete_with("y".repeat(39));
    assert_eq!(rig.returned(message), ["write failed: error error; drop"]);
    // Old data beyond the limit alone does not refuse a message without data.
    state.data = Some(json(&format!("\"{}\"", "x".repeat(200))));
    let mut rig = Rig::of(state, Retry::Never);
    rig.begin();
    assert_eq!(
        rig.returned(Message::complete()),
        ["write completed: complete; drop"]
    );
}

#[test]
fn a_result_of_a_command_that_is_as_large_as_allowed_completes_the_task() {
    let mut rig = Rig::of(asleep(5), Retry::Never);
    rig.begin();
    let largest = format!("\"{}\"", "x".repeat(98));
    assert_eq!(
        rig.command(result(&largest)),
        [
            "disarm wake",
            "write completed: complete#1; 1 applied sleeping completed; drop"
        ]
    );
}

#[test]
fn a_stored_fault_asks_the_policy_when_it_is_claimed() {
    let mut state = TaskState::new(t0());
    state.status = TaskStatus::Fault;
    state.errors.push(t0(), "disk full", 8);
    let mut rig = Rig::of(state.clone(), Retry::default());
    assert_eq!(rig.begin(), ["write sleeping +0.5s: sleep"]);
    let mut rig = Rig::of(state.clone(), AtOnce);
    assert_eq!(rig.begin(), ["write runnable: run"]);
    assert_eq!(rig.stored(), ["start 2"]);
    let mut rig = Rig::of(state.clone(), Retry::Never);
    assert_eq!(rig.begin(), ["write failed: error; drop"]);
    assert_eq!(rig.written().errors.total(), 1);
    // A kill does not wait for the policy's answer.
    let mut rig = Rig::of(state, Retry::Never);
    rig.command(Command::Kill);
    assert_eq!(
        rig.begin(),
        ["write killed: kill#1; 1 applied fault killed; drop"]
    );
}
