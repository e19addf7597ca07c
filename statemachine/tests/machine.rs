//! The machine, one story at a time.

mod common;

use std::time::Duration;

use common::{Rig, config, json, t, t0};
use windlass_statemachine::{
    Code, Command, Decision, ErrorEntry, Failure, Fence, Message, Outcome, Progress, Retry,
    RetryPolicy, State, Status, Wake, machine::Input, machine::StopReason, state::LastCommand,
};

const NONE: [&str; 0] = [];

fn paused() -> State {
    let mut state = State::new(t0());
    state.status = Status::Paused;
    state
}

fn asleep(second: i64) -> State {
    let mut state = State::new(t0());
    state.status = Status::Sleeping { until: t(second) };
    state
}

fn result(text: &str) -> Command {
    Command::Complete {
        result: Some(json(text)),
    }
}

/// Tries again at once, always.
#[derive(Debug)]
struct AtOnce;
impl RetryPolicy for AtOnce {
    fn decide(&self, _: &Failure<'_>) -> Decision {
        Decision::Run
    }
}

// --- The plain course.

#[test]
fn a_task_starts_and_completes() {
    let mut state = State::new(t0());
    state.fence = Fence(7);
    state.version = 1;
    let mut rig = Rig::of(state, Retry::default());
    assert!(!rig.machine.is_running());
    assert_eq!(rig.begin(), ["start 1"]);
    assert!(rig.machine.is_running() && !rig.machine.is_storing());

    let message = Message::complete_with("all")
        .unwrap()
        .with_data(&3)
        .unwrap();
    assert_eq!(
        rig.at(5).returned(message),
        ["write completed: complete; drop"]
    );
    assert!(!rig.machine.is_running() && rig.machine.is_storing());
    assert_eq!(
        rig.machine.state().code(),
        Code::Runnable,
        "not durable yet"
    );
    let written = rig.written().clone();
    assert_eq!(
        written.status,
        Status::Completed {
            result: Some(json("\"all\""))
        }
    );
    assert_eq!(
        (written.version, written.fence, written.since),
        (2, Fence(7), t(5))
    );
    assert_eq!(written.data, Some(json("3")));

    assert_eq!(rig.stored(), ["done completed"]);
    assert!(rig.machine.is_done());
    assert_eq!(rig.machine.state(), &written);
    assert_eq!(rig.machine.fence(), Fence(7));
}

#[test]
fn a_handler_that_returns_run_or_checkpoint_starts_again_when_that_is_durable() {
    for (message, name) in [
        (Message::run(), "run"),
        (Message::checkpoint(), "checkpoint"),
    ] {
        let mut rig = Rig::running();
        let message = message.with_data(&1).unwrap();
        assert_eq!(rig.returned(message), [format!("write runnable: {name}")]);
        assert_eq!(rig.stored(), ["start 1"]);
        assert_eq!(rig.machine.state().data, Some(json("1")));
    }
}

#[test]
fn a_handler_that_pauses_or_sleeps_long_gives_the_claim_back_in_the_same_write() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.returned(Message::pause()),
        ["write paused: pause; drop"]
    );
    assert_eq!(rig.stored(), ["done paused"]);

    let mut rig = Rig::running();
    let message = Message::sleep_for(Duration::from_secs(11));
    assert_eq!(
        rig.at(1).returned(message),
        ["write sleeping +12s: sleep; drop"]
    );
    assert_eq!(rig.stored(), ["done sleeping"]);
}

#[test]
fn a_short_sleep_is_held_and_its_end_is_durable_before_the_handler_starts() {
    let mut rig = Rig::running();
    let message = Message::sleep_for(Duration::from_secs(10));
    assert_eq!(rig.returned(message), ["write sleeping +10s: sleep"]);
    assert_eq!(rig.at(1).stored(), ["arm wake +10s"]);
    assert_eq!(rig.at(9).wake(), ["arm wake +10s"], "too early");
    assert_eq!(rig.at(10).wake(), ["write runnable: run"]);
    assert_eq!(rig.stored(), ["start 1"]);
    assert_eq!(rig.machine.state().since, t(10));
}

#[test]
fn a_sleep_that_is_over_when_it_is_durable_ends_at_once() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.returned(Message::sleep_until(t(-1))),
        ["write sleeping +-1s: sleep"]
    );
    assert_eq!(rig.stored(), ["write runnable: run"]);
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn a_clock_that_goes_back_during_a_short_sleep_makes_it_a_long_one() {
    let mut rig = Rig::of(asleep(5), Retry::default());
    assert_eq!(rig.begin(), ["arm wake +5s"]);
    assert_eq!(rig.at(-100).wake(), ["write sleeping +5s; drop"]);
    assert_eq!(rig.stored(), ["done sleeping"]);
}

#[test]
fn a_handler_that_releases_gives_the_claim_back_runnable() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.returned(Message::release()),
        ["write runnable: release; drop"]
    );
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn effects_go_with_the_write_of_the_return() {
    let task = windlass_statemachine::Task::new("b".parse().unwrap(), "k".parse().unwrap());
    let message = Message::complete().and_submit(task.clone()).and_send(
        "c".parse().unwrap(),
        "id".parse().unwrap(),
        Command::Run,
    );
    let mut rig = Rig::running();
    rig.returned(message.clone());
    assert_eq!(&rig.write.as_ref().unwrap().effects, message.effects());
    // What is refused with them is told as an error, without them.
    rig.refused();
    assert!(rig.write.as_ref().unwrap().effects.is_empty());
    // Nor are those of a handler that was killed carried out.
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    rig.returned(message);
    assert!(rig.write.as_ref().unwrap().effects.is_empty());
}

// --- Errors.

