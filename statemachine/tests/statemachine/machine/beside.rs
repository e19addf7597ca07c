//! Commands that do not stop a running handler, and the grace of each command.

use windlass_statemachine::{Command, Message};

use super::NONE;
use crate::common::{Rig, json};

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
