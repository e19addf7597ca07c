//! Tasks that wait for other tasks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use windlass_statemachine::{
    Command, Message, Retry, Signal, StateKind, TaskState, WaitOutcome, Waits,
    machine::Config,
    waits::{NO_DEADLINE, WaitStage},
};

use super::NONE;
use crate::common::{Rig, config, t, t0};

fn waits() -> Waits {
    Waits::new("after", ["a", "b"]).unwrap()
}

/// A task that waits, as a claim leaves it.
fn claimed(waits: Waits, outcomes: [WaitOutcome; 2]) -> TaskState {
    let state = TaskState::new(t0()).waiting(waits);
    state.with_outcomes(outcomes.to_vec(), t0())
}

fn blocked() -> TaskState {
    claimed(waits(), [WaitOutcome::Live, WaitOutcome::Completed])
}

fn stage(rig: &Rig) -> WaitStage {
    rig.written().waits.as_ref().expect("a wait").stage
}

#[test]
fn a_handler_waits_and_its_claim_is_dropped_at_once() {
    let mut rig = Rig::new();
    rig.begin();
    let message = Message::wait_for(["a", "b"]).deadline(t(5));
    assert_eq!(rig.returned(message), ["write sleeping +5s: sleep; drop"]);
    assert!(rig.written().is_waiting());
    let message = Message::wait_for(["a"]);
    let mut rig = Rig::new();
    rig.begin();
    rig.returned(message);
    assert_eq!(rig.written().due(), Some(NO_DEADLINE));
}

#[test]
fn a_wait_that_is_over_starts_the_handler_and_its_return_clears_the_wait() {
    let ready = claimed(waits(), [WaitOutcome::Failed, WaitOutcome::Unknown]);
    for message in [
        Message::run(),
        Message::pause(),
        Message::sleep_until(t(60)),
    ] {
        let mut rig = Rig::of(ready.clone(), Retry::default());
        assert_eq!(rig.begin(), ["start 1"]);
        rig.returned(message);
        assert_eq!(rig.written().waits, None);
    }
}

#[test]
fn every_attempt_of_a_run_and_an_ended_task_keep_the_outcomes() {
    let ready = claimed(waits(), [WaitOutcome::Failed, WaitOutcome::Unknown]);
    for message in [
        Message::error("no"),
        Message::fail("no"),
        Message::checkpoint(),
        Message::release(),
        Message::complete(),
        Message::kill(),
    ] {
        let mut rig = Rig::of(ready.clone(), Retry::default());
        rig.begin();
        rig.returned(message);
        assert_eq!(rig.written().waits, ready.waits);
        assert!(!rig.written().is_waiting());
    }
}

#[test]
fn an_outcome_that_is_required_and_missing_fails_the_task_without_a_run() {
    let in_order = "retry the task that failed first, then those that wait for it";
    for (outcome, why, advice) in [
        (WaitOutcome::Failed, "failed", in_order),
        (WaitOutcome::Killed, "was killed", in_order),
        (
            WaitOutcome::Unknown,
            "does not exist: it never did, was deleted, or was pruned",
            "submit that task, then retry this one",
        ),
    ] {
        let state = claimed(waits().ok(), [WaitOutcome::Completed, outcome]);
        let mut rig = Rig::of(state, Retry::default());
        assert_eq!(rig.begin(), ["write failed: error error; drop"]);
        let text =
            format!("could not run: task 'b' has to complete first (after_ok) and {why}; {advice}");
        assert_eq!(rig.error(), text);
        assert_eq!(rig.written().attempts, 0, "no attempt was made");
        let again = rig.written().clone().retried(t0());
        assert!(again.is_waiting(), "a retry waits again");
        assert_eq!(again.waits.unwrap().outcomes, []);
    }
}

#[test]
fn a_required_task_that_is_live_at_the_deadline_fails_the_task() {
    let mut waits = waits().ok();
    waits.deadline = Some(t0());
    let state = claimed(waits, [WaitOutcome::Live, WaitOutcome::Completed]);
    let state = state.claimed(Default::default(), None, t0());
    let mut rig = Rig::of(state, Retry::default());
    assert_eq!(rig.begin(), ["write failed: error error; drop"]);
    assert!(rig.error().contains("'a'") && rig.error().contains("at the deadline"));
}

