//! Checkpoints and progress of a running handler.

use windlass_statemachine::machine::Input;
use windlass_statemachine::{Command, Message, Progress};

use super::NONE;
use crate::common::{Rig, json};

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
    let as_large_as_allowed = format!("\"{}\"", "x".repeat(98));
    assert_eq!(rig.checkpoint(2, &as_large_as_allowed), ["write runnable"]);
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

#[test]
fn progress_is_kept_with_the_next_write_until_the_task_ends() {
    let mut rig = Rig::running();
    let half = Progress::new(Some(0.5), "half");
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
fn progress_is_stored_by_itself_once_for_each_change_and_cleared_in_the_next_run() {
    let mut rig = Rig::running();
    let half = Progress::new(Some(0.5), "half");
    assert_eq!(rig.feed(Input::KeepProgress), NONE, "there is none");
    rig.feed(Input::Progress(half.clone()));
    rig.feed(Input::KeepProgress);
    assert_eq!(rig.written().progress, Some(half.clone()));
    assert_eq!(rig.feed(Input::KeepProgress), NONE, "a write is under way");
    rig.stored();
    rig.feed(Input::Progress(half.clone()));
    assert_eq!(rig.feed(Input::KeepProgress), NONE, "nothing has changed");
    rig.returned(Message::run());
    assert_eq!(rig.written().progress, Some(half));
    rig.stored();
    rig.feed(Input::KeepProgress);
    assert_eq!(
        rig.written().progress,
        None,
        "the next run has reported none"
    );
}

#[test]
fn a_long_text_of_progress_is_cut() {
    let mut rig = Rig::running();
    rig.feed(Input::Progress(Progress::new(None, "ü".repeat(1_000_000))));
    rig.returned(Message::pause());
    let text = &rig.written().progress.as_ref().unwrap().text;
    assert!(text.len() <= 4096 && text.ends_with('…'));
}
