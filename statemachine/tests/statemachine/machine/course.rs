//! The plain course of a task: start, sleep, release, complete.

use std::time::Duration;

use windlass_statemachine::{
    Command, Fence, Message, Retry, StateKind, SubmitTask, Task, TaskState, TaskStatus,
};

use super::asleep;
use crate::common::{Rig, json, t, t0};

#[test]
fn a_task_starts_and_completes() {
    let mut state = TaskState::new(t0());
    state.fence = Fence(7);
    state.version = 1;
    let mut rig = Rig::of(state, Retry::default());
    assert!(!rig.machine.is_running());
    assert_eq!(rig.begin(), ["start 1"]);
    assert!(rig.machine.is_running() && !rig.machine.is_storing());

    let message = Message::complete_with("all").with_data(&3);
    assert_eq!(
        rig.at(5).returned(message),
        ["write completed: complete; drop"]
    );
    assert!(!rig.machine.is_running() && rig.machine.is_storing());
    assert_eq!(
        rig.machine.state().code(),
        StateKind::Runnable,
        "not durable yet"
    );
    let written = rig.written().clone();
    assert_eq!(
        written.status,
        TaskStatus::Completed {
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
        let message = message.with_data(&1);
        assert_eq!(rig.returned(message), [format!("write runnable: {name}")]);
        assert_eq!(rig.stored(), ["start 1"]);
        assert_eq!(rig.machine.state().data, Some(json("1")));
    }
}

#[test]
fn a_handler_that_pauses_or_sleeps_long_releases_the_claim_in_the_same_write() {
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
fn a_handler_that_releases_leaves_the_task_runnable() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.returned(Message::release()),
        ["write runnable: release; drop"]
    );
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn effects_go_with_the_write_of_the_return() {
    let task = Task::new("b".parse().unwrap(), "k".parse().unwrap());
    let message = Message::complete()
        .and_submit(task)
        .and_send("c", "id", Command::Run);
    let mut rig = Rig::running();
    rig.returned(message.clone());
    assert_eq!(&rig.write.as_ref().unwrap().effects, message.effects());
    // A refused write is followed by an error, without them.
    rig.refused();
    assert!(rig.write.as_ref().unwrap().effects.is_empty());
    // Nor are those of a handler that was killed carried out.
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    rig.returned(message);
    assert!(rig.write.as_ref().unwrap().effects.is_empty());
}

#[test]
fn a_submitted_task_with_a_wait_starts_that_long_after_the_return() {
    let submits = |wait| {
        let [id, kind] = ["c", "k"];
        let task = Task::new(id.parse().unwrap(), kind.parse().unwrap());
        let mut submit = SubmitTask::from(task);
        submit.start_in = Some(wait);
        Message::complete().and_submit(submit)
    };
    let mut rig = Rig::running();
    rig.at(5).returned(submits(Duration::from_secs(60)));
    let write = rig.write.take().unwrap();
    assert_eq!(write.effects.submit[0].task.start_at, Some(t(65)));
    let mut rig = Rig::running();
    assert_eq!(
        rig.returned(submits(Duration::MAX)),
        ["write failed: error error; drop"]
    );
    assert_eq!(
        rig.error(),
        "start_in: is beyond 9999-12-30T22:00:00Z; start the task sooner"
    );
    assert!(rig.write.unwrap().effects.is_empty());
}