#[test]
fn a_task_whose_required_tasks_completed_runs() {
    let state = claimed(waits().ok(), [WaitOutcome::Completed; 2]);
    assert_eq!(Rig::of(state, Retry::default()).begin(), ["start 1"]);
}

#[test]
fn run_overrides_a_wait_and_its_outcomes() {
    let mut rig = Rig::of(blocked(), Retry::default());
    assert_eq!(rig.command(Command::Run), NONE);
    assert_eq!(
        rig.begin(),
        ["write runnable: run#1; 1 applied sleeping runnable"]
    );
    assert_eq!(stage(&rig), WaitStage::Overridden);
    assert_eq!(rig.stored(), ["start 1"]);

    let unmet = claimed(waits().ok(), [WaitOutcome::Failed; 2]);
    let mut rig = Rig::of(unmet, Retry::default());
    rig.command(Command::Run);
    assert_eq!(
        rig.begin(),
        ["write runnable: run#1; 1 applied runnable runnable"]
    );
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn a_signal_overrides_a_wait_as_run_does() {
    let mut rig = Rig::of(blocked(), Retry::default());
    rig.command(Command::Signal(Signal::new("go")));
    assert_eq!(rig.begin(), ["write runnable: run#1"]);
    assert_eq!(stage(&rig), WaitStage::Overridden);
    assert_eq!(rig.stored(), ["start 1", "signal go#1"]);
}

#[test]
fn a_signal_that_is_rejected_leaves_the_wait() {
    let deaf = Config {
        takes_signals: false,
        ..config(Retry::default())
    };
    let mut rig = Rig::with(deaf, blocked(), false);
    rig.command(Command::Signal(Signal::new("go")));
    let rejected = rig.begin().join("; ");
    assert!(
        rejected.contains("1 rejected: the kind does not accept signals"),
        "{rejected}"
    );
    assert!(rejected.ends_with("; drop"), "{rejected}");
    assert!(rig.written().is_waiting());
}

#[test]
fn sleep_and_pause_end_a_wait_and_the_other_commands_leave_it() {
    let never = NO_DEADLINE.duration_since(t0()).as_secs_f64();
    for (command, expected, is_waiting) in [
        (
            Command::Sleep { until: t(60) },
            "write sleeping +60s: sleep#1; 1 applied sleeping sleeping; drop".to_owned(),
            false,
        ),
        (
            Command::Pause,
            "write paused: pause#1; 1 applied sleeping paused; drop".to_owned(),
            false,
        ),
        (
            Command::Release,
            format!("write sleeping +{never}s: release#1; 1 applied sleeping sleeping; drop"),
            true,
        ),
        (
            Command::Checkpoint,
            format!("write sleeping +{never}s: checkpoint#1; 1 applied sleeping sleeping; drop"),
            true,
        ),
    ] {
        let mut rig = Rig::of(blocked(), Retry::default());
        rig.command(command);
        assert_eq!(rig.begin(), [expected]);
        assert_eq!(rig.written().is_waiting(), is_waiting);
        let kept = rig.written().waits.as_ref().unwrap();
        assert_eq!(kept.tasks, waits().tasks);
    }
}

#[test]
fn a_killed_waiter_ends_and_keeps_its_wait_for_a_retry() {
    let mut rig = Rig::of(blocked(), Retry::default());
    rig.command(Command::Kill);
    assert_eq!(
        rig.begin(),
        ["write killed: kill#1; 1 applied sleeping killed; drop"]
    );
    let again = rig.written().clone().retried(t0());
    assert_eq!(again.code(), StateKind::Sleeping);
    assert!(again.is_waiting());
}

#[test]
fn a_waiter_that_was_claimed_for_nothing_is_released_as_it_is() {
    let mut waits = waits();
    waits.deadline = Some(t(5));
    let state = claimed(waits, [WaitOutcome::Live; 2]);
    let mut rig = Rig::of(state, Retry::default());
    assert_eq!(rig.begin(), ["write sleeping +5s; drop"]);
}

#[test]
fn another_due_time_is_another_deadline() {
    let state = TaskState::new(t0()).waiting(waits());
    let later = state.clone().rescheduled(Some(t(60)), t0()).unwrap();
    assert!(later.is_waiting());
    assert_eq!(later.due(), Some(t(60)));
    let now = state.rescheduled(Some(t0()), t0()).unwrap();
    assert!(
        now.is_waiting() && now.is_due(t0()),
        "a claim ends the wait"
    );
}