#[test]
fn an_error_asks_the_strikes_policy_which_parks_the_task_for_ten_minutes() {
    let mut rig = Rig::running();
    let message = Message::error("disk full").with_data(&"kept").unwrap();
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
    let mut state = State::new(t0());
    for n in 0..7 {
        state.errors.push(t(n), "no", 8);
    }
    state.attempts = 7;
    let mut rig = Rig::of(state, Retry::default());
    assert_eq!(rig.begin(), ["start 8"]);
    let out = rig.at(8).returned(Message::error("the last"));
    assert_eq!(out, ["write failed: error error; drop"]);
    assert_eq!(rig.written().errors.entries().len(), 8);
    assert_eq!((rig.error(), rig.written().attempts), ("the last", 8));
    assert_eq!(rig.stored(), ["done failed"]);
}

#[test]
fn exponential_waits_that_are_short_are_held_and_the_attempts_counted() {
    let retry = Retry::exponential(3, Duration::from_secs(60));
    let mut rig = Rig::of(State::new(t0()), retry);
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
        let mut state = State::new(t0());
        state.attempts = 2;
        let mut rig = Rig::of(state, Retry::default());
        assert_eq!(rig.begin(), ["start 3"]);
        rig.returned(message);
        assert_eq!(rig.written().attempts, attempts);
    }
}

#[test]
fn a_policy_may_try_again_at_once() {
    let mut rig = Rig::of(State::new(t0()), AtOnce);
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
    }
    let mut state = State::new(t0());
    for n in 0..20 {
        state.errors.push(t(-100_000 + n), "old", 64);
    }
    let mut rig = Rig::of(state, Broken);
    assert_eq!(rig.begin(), ["start 1"]);
    let out = rig.returned(Message::error("no"));
    assert_eq!(out, ["write sleeping +600s: error sleep; drop"]);
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
    let mut rig = Rig::of(State::new(t0()), Endless);
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
    let mut state = State::new(t0());
    for _ in 0..20 {
        state.errors.push(t0(), "old", 64);
    }
    let mut rig = Rig::of(state, Long);
    rig.begin();
    rig.returned(Message::error("newest"));
    assert_eq!(rig.written().code(), Code::Failed);
    assert_eq!(rig.written().errors.entries().len(), 21);
}

#[test]
fn a_sleep_beyond_the_year_9999_is_an_error_of_the_handler() {
    let mut rig = Rig::running();
    let message = Message::sleep_for(Duration::MAX).with_data(&1).unwrap();
    assert_eq!(
        rig.returned(message),
        ["write sleeping +600s: error sleep; drop"]
    );
    assert_eq!(
        rig.error(),
        "the handler returned a message that cannot be applied: \
         until: is beyond the year 9999; sleep for a shorter time"
    );
    assert_eq!(
        rig.written().data,
        None,
        "nothing of such a message is kept"
    );
}

#[test]
fn data_that_is_too_large_is_an_error_with_both_sizes() {
    let large = "x".repeat(99);
    for (message, says) in [
        (
            Message::run().with_data(&large).unwrap(),
            "data: has 101 bytes",
        ),
        (
            Message::complete_with(&large).unwrap(),
            "result: has 101 bytes",
        ),
        (
            Message::complete_with(&large[..60])
                .unwrap()
                .with_data(&large[..60])
                .unwrap(),
            "data: has 124 bytes",
        ),
    ] {
        let mut rig = Rig::running();
        let out = rig.returned(message);
        assert_eq!(out, ["write sleeping +600s: error sleep; drop"]);
        let expected = format!("{says}; at most 100 are allowed (with the task's props)");
        assert_eq!(rig.error(), expected);
    }
    // As large as allowed is not too large.
    let mut rig = Rig::running();
    let message = Message::run().with_data(&large[..98]).unwrap();
    assert_eq!(rig.returned(message), ["write runnable: run"]);
}

#[test]
fn data_that_is_kept_counts_against_a_result() {
    let mut state = State::new(t0());
    state.data = Some(json(&format!("\"{}\"", "x".repeat(58))));
    let mut rig = Rig::of(state.clone(), Retry::Never);
    rig.begin();
    let message = Message::complete_with(&"y".repeat(39)).unwrap();
    assert_eq!(rig.returned(message), ["write failed: error error; drop"]);
    // Old data beyond the limit alone is nobody's fault: a message without any goes through.
    state.data = Some(json(&format!("\"{}\"", "x".repeat(200))));
    let mut rig = Rig::of(state, Retry::Never);
    rig.begin();
    assert_eq!(
        rig.returned(Message::complete()),
        ["write completed: complete; drop"]
    );
}

#[test]
fn a_stored_fault_asks_the_policy_when_it_is_claimed() {
    let mut state = State::new(t0());
    state.status = Status::Fault;
    state.errors.push(t0(), "disk full", 8);
    let mut rig = Rig::of(state.clone(), Retry::default());
    assert_eq!(rig.begin(), ["write sleeping +600s: sleep; drop"]);
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

// --- Commands to a running handler.

#[test]
fn a_pause_that_the_handler_obeys_is_applied() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.command(Command::Pause),
        ["signal pause", "arm grace +30s"]
    );
    let message = Message::pause().with_data(&7).unwrap();
    assert_eq!(
        rig.at(3).returned(message),
        [
            "disarm grace",
            "write paused: pause#1; 1 applied runnable paused; drop"
        ]
    );
    assert_eq!(
        rig.written().last_command,
        Some(LastCommand {
            order: 1,
            outcome: Outcome::Applied {
                from: Code::Runnable,
                to: Code::Paused
            }
        })
    );
    assert_eq!(rig.written().data, Some(json("7")));
    assert_eq!(rig.stored(), ["done paused"]);
}

#[test]
fn a_pause_that_the_handler_answers_with_complete_is_overridden() {
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    assert_eq!(
        rig.returned(Message::complete()),
        [
            "disarm grace",
            "write completed: complete; 1 overridden by complete; drop"
        ]
    );
}

