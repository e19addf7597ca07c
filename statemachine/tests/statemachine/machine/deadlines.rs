//! Tasks with deadlines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use windlass_statemachine::{
    Command, Message, Retry, StateKind, TaskState, TaskStatus, state::Deadlines,
};

use super::NONE;
use crate::common::{Rig, config, t, t0};

fn with(status: TaskStatus, start_by: Option<i64>, end_by: Option<i64>) -> TaskState {
    let mut state = TaskState::new(t0());
    state.status = status;
    state.deadlines = Some(Box::new(Deadlines {
        start_by: start_by.map(t),
        end_by: end_by.map(t),
    }));
    state
}

fn rig(start_by: Option<i64>, end_by: Option<i64>) -> Rig {
    Rig::of(
        with(TaskStatus::Runnable, start_by, end_by),
        Retry::default(),
    )
}

#[test]
fn a_task_of_each_live_state_that_missed_a_deadline_fails_without_a_run_and_an_attempt() {
    for (status, write) in [
        (TaskStatus::Runnable, "write failed: error error; drop"),
        (
            TaskStatus::Sleeping { until: t(99) },
            "write failed: error error; drop",
        ),
        (TaskStatus::Paused, "write failed: run error error; drop"),
        (TaskStatus::Fault, "write failed: error; drop"),
    ] {
        for (start_by, end_by, text) in [
            (Some(5), None, "did not start by 2030-01-01T00:00:05Z"),
            (None, Some(5), "did not end by 2030-01-01T00:00:05Z"),
            (Some(5), Some(5), "did not start by 2030-01-01T00:00:05Z"),
        ] {
            let mut rig = Rig::of(with(status.clone(), start_by, end_by), Retry::default());
            rig.at(5);
            assert_eq!(rig.begin(), [write], "{status:?}");
            assert_eq!(rig.error(), text);
            assert_eq!(rig.written().attempts, 0);
            assert_eq!(rig.stored(), ["done failed"]);
        }
    }
}

#[test]
fn a_deadline_to_come_changes_nothing_but_the_timer() {
    let mut rig = rig(Some(5), Some(9));
    rig.at(4);
    assert_eq!(rig.begin(), ["arm wake +9s", "start 1"]);
    // The start is met: the first write drops it.
    rig.at(6);
    assert_eq!(
        rig.returned(Message::sleep_until(t(99))),
        ["disarm wake", "write sleeping +99s: sleep; drop"]
    );
    let left = rig.written().deadlines.as_deref();
    assert_eq!(
        left,
        Some(&Deadlines {
            start_by: None,
            end_by: Some(t(9))
        })
    );
    assert_eq!(rig.written().deadline(), Some(t(9)));
}

#[test]
fn a_start_alone_is_forgotten_once_it_is_met() {
    let mut rig = rig(Some(5), None);
    assert_eq!(rig.begin(), ["start 1"]);
    rig.at(7);
    rig.checkpoint(1, "1");
    assert_eq!(rig.written().deadlines, None);
    let lost = with(TaskStatus::Runnable, Some(5), None);
    let lost = lost.claimed(Default::default(), Some("n"), t(3));
    assert_eq!(lost.deadlines, None, "a lost claim counts as a start");
}

#[test]
fn a_command_alone_does_not_meet_the_start() {
    let mut rig = rig(Some(5), None);
    rig.command(Command::Pause);
    assert_eq!(
        rig.begin(),
        ["write paused: pause#1; 1 applied runnable paused; drop"]
    );
    assert_eq!(rig.written().deadline(), Some(t(5)));
    let mut late = Rig::of(rig.written().clone(), Retry::default());
    late.at(5);
    late.command_at(2, Command::Run);
    let [write] = &late.begin()[..] else {
        panic!("one write");
    };
    assert!(
        write.starts_with("write failed: run error error; 2 rejected"),
        "{write}"
    );
}

/// A running handler whose deadline has come, and that was asked to stop.
fn late() -> Rig {
    let mut rig = rig(None, Some(5));
    assert_eq!(rig.begin(), ["arm wake +5s", "start 1"]);
    rig.at(5);
    assert_eq!(rig.wake(), ["signal Deadline", "arm grace +35s"]);
    rig
}

#[test]
fn a_running_handler_is_asked_to_stop_and_the_task_fails_whatever_it_returns() {
    for message in [
        Message::complete(),
        Message::run(),
        Message::sleep_until(t(50)),
        Message::error("no"),
        Message::release(),
    ] {
        let mut rig = late();
        let written = rig.returned(message.with_data(&1));
        assert_eq!(
            written,
            [
                "disarm grace",
                "disarm wake",
                "write failed: error error; drop"
            ]
        );
        assert_eq!(rig.error(), "did not end by 2030-01-01T00:00:05Z");
        assert_eq!(
            rig.written().data.as_ref().unwrap().as_str(),
            "1",
            "the data is kept"
        );
        assert_eq!(rig.written().attempts, 0, "no retry follows");
    }
}

