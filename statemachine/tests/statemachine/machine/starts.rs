//! Tasks with a limit on starts: each attempt has a claim of its own.

use windlass_statemachine::{
    Command, Message, Retry, RetryPolicy, Signal, TaskState, machine::Config,
};

use super::{AtOnce, asleep};
use crate::common::{Rig, config, t, t0};

fn rig(state: TaskState, retry: impl RetryPolicy + 'static) -> Rig {
    let config = Config {
        claim_per_attempt: true,
        ..config(retry)
    };
    Rig::with(config, state, false)
}

#[test]
fn a_failed_attempt_ends_the_claim_however_soon_the_next_one_is() {
    let mut at_once = rig(TaskState::new(t0()), AtOnce);
    assert_eq!(at_once.begin(), ["start 1"]);
    let out = at_once.returned(Message::error("no"));
    assert_eq!(out, ["write runnable: error run; drop"]);
    assert_eq!(at_once.stored(), ["done runnable"]);
    assert!(at_once.machine.ends_for_next_attempt());
    let mut soon = rig(TaskState::new(t0()), Retry::default());
    soon.begin();
    soon.jitter = 0.0;
    let out = soon.returned(Message::error("no"));
    assert_eq!(out, ["write sleeping +0s: error sleep; drop"]);
    assert_eq!(soon.stored(), ["done sleeping"]);
}

#[test]
fn a_short_sleep_ends_the_claim() {
    let mut rig = rig(TaskState::new(t0()), Retry::default());
    rig.begin();
    let out = rig.returned(Message::sleep_until(t(1)));
    assert_eq!(out, ["write sleeping +1s: sleep; drop"]);
}

#[test]
fn a_sleeper_that_is_claimed_when_it_is_due_runs_with_that_claim() {
    let mut rig = rig(asleep(0), Retry::default());
    assert_eq!(rig.begin(), ["write runnable: run"]);
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn the_message_run_goes_on_with_the_claim() {
    let mut rig = rig(TaskState::new(t0()), Retry::default());
    rig.begin();
    assert_eq!(rig.returned(Message::run()), ["write runnable: run"]);
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn signals_wait_for_the_claim_of_the_next_attempt() {
    let mut rig = rig(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.command(Command::Signal(Signal::new("go")));
    let out = rig.returned(Message::error("no"));
    assert_eq!(out, ["write runnable: error run; drop"]);
    assert_eq!(rig.stored(), ["done runnable"]);
}

/// The run after a pause counts, also when the pause and the command that ended it were applied in one write.
#[test]
fn a_run_after_a_pause_has_a_claim_of_its_own() {
    let mut rig = rig(TaskState::new(t0()), Retry::default());
    rig.begin();
    rig.command(Command::Pause);
    rig.command(Command::Run);
    let out = rig.returned(Message::pause());
    let applied = "1 applied runnable paused; 2 applied paused runnable";
    let write = format!("write runnable: pause#1 run#2; {applied}; drop");
    assert_eq!(out, ["disarm grace".to_owned(), write]);
    assert_eq!(rig.stored(), ["done runnable"]);
}