#[test]
fn a_pause_that_the_handler_answers_with_an_error_is_overridden_and_the_policy_asked() {
    let mut rig = Rig::of(State::new(t0()), AtOnce);
    rig.begin();
    rig.command(Command::Pause);
    assert_eq!(
        rig.returned(Message::error("no")),
        [
            "disarm grace",
            "write runnable: error run; 1 overridden by error"
        ]
    );
    assert_eq!(rig.stored(), ["start 2"]);
}

#[test]
fn a_pause_that_the_handler_ignores_aborts_it_after_the_grace_and_is_applied() {
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    assert_eq!(rig.at(29).grace(), ["arm grace +30s"], "too early");
    assert_eq!(rig.at(30).grace(), ["abort"]);
    assert!(rig.machine.is_running());
    assert_eq!(rig.grace(), NONE);
    assert_eq!(
        rig.aborted(),
        [
            "disarm grace",
            "write paused: pause#1; 1 applied runnable paused; drop"
        ]
    );
    assert_eq!(rig.returned(Message::complete()), NONE, "it has ended");
}

#[test]
fn a_handler_that_returns_while_it_is_aborted_has_returned() {
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    rig.at(30).grace();
    assert_eq!(
        rig.returned(Message::complete()),
        [
            "disarm grace",
            "write completed: complete; 1 overridden by complete; drop"
        ]
    );
    assert_eq!(rig.aborted(), NONE);
    assert_eq!(rig.stored(), ["done completed"]);
}

#[test]
fn a_command_that_the_handler_was_not_told_of_is_not_overridden_by_what_it_returns() {
    // It comes while the handler is being aborted.
    let mut rig = Rig::running();
    rig.stop();
    rig.at(30).grace();
    assert_eq!(rig.command(Command::Pause), NONE);
    assert_eq!(
        rig.returned(Message::run()),
        [
            "disarm grace",
            "write paused: run pause#1 release; 1 applied runnable paused; drop"
        ]
    );
    // It comes when the handler has returned and its checkpoint is still under way.
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    assert_eq!(rig.returned(Message::run()), NONE);
    assert!(!rig.machine.is_running());
    assert_eq!(
        rig.command(Command::Pause),
        NONE,
        "nobody is there to be told"
    );
    assert_eq!(
        rig.stored(),
        [
            "checkpoint 1 ok",
            "write paused: run pause#1; 1 applied runnable paused; drop"
        ]
    );
}

#[test]
fn a_sleep_command_that_is_ignored_is_applied_as_it_stands() {
    let mut rig = Rig::running();
    rig.command(Command::Sleep { until: t(35) });
    rig.at(30).grace();
    assert_eq!(
        rig.aborted(),
        [
            "disarm grace",
            "write sleeping +35s: sleep#1; 1 applied runnable sleeping"
        ]
    );
    assert_eq!(rig.stored(), ["arm wake +35s"]);
}

