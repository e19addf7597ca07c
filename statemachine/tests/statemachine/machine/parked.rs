//! Commands to a task that sleeps, is paused or finished.

use windlass_statemachine::{Command, Retry, TaskState, TaskStatus};

use super::{NONE, asleep, paused, result};
use crate::common::{Rig, config, t, t0};

#[test]
fn a_paused_task_starts_on_a_run_command() {
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
fn commands_that_leave_a_parked_task_parked_release_it() {
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
fn a_parked_task_that_was_claimed_for_nothing_is_released_as_it_is() {
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
fn a_finished_task_that_is_handed_out_is_released_and_its_commands_are_rejected() {
    let mut state = TaskState::new(t0());
    state.status = TaskStatus::Killed;
    let mut rig = Rig::with(config(Retry::Never), state.clone(), true);
    assert_eq!(rig.begin(), ["write killed; drop"]);
    assert_eq!(rig.stored(), ["done killed"]);

    let mut rig = Rig::of(state, Retry::default());
    rig.command(Command::Run);
    rig.command(Command::Kill);
    assert_eq!(
        rig.begin(),
        [
            "write killed; 1 rejected: a killed task does not take `run`: killed is final (retry starts it again); \
             2 rejected: a killed task does not take `kill`: killed is final (retry starts it again); drop"
        ]
    );
}
