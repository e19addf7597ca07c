//! Commands to a running handler.

use std::time::Duration;

use windlass_statemachine::state::LastCommand;
use windlass_statemachine::{
    Command, Message, Outcome, Require, Retry, StateKind, TaskState, TaskStatus,
};

use super::{AtOnce, NONE, asleep, result};
use crate::common::{Rig, json, t, t0};

#[test]
fn a_pause_that_the_handler_obeys_is_applied() {
    let mut rig = Rig::running();
    assert_eq!(
        rig.command(Command::Pause),
        ["signal pause", "arm grace +30s"]
    );
    let message = Message::pause().with_data(&7);
    assert_eq!(
        rig.at(3).returned(message),
        [
            "disarm grace",
            "write paused: pause#1; 1 applied runnable paused; drop"
        ]
    );
    assert_eq!(
        rig.written().last_command,
        Some(LastCommand::new(
            1,
            Outcome::Applied {
                from: StateKind::Runnable,
                to: StateKind::Paused
            }
        ))
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
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
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
fn a_command_that_was_not_delivered_is_not_overridden_by_the_return() {
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
    assert_eq!(rig.command(Command::Pause), NONE, "no handler runs");
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
fn a_release_command_releases_the_claim() {
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
fn a_killed_task_ends_killed_whatever_its_handler_returns() {
    for message in [
        Message::kill(),
        Message::complete_with(1),
        Message::sleep_for(Duration::from_secs(1)),
        Message::error("no"),
        Message::release(),
        Message::sleep_for(Duration::MAX),
    ] {
        let mut rig = Rig::of(TaskState::new(t0()), Retry::Never);
        rig.begin();
        assert_eq!(
            rig.command(Command::Kill),
            ["signal kill", "arm grace +30s"]
        );
        let message = message.with_data(&"last words");
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

/// Regression: the data stayed without the effects, and a retry took the effects for done.
#[test]
fn a_kill_keeps_no_data_of_a_message_with_effects() {
    let send = Message::sleep_for(Duration::from_secs(1)).and_send("c", "id", Command::Run);
    let guard = Message::run().and_require("c", Require::Exists);
    for message in [send, guard] {
        let mut rig = Rig::running();
        rig.command(Command::Kill);
        let written = rig.returned(message.with_data(&1));
        let last = written.last().unwrap();
        assert!(last.starts_with("write killed: kill#1"), "{written:?}");
        assert_eq!(rig.written().data, None);
        assert!(rig.write.as_ref().unwrap().effects.is_empty());
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
    // The handler completes as asked: its own result counts, and the kill finds a finished task.
    let mut rig = Rig::running();
    rig.command(result("1"));
    rig.command(Command::Kill);
    assert_eq!(
        rig.returned(Message::complete_with(2)),
        [
            "disarm grace",
            "write completed: complete#1; 1 applied runnable completed; \
             2 rejected: a completed task does not take `kill`: completed is final (retry starts it again); drop"
        ]
    );
    let done = TaskStatus::Completed {
        result: Some(json("2")),
    };
    assert_eq!(rig.written().status, done);
    // The handler was going to complete anyway when the pause and the kill came: killed.
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
fn a_complete_that_the_handler_obeys_is_applied_after_earlier_commands() {
    let complete = || Command::Complete { result: None };
    let mut rig = Rig::running();
    rig.command(Command::Checkpoint);
    rig.command(complete());
    assert_eq!(
        rig.returned(complete().to_message()),
        [
            "disarm grace",
            "write completed: checkpoint#1 complete#2; 1 applied runnable runnable; \
             2 applied runnable completed; drop"
        ]
    );
    let mut rig = Rig::running();
    rig.command(Command::Pause);
    rig.command(complete());
    rig.command(Command::Run);
    assert_eq!(
        rig.returned(complete().to_message())[1],
        "write completed: complete#2; 1 overridden by complete; 2 applied runnable completed; \
         3 rejected: a completed task does not take `run`: completed is final (retry starts it again); drop"
    );
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
             2 rejected: a completed task does not take `run`: completed is final (retry starts it again); drop"
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
    let mut state = TaskState::new(t0());
    state.last_command = Some(LastCommand::new(
        5,
        Outcome::Rejected {
            reason: "no".into(),
        },
    ));
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