#[test]
fn a_release_command_gives_the_claim_back() {
    let mut rig = Rig::running();
    rig.command(Command::Release);
    assert_eq!(
        rig.returned(Message::release()),
        [
            "disarm grace",
            "write runnable: release#1; 1 applied runnable runnable; drop"
        ]
    );
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn a_run_command_does_not_stop_the_handler() {
    let mut rig = Rig::running();
    assert_eq!(rig.command(Command::Run), ["signal run", "arm grace +30s"]);
    assert_eq!(
        rig.at(30).grace(),
        ["write runnable: run#1; 1 applied runnable runnable"]
    );
    assert!(rig.machine.is_running());
    assert_eq!(rig.stored(), NONE);
    assert_eq!(
        rig.returned(Message::complete()),
        ["write completed: complete; drop"]
    );
}

#[test]
fn a_checkpoint_command_is_answered_by_the_handlers_own_checkpoint() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.command(Command::Checkpoint),
        ["signal checkpoint", "arm grace +30s"]
    );
    assert_eq!(
        rig.checkpoint(9, r#"{"page":2}"#),
        ["write runnable: checkpoint#1; 1 applied runnable runnable"]
    );
    assert_eq!(rig.written().data, Some(json(r#"{"page":2}"#)));
    assert_eq!(rig.stored(), ["checkpoint 9 ok"]);
    assert!(rig.machine.is_running());
    assert_eq!(rig.at(30).grace(), NONE);
}

#[test]
fn a_checkpoint_command_that_is_ignored_never_aborts() {
    let mut rig = Rig::running();
    rig.command(Command::Checkpoint);
    assert_eq!(
        rig.at(31).grace(),
        ["write runnable: checkpoint#1; 1 applied runnable runnable"]
    );
    assert_eq!(rig.stored(), NONE);
    assert!(rig.machine.is_running());
}

#[test]
fn a_checkpoint_command_waits_for_the_pause_before_it() {
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    rig.command(Command::Checkpoint);
    assert_eq!(rig.checkpoint(1, "1"), ["write runnable", "arm grace +30s"]);
    assert_eq!(rig.stored(), ["checkpoint 1 ok", "arm grace +30s"]);
    assert_eq!(
        rig.returned(Message::pause()),
        [
            "disarm grace",
            "write paused: pause#1 checkpoint#2; 1 applied runnable paused; 2 applied paused paused; drop"
        ]
    );
}

#[test]
fn each_command_has_a_grace_of_its_own() {
    let mut rig = Rig::running();
    rig.command(Command::Checkpoint);
    assert_eq!(rig.at(20).command(Command::Pause), ["signal pause"]);
    assert_eq!(
        rig.at(30).grace(),
        [
            "write runnable: checkpoint#1; 1 applied runnable runnable",
            "arm grace +50s"
        ]
    );
    assert_eq!(rig.stored(), ["arm grace +50s"]);
    assert_eq!(rig.at(50).grace(), ["abort"]);
}

#[test]
fn a_grace_that_ends_during_a_write_is_looked_at_again_after_it() {
    let mut rig = Rig::running();
    rig.command(Command::Run);
    rig.checkpoint(1, "1");
    assert_eq!(rig.at(30).grace(), NONE, "one write at a time");
    assert_eq!(rig.at(31).stored(), ["checkpoint 1 ok", "arm grace +30s"]);
    assert_eq!(
        rig.grace(),
        ["write runnable: run#1; 1 applied runnable runnable"]
    );
    // An abort does not wait for the write.
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    rig.checkpoint(1, "1");
    assert_eq!(rig.at(30).grace(), ["abort"]);
    assert_eq!(rig.stored(), ["checkpoint 1 ok"]);
    assert_eq!(
        rig.aborted(),
        [
            "disarm grace",
            "write paused: pause#1; 1 applied runnable paused; drop"
        ]
    );
}

#[test]
fn a_killed_task_ends_killed_whatever_its_handler_returns() {
    for message in [
        Message::kill(),
        Message::complete_with(&1).unwrap(),
        Message::sleep_for(Duration::from_secs(1)),
        Message::error("no"),
        Message::release(),
        Message::sleep_for(Duration::MAX),
    ] {
        let mut rig = Rig::of(State::new(t0()), Retry::Never);
        rig.begin();
        assert_eq!(
            rig.command(Command::Kill),
            ["signal kill", "arm grace +30s"]
        );
        let message = message.with_data(&"last words").unwrap();
        assert_eq!(
            rig.returned(message),
            [
                "disarm grace",
                "write killed: kill#1; 1 applied runnable killed; drop"
            ]
        );
        assert_eq!(rig.written().data, Some(json("\"last words\"")));
        assert_eq!(rig.stored(), ["done killed"]);
    }
}

#[test]
fn a_killed_task_whose_handler_ignores_it_is_aborted() {
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    assert_eq!(rig.at(30).grace(), ["abort"]);
    assert_eq!(
        rig.aborted(),
        [
            "disarm grace",
            "write killed: kill#1; 1 applied runnable killed; drop"
        ]
    );
}

#[test]
fn a_complete_before_a_kill_was_first() {
    // Done as told: the handler's own result counts, and the kill finds a finished task.
    let mut rig = Rig::running();
    rig.command(result("1"));
    rig.command(Command::Kill);
    assert_eq!(
        rig.returned(Message::complete_with(&2).unwrap()),
        [
            "disarm grace",
            "write completed: complete#1; 1 applied runnable completed; \
             2 rejected: a completed task does not take `kill`: completed is final (retry starts it anew); drop"
        ]
    );
    let done = Status::Completed {
        result: Some(json("2")),
    };
    assert_eq!(rig.written().status, done);
    // The handler was going to complete anyway when it was told to pause, then killed: killed.
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    rig.command(Command::Kill);
    assert_eq!(
        rig.returned(Message::complete()),
        [
            "disarm grace",
            "write killed: pause#1 kill#2; 1 applied runnable paused; 2 applied paused killed; drop"
        ]
    );
}

#[test]
fn several_commands_are_applied_in_order_in_one_write() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.command(Command::Pause),
        ["signal pause", "arm grace +30s"]
    );
    assert_eq!(
        rig.at(1).command(Command::Sleep { until: t(60) }),
        ["signal sleep"]
    );
    assert_eq!(rig.command(Command::Run), ["signal run"]);
    assert_eq!(
        rig.returned(Message::pause()),
        [
            "disarm grace",
            "write runnable: pause#1 sleep#2 run#3; 1 applied runnable paused; \
             2 applied paused sleeping; 3 applied sleeping runnable"
        ]
    );
    assert_eq!(rig.written().last_command.as_ref().unwrap().order, 3);
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn commands_after_a_complete_are_rejected_with_the_reason() {
    let mut rig = Rig::running();
    rig.command(Command::Complete { result: None });
    rig.command(Command::Run);
    assert_eq!(
        rig.returned(Message::complete()),
        [
            "disarm grace",
            "write completed: complete#1; 1 applied runnable completed; \
             2 rejected: a completed task does not take `run`: completed is final (retry starts it anew); drop"
        ]
    );
}

#[test]
fn a_command_that_comes_during_a_write_is_applied_when_it_is_durable() {
    let mut rig = Rig::running();
    rig.returned(Message::run());
    assert_eq!(rig.command(Command::Pause), NONE);
    assert_eq!(
        rig.stored(),
        ["write paused: pause#1; 1 applied runnable paused; drop"]
    );
    // One that comes during the write that drops the claim stays in the queue for the next.
    assert_eq!(rig.command(Command::Run), NONE);
    assert_eq!(rig.stored(), ["done paused"]);
}

#[test]
fn a_command_that_was_seen_before_has_no_effect() {
    let mut state = State::new(t0());
    state.last_command = Some(LastCommand {
        order: 5,
        outcome: Outcome::Rejected {
            reason: "no".into(),
        },
    });
    let mut rig = Rig::of(state, Retry::default());
    assert_eq!(rig.command_at(5, Command::Kill), NONE);
    assert_eq!(rig.begin(), ["start 1"]);
    assert_eq!(rig.command_at(4, Command::Kill), NONE);
    assert_eq!(
        rig.command_at(6, Command::Pause),
        ["signal pause", "arm grace +30s"]
    );
    assert_eq!(rig.command_at(6, Command::Pause), NONE);
    assert_eq!(
        rig.returned(Message::pause()),
        [
            "disarm grace",
            "write paused: pause#6; 6 applied runnable paused; drop"
        ]
    );
}

#[test]
fn a_result_that_is_too_large_rejects_the_command_and_not_the_task() {
    let large = format!("\"{}\"", "x".repeat(99));
    let mut rig = Rig::of(asleep(5), Retry::Never);
    rig.begin();
    assert_eq!(
        rig.command(result(&large)),
        [
            "disarm wake",
            "write sleeping +5s; 1 rejected: result: has 101 bytes; at most 100 are allowed (with the task's props)"
        ]
    );
    assert_eq!(rig.stored(), ["arm wake +5s"]);
}

// --- Commands to a task that is parked.

#[test]
fn a_paused_task_that_is_told_to_run_starts() {
    let mut rig = Rig::of(paused(), Retry::default());
    assert_eq!(rig.command(Command::Run), NONE, "it is not begun");
    assert_eq!(
        rig.begin(),
        ["write runnable: run#1; 1 applied paused runnable"]
    );
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn a_sleeping_task_that_is_killed_ends() {
    let mut rig = Rig::of(asleep(3600), Retry::default());
    rig.command(Command::Kill);
    assert_eq!(
        rig.begin(),
        ["write killed: kill#1; 1 applied sleeping killed; drop"]
    );
    assert_eq!(rig.stored(), ["done killed"]);
}

#[test]
fn commands_that_leave_a_parked_task_parked_give_it_back() {
    for (state, command, expected) in [
        (
            paused(),
            Command::Pause,
            "write paused: pause#1; 1 applied paused paused; drop",
        ),
        (
            paused(),
            Command::Checkpoint,
            "write paused: checkpoint#1; 1 applied paused paused; drop",
        ),
        (
            paused(),
            Command::Release,
            "write paused: release#1; 1 applied paused paused; drop",
        ),
        (
            asleep(3600),
            Command::Checkpoint,
            "write sleeping +3600s: checkpoint#1; 1 applied sleeping sleeping; drop",
        ),
        (
            asleep(3600),
            Command::Sleep { until: t(60) },
            "write sleeping +60s: sleep#1; 1 applied sleeping sleeping; drop",
        ),
        (
            asleep(3600),
            result("1"),
            "write completed: complete#1; 1 applied sleeping completed; drop",
        ),
        (
            paused(),
            result("1"),
            "write completed: complete#1; 1 applied paused completed; drop",
        ),
    ] {
        let mut rig = Rig::of(state, Retry::default());
        rig.command(command);
        assert_eq!(rig.begin(), [expected]);
    }
}

#[test]
fn a_parked_task_that_was_claimed_for_nothing_is_given_back_as_it_is() {
    for (state, expected) in [
        (paused(), "write paused; drop"),
        (asleep(3600), "write sleeping +3600s; drop"),
    ] {
        let mut rig = Rig::of(state, Retry::default());
        assert_eq!(rig.begin(), [expected]);
    }
    let mut due = Rig::of(asleep(0), Retry::default());
    assert_eq!(due.begin(), ["write runnable: run"]);
    assert_eq!(due.stored(), ["start 1"]);
}

#[test]
fn a_command_during_a_short_sleep_is_applied_at_once() {
    let mut rig = Rig::of(asleep(5), Retry::default());
    assert_eq!(rig.begin(), ["arm wake +5s"]);
    assert_eq!(
        rig.command(Command::Checkpoint),
        [
            "disarm wake",
            "write sleeping +5s: checkpoint#1; 1 applied sleeping sleeping"
        ]
    );
    assert_eq!(rig.stored(), ["arm wake +5s"]);
    assert_eq!(
        rig.command(Command::Run),
        [
            "disarm wake",
            "write runnable: run#2; 2 applied sleeping runnable"
        ]
    );
    assert_eq!(rig.wake(), NONE, "the timer was disarmed too late");
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn a_finished_task_that_is_handed_out_is_given_back_and_its_commands_are_rejected() {
    let mut state = State::new(t0());
    state.status = Status::Killed;
    let mut rig = Rig::with(config(Retry::Never), state.clone(), true);
    assert_eq!(rig.begin(), ["write killed; drop"]);
    assert_eq!(rig.stored(), ["done killed"]);

    let mut rig = Rig::of(state, Retry::default());
    rig.command(Command::Run);
    rig.command(Command::Kill);
    assert_eq!(
        rig.begin(),
        [
            "write killed; 1 rejected: a killed task does not take `run`: killed is final (retry starts it anew); \
             2 rejected: a killed task does not take `kill`: killed is final (retry starts it anew); drop"
        ]
    );
}

// --- Stopping.

#[test]
fn a_handler_that_releases_when_the_node_stops_gives_the_claim_back() {
    let mut rig = Rig::running();
    assert_eq!(rig.at(5).stop(), ["signal Shutdown", "arm grace +35s"]);
    assert_eq!(
        rig.returned(Message::release().with_data(&1).unwrap()),
        ["disarm grace", "write runnable: release; drop"]
    );
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn a_handler_that_ignores_the_stop_is_aborted_and_released() {
    let mut rig = Rig::running();
    rig.stop();
    assert_eq!(rig.at(30).grace(), ["abort"]);
    assert_eq!(
        rig.aborted(),
        ["disarm grace", "write runnable: release; drop"]
    );
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn whatever_a_handler_returns_on_a_stop_the_claim_goes_back_in_the_same_write() {
    for (message, expected) in [
        (Message::run(), "write runnable: run release; drop"),
        (
            Message::sleep_until(t(5)),
            "write sleeping +5s: sleep release; drop",
        ),
        (
            Message::error("no"),
            "write runnable: error run release; drop",
        ),
        (Message::complete(), "write completed: complete; drop"),
    ] {
        let mut rig = Rig::of(State::new(t0()), AtOnce);
        rig.begin();
        rig.stop();
        assert_eq!(rig.returned(message), ["disarm grace", expected]);
    }
}

#[test]
fn a_second_stop_does_not_lengthen_the_first() {
    let mut rig = Rig::running();
    rig.stop();
    let drain = Input::Stop(StopReason::Drain);
    assert_eq!(rig.at(20).feed(drain), ["signal Drain", "arm grace +30s"]);
    assert_eq!(rig.at(30).grace(), ["abort"]);
}

#[test]
fn a_command_before_the_stop_is_applied_in_the_write_that_releases() {
    let mut rig = Rig::running();
    rig.command(Command::Checkpoint);
    assert_eq!(rig.at(1).stop(), ["signal Shutdown", "arm grace +30s"]);
    assert_eq!(
        rig.returned(Message::release()),
        [
            "disarm grace",
            "write runnable: release; 1 overridden by release; drop"
        ]
    );
}

#[test]
fn a_stop_ends_a_short_sleep_and_keeps_its_time() {
    let mut rig = Rig::of(asleep(5), Retry::default());
    rig.begin();
    assert_eq!(
        rig.stop(),
        ["disarm wake", "write sleeping +5s: release; drop"]
    );
    assert_eq!(rig.stored(), ["done sleeping"]);
}

#[test]
fn a_stop_before_the_handler_starts_keeps_it_from_starting() {
    let mut rig = Rig::new();
    assert_eq!(rig.stop(), NONE);
    assert_eq!(rig.begin(), ["write runnable: release; drop"]);
    // The same when it comes during a write.
    let mut rig = Rig::running();
    rig.returned(Message::run());
    assert_eq!(rig.stop(), NONE);
    assert_eq!(rig.stored(), ["write runnable: release; drop"]);
}

#[test]
fn a_stop_when_the_handler_has_returned_aborts_nobody() {
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.returned(Message::run());
    assert_eq!(rig.stop(), NONE);
    assert_eq!(rig.at(30).grace(), NONE);
    assert_eq!(
        rig.stored(),
        ["checkpoint 1 ok", "write runnable: run release; drop"]
    );
}

// --- Losing the claim.

#[test]
fn a_lost_claim_ends_a_running_handler_and_writes_nothing() {
    let mut rig = Rig::running();
    assert_eq!(rig.fenced(), ["signal LeaseLost", "abort", "lost"]);
    assert!(rig.machine.is_done());
    assert_eq!(rig.returned(Message::complete()), NONE);
    assert_eq!(rig.aborted(), NONE);
    assert_eq!(rig.stored(), NONE);
    assert_eq!(
        rig.checkpoint(1, "1"),
        ["checkpoint 1 refused: the claim on this task is gone"]
    );
}

#[test]
fn a_claim_can_be_lost_in_every_phase() {
    // Before it has begun.
    let mut rig = Rig::new();
    assert_eq!(rig.fenced(), ["lost"]);
    assert_eq!(rig.begin(), NONE);
    // In a short sleep.
    let mut rig = Rig::of(asleep(5), Retry::default());
    rig.begin();
    assert_eq!(rig.fenced(), ["disarm wake", "lost"]);
    assert_eq!(rig.wake(), NONE);
    // While it is aborted.
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    rig.at(30).grace();
    assert_eq!(rig.fenced(), ["disarm grace", "lost"]);
    // While it is stored.
    let mut rig = Rig::running();
    rig.returned(Message::complete());
    assert_eq!(rig.fenced(), ["lost"]);
    assert_eq!(rig.stored(), NONE, "an answer that comes too late");
    // With a checkpoint under way, and one that waits.
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.checkpoint(2, "2");
    assert_eq!(
        rig.fenced(),
        [
            "signal LeaseLost",
            "abort",
            "checkpoint 1 refused: the claim on this task is gone",
            "checkpoint 2 refused: the claim on this task is gone",
            "lost"
        ]
    );
    // When the handler has returned and its checkpoint is under way.
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.returned(Message::complete());
    assert_eq!(
        rig.fenced(),
        [
            "checkpoint 1 refused: the claim on this task is gone",
            "lost"
        ]
    );
}

#[test]
fn an_abandoned_claim_runs_again_at_once() {
    let state = State::new(t0()).claimed(Fence(2), Some("n1"), t(1));
    assert_eq!(
        (state.attempts, state.claims, state.fence),
        (1, 1, Fence(2))
    );
    let mut rig = Rig::with(config(Retry::default()), state, true);
    assert_eq!(rig.begin(), ["start 2"]);
}

#[test]
fn an_abandoned_claim_fails_the_task_when_the_policy_gives_up() {
    let retry = Retry::exponential(3, Duration::from_secs(60));
    let mut state = State::new(t0());
    state.attempts = 1;
    let state = state.claimed(Fence(2), Some("n1"), t0());
    let mut rig = Rig::with(config(retry.clone()), state.clone(), true);
    assert_eq!(rig.begin(), ["start 3"], "one is left");

    let state = state.claimed(Fence(3), Some("n2"), t0());
    let mut rig = Rig::with(config(retry.clone()), state.clone(), true);
    assert_eq!(rig.begin(), ["write failed: error error; drop"]);
    let errors = rig.written().errors.entries();
    assert_eq!(
        errors[1].error,
        "the claim was abandoned: node n2 was lost while it had the task"
    );
    assert_eq!(errors[2].error, "the retry policy gives up");
    assert_eq!(rig.stored(), ["done failed"]);

    // A claim that was given back properly counts for nothing.
    let mut rig = Rig::with(config(retry.clone()), state.clone(), false);
    assert_eq!(rig.begin(), ["start 4"]);

    // A kill that waits is older than the verdict.
    let mut rig = Rig::with(config(retry), state, true);
    rig.command(Command::Kill);
    assert_eq!(
        rig.begin(),
        ["write killed: kill#1; 1 applied runnable killed; drop"]
    );
}

// --- Writes that are refused.

#[test]
fn a_refused_write_is_an_error_and_its_commands_are_not_lost() {
    let mut rig = Rig::of(State::new(t0()), AtOnce);
    rig.begin();
    rig.command(Command::Checkpoint);
    rig.command(Command::Pause);
    let message = Message::run().with_data(&1).unwrap();
    assert_eq!(
        rig.returned(message),
        [
            "disarm grace",
            "write paused: run pause#2; 1 overridden by run; 2 applied runnable paused; drop"
        ]
    );
    assert_eq!(
        rig.refused(),
        ["write paused: error run pause#2; 1 overridden by error; 2 applied runnable paused; drop"]
    );
    assert_eq!(
        rig.error(),
        "what the handler returned could not be stored: too much"
    );
    assert_eq!(
        (rig.written().data.clone(), rig.written().attempts),
        (None, 1)
    );
    assert_eq!(rig.written().version, 1, "the first was never written");
    assert_eq!(rig.stored(), ["done paused"]);
}

#[test]
fn a_refused_completion_follows_the_policy() {
    let mut rig = Rig::running();
    rig.returned(Message::complete());
    assert_eq!(rig.refused(), ["write sleeping +600s: error sleep; drop"]);
    assert_eq!(rig.stored(), ["done sleeping"]);
}

#[test]
fn a_write_that_is_refused_three_times_gives_the_task_back_as_it_was() {
    let mut rig = Rig::of(State::new(t0()), AtOnce);
    rig.begin();
    rig.returned(Message::complete());
    assert_eq!(rig.refused(), ["write runnable: error run"]);
    assert_eq!(rig.refused(), ["write runnable: error run"]);
    assert_eq!(
        rig.written().errors.total(),
        1,
        "each begins from what is durable"
    );
    assert_eq!(rig.refused(), ["write runnable; drop"]);
    assert_eq!(rig.written().errors.total(), 0);
    assert_eq!(rig.refused(), ["lost"]);
    // Those before a success do not count.
    let mut rig = Rig::of(State::new(t0()), AtOnce);
    rig.begin();
    for _ in 0..3 {
        rig.returned(Message::complete());
        rig.refused();
        rig.refused();
        assert_eq!(rig.stored().len(), 1);
        assert!(rig.machine.is_running());
    }
}

#[test]
fn a_refused_kill_is_a_kill_without_the_data() {
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    rig.returned(Message::kill().with_data(&1).unwrap());
    assert_eq!(
        rig.refused(),
        ["write killed: kill#1; 1 applied runnable killed; drop"]
    );
    assert_eq!(rig.written().data, None);
}

#[test]
fn a_refused_result_of_a_command_rejects_the_command_and_costs_no_attempt() {
    let mut rig = Rig::of(asleep(5), Retry::Never);
    rig.begin();
    rig.command(Command::Checkpoint);
    rig.stored();
    rig.command(result("1"));
    assert_eq!(
        rig.refused(),
        ["write sleeping +5s; 2 rejected: result: the store refused it; send a smaller one"]
    );
    assert_eq!(rig.written().errors.total(), 0);
    assert_eq!(rig.stored(), ["arm wake +5s"]);
    // Without a result it is nobody's fault, and is sent again.
    rig.command(Command::Pause);
    assert_eq!(
        rig.refused(),
        ["write paused: pause#3; 3 applied sleeping paused; drop"]
    );
}

#[test]
fn a_refused_result_after_a_refused_return_is_rejected_in_the_end() {
    let mut rig = Rig::of(State::new(t0()), AtOnce);
    rig.begin();
    rig.checkpoint(1, "1");
    rig.returned(Message::run());
    rig.command(result("2"));
    assert_eq!(
        rig.stored()[1],
        "write completed: run complete#1; 1 applied runnable completed; drop"
    );
    assert_eq!(
        rig.refused(),
        ["write completed: error run complete#1; 1 applied runnable completed; drop"]
    );
    assert_eq!(
        rig.refused(),
        ["write runnable: error run; 1 rejected: result: the store refused it; send a smaller one"]
    );
    assert_eq!(rig.stored(), ["start 2"]);
}

#[test]
fn giving_up_is_written_again_when_it_is_refused() {
    let mut rig = Rig::with(config(Retry::Never), State::new(t0()), true);
    assert_eq!(rig.begin(), ["write failed: error error; drop"]);
    assert_eq!(rig.refused(), ["write failed: error error; drop"]);
    assert_eq!(rig.stored(), ["done failed"]);
}

#[test]
fn a_refused_write_beside_a_running_handler_does_not_start_a_second_one() {
    let mut rig = Rig::running();
    rig.command(Command::Run);
    rig.at(30).grace();
    assert_eq!(rig.refused(), ["arm grace +30s"]);
    assert!(rig.machine.is_running());
    assert_eq!(
        rig.grace(),
        ["write runnable: run#1; 1 applied runnable runnable"]
    );
    assert_eq!(rig.refused(), ["arm grace +30s"]);
    rig.grace();
    assert_eq!(
        rig.refused(),
        ["signal LeaseLost", "abort", "disarm grace", "lost"]
    );
}

// --- Checkpoints.

#[test]
fn a_checkpoint_is_durable_before_it_is_answered_and_the_handler_goes_on() {
    let mut rig = Rig::running();
    assert_eq!(rig.checkpoint(1, "1"), ["write runnable"]);
    assert_eq!(rig.machine.state().data, None);
    assert_eq!(rig.stored(), ["checkpoint 1 ok"]);
    assert_eq!(rig.machine.state().data, Some(json("1")));
    assert_eq!(rig.machine.state().version, 1);
    assert!(rig.machine.is_running());
}

#[test]
fn a_second_checkpoint_waits_for_the_first_and_a_third_takes_its_place() {
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    assert_eq!(rig.checkpoint(2, "2"), NONE);
    assert_eq!(
        rig.checkpoint(3, "3"),
        ["checkpoint 2 refused: a newer checkpoint took its place"]
    );
    assert_eq!(rig.stored(), ["checkpoint 1 ok", "write runnable"]);
    assert_eq!(rig.written().data, Some(json("3")));
    assert_eq!(rig.stored(), ["checkpoint 3 ok"]);
}

#[test]
fn a_handler_that_drops_its_checkpoint_and_returns_is_written_after_it() {
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.checkpoint(2, "2");
    assert_eq!(
        rig.returned(Message::complete()),
        ["checkpoint 2 refused: the handler has returned"]
    );
    assert_eq!(rig.aborted(), NONE, "what it returned stands");
    assert_eq!(
        rig.checkpoint(3, "3"),
        ["checkpoint 3 refused: the handler is being stopped; return a message instead"]
    );
    assert_eq!(
        rig.stored(),
        ["checkpoint 1 ok", "write completed: complete; drop"]
    );
    assert_eq!(rig.written().data, Some(json("1")));
    assert_eq!(rig.written().version, 2);
}

#[test]
fn a_grace_that_ends_after_the_return_does_not_take_it_back() {
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    rig.checkpoint(1, "1");
    assert_eq!(rig.returned(Message::pause()), ["disarm grace"]);
    assert_eq!(rig.at(30).grace(), NONE);
    assert_eq!(
        rig.stored(),
        [
            "checkpoint 1 ok",
            "write paused: pause#1; 1 applied runnable paused; drop"
        ]
    );
}

#[test]
fn a_refused_checkpoint_is_the_handlers_to_deal_with() {
    let mut rig = Rig::running();
    rig.command(Command::Checkpoint);
    for ticket in 1..=5 {
        rig.checkpoint(ticket, "1");
        assert_eq!(
            rig.refused(),
            [
                format!("checkpoint {ticket} refused: too much"),
                "arm grace +30s".into()
            ]
        );
    }
    assert_eq!(rig.machine.state().data, None);
    // The command that it would have answered still waits.
    assert_eq!(
        rig.at(30).grace(),
        ["write runnable: checkpoint#1; 1 applied runnable runnable"]
    );
}

#[test]
fn a_handler_that_returned_while_its_checkpoint_was_refused_is_written() {
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.returned(Message::pause());
    assert_eq!(
        rig.refused(),
        [
            "checkpoint 1 refused: too much",
            "write paused: pause; drop"
        ]
    );
}

#[test]
fn a_checkpoint_that_is_too_large_is_refused_with_both_sizes() {
    let mut rig = Rig::running();
    let large = format!("\"{}\"", "x".repeat(99));
    assert_eq!(
        rig.checkpoint(1, &large),
        [
            "checkpoint 1 refused: data: has 101 bytes; at most 100 are allowed (with the task's props)"
        ]
    );
    assert!(rig.machine.is_running() && !rig.machine.is_storing());
}

#[test]
fn a_handler_that_is_aborted_makes_no_checkpoint() {
    let mut rig = Rig::running();
    rig.stop();
    rig.at(30).grace();
    assert_eq!(
        rig.checkpoint(1, "1"),
        ["checkpoint 1 refused: the handler is being stopped; return a message instead"]
    );
}

// --- Progress.

#[test]
fn progress_is_kept_with_the_next_write_until_the_task_ends() {
    let mut rig = Rig::running();
    let half = Progress {
        fraction: Some(0.5),
        text: "half".into(),
    };
    assert_eq!(rig.feed(Input::Progress(half.clone())), NONE);
    rig.checkpoint(1, "1");
    assert_eq!(rig.written().progress, Some(half.clone()));
    rig.stored();
    rig.returned(Message::run());
    assert_eq!(rig.written().progress, Some(half), "no newer one");
    rig.stored();
    rig.returned(Message::complete());
    assert_eq!(rig.written().progress, None);
}

#[test]
fn a_long_text_of_progress_is_cut() {
    let mut rig = Rig::running();
    rig.feed(Input::Progress(Progress {
        fraction: None,
        text: "ü".repeat(1_000_000),
    }));
    rig.returned(Message::pause());
    let text = &rig.written().progress.as_ref().unwrap().text;
    assert!(text.len() <= 4096 && text.ends_with('…'));
}

// --- Inputs that make no sense.

#[test]
fn inputs_out_of_place_have_no_effect() {
    let mut rig = Rig::new();
    assert_eq!(rig.stored(), NONE);
    assert_eq!(rig.refused(), NONE);
    assert_eq!(rig.returned(Message::kill()), NONE);
    assert_eq!(rig.aborted(), NONE);
    assert_eq!(rig.wake(), NONE);
    assert_eq!(rig.grace(), NONE);
    assert_eq!(
        rig.checkpoint(1, "1"),
        ["checkpoint 1 refused: the handler is being stopped; return a message instead"]
    );
    assert_eq!(rig.begin(), ["start 1"]);
    assert_eq!(rig.begin(), NONE);
    assert_eq!(rig.stored(), NONE);
    assert_eq!(rig.refused(), NONE);
    assert_eq!(rig.wake(), NONE);
    assert_eq!(rig.grace(), NONE);
    assert!(rig.machine.is_running());
}

#[test]
fn a_counter_at_its_end_does_not_overflow() {
    let mut state = State::new(t0());
    state.version = u64::MAX;
    state.claims = u64::MAX;
    state.attempts = u32::MAX;
    state.incarnation = u32::MAX;
    let state = state
        .claimed(Fence(u64::MAX), Some("n"), t0())
        .retried(t0());
    assert_eq!(
        (state.claims, state.version, state.attempts),
        (u64::MAX, u64::MAX, 0)
    );
    let mut state = state.claimed(Fence(u64::MAX), None, t0());
    state.attempts = u32::MAX;
    let mut rig = Rig::of(state, AtOnce);
    assert_eq!(rig.begin(), [format!("start {}", u32::MAX)]);
    assert_eq!(
        rig.returned(Message::error("no")),
        ["write runnable: error run"]
    );
}

#[test]
fn a_handler_whose_abort_was_nobodys_wish_starts_again() {
    let mut rig = Rig::running();
    assert_eq!(rig.aborted(), ["write runnable"]);
    assert_eq!(rig.stored(), ["start 1"]);
}