/// Regression: the data stayed without the effects, and a retry took the effects for done.
#[test]
fn after_a_deadline_no_data_of_a_message_with_effects_is_kept() {
    let mut rig = late();
    let message = Message::run().and_send("c", "id", Command::Run);
    let written = rig.returned(message.with_data(&1));
    assert_eq!(written.last().unwrap(), "write failed: error error; drop");
    assert_eq!(rig.written().data, None);
    assert!(rig.write.as_ref().unwrap().effects.is_empty());
}

#[test]
fn a_handler_that_does_not_stop_is_aborted_after_its_grace() {
    let mut rig = late();
    rig.at(34);
    assert_eq!(rig.grace(), ["arm grace +35s"]);
    rig.at(35);
    assert_eq!(rig.grace(), ["abort"]);
    let written = rig.aborted();
    assert_eq!(written.last().unwrap(), "write failed: error error; drop");
}

#[test]
fn kill_ends_in_killed_and_what_is_returned_before_the_deadline_counts() {
    let mut rig = late();
    rig.command(Command::Kill);
    let written = rig.returned(Message::release());
    assert!(
        written.last().unwrap().starts_with("write killed"),
        "{written:?}"
    );
    let mut rig = self::rig(None, Some(5));
    rig.begin();
    rig.at(4);
    let written = rig.returned(Message::complete());
    assert_eq!(written.last().unwrap(), "write completed: complete; drop");
}

#[test]
fn a_clock_that_is_set_back_moves_the_deadline() {
    let mut rig = rig(None, Some(5));
    rig.begin();
    assert_eq!(rig.clock_set_to(3).wake(), ["arm wake +5s"]);
    rig.clock_set_to(5);
    assert_eq!(rig.wake(), ["signal Deadline", "arm grace +30s"]);
    assert_eq!(rig.wake(), NONE, "once");
    rig.clock_set_to(2);
    let written = rig.returned(Message::pause());
    assert_eq!(written.last().unwrap(), "write paused: pause; drop");
}

#[test]
fn a_short_sleep_ends_at_the_deadline() {
    let state = with(TaskStatus::Sleeping { until: t(8) }, None, Some(5));
    let mut rig = Rig::with(config(Retry::default()), state, false);
    assert_eq!(rig.begin(), ["arm wake +5s"]);
    rig.at(5);
    assert_eq!(rig.wake(), ["write failed: error error; drop"]);
}

#[test]
fn a_refused_failure_is_written_again() {
    let mut rig = late();
    rig.returned(Message::complete().with_data(&1));
    let again = rig.refused();
    assert_eq!(again, ["write failed: error error; drop"]);
    assert_eq!(rig.written().data, None);
}

#[test]
fn a_retry_counts_as_a_start_and_ignores_deadlines_that_have_passed() {
    let ended = |end_by| with(TaskStatus::Failed, Some(1), Some(end_by));
    assert_eq!(ended(5).deadline(), None, "it has ended");
    assert_eq!(ended(5).retried(t(5)).deadlines, None);
    assert_eq!(ended(6).retried(t(5)).deadline(), Some(t(6)));
    let state = ended(5).retried(t(5));
    assert_eq!(state.code(), StateKind::Runnable);
    let mut rig = Rig::of(state, Retry::default());
    rig.at(7);
    assert_eq!(rig.begin(), ["start 1"]);
}

#[test]
fn a_handler_without_room_has_not_started() {
    let mut rig = rig(Some(5), None);
    rig.begin();
    rig.stop();
    let written = rig.aborted();
    assert_eq!(written.last().unwrap(), "write runnable: release; drop");
    assert_eq!(rig.written().deadline(), Some(t(5)));
}

#[test]
fn after_a_missed_deadline_only_the_kill_is_applied_whatever_was_sent_before_it() {
    let commands = [
        Command::Complete { result: None },
        Command::Pause,
        Command::Run,
        Command::Sleep { until: t(99) },
        Command::Release,
    ];
    for status in [
        TaskStatus::Runnable,
        TaskStatus::Sleeping { until: t(99) },
        TaskStatus::Paused,
        TaskStatus::Fault,
    ] {
        for command in &commands {
            let mut rig = Rig::of(with(status.clone(), None, Some(5)), Retry::default());
            rig.at(6);
            rig.command(command.clone());
            rig.command(Command::Kill);
            let written = rig.begin().pop().unwrap();
            let rejected = "1 rejected: the task did not end by 2030-01-01T00:00:05Z; 2 applied";
            assert!(written.starts_with("write killed: kill#2"), "{written}");
            assert!(written.contains(rejected), "{written}");
        }
    }
}

#[test]
fn what_a_handler_returns_after_a_missed_deadline_does_not_count_beside_a_kill() {
    for message in [Message::complete(), Message::pause(), Message::run()] {
        let mut rig = late();
        rig.command(Command::Kill);
        let written = rig.returned(message.with_data(&1));
        let last = written.last().unwrap();
        assert!(last.starts_with("write killed: kill#1"), "{written:?}");
        assert_eq!(rig.written().data.as_ref().unwrap().as_str(), "1");
    }
}
