//! More commands than one write takes the outcomes of: five, here.

use windlass_statemachine::{Command, Message, Retry};

use super::asleep;
use crate::common::Rig;

/// A task that sleeps, with so many commands that wait.
fn waiting(commands: &[Command]) -> Rig {
    let mut rig = Rig::of(asleep(1000), Retry::default());
    for command in commands {
        rig.command(command.clone());
    }
    rig
}

fn outcomes(rig: &Rig) -> Vec<u64> {
    let outcomes = rig.write.iter().flat_map(|write| &write.outcomes);
    outcomes.map(|(order, _)| *order).collect()
}

fn drops(rig: &Rig) -> bool {
    rig.write.as_ref().is_some_and(|write| write.drop_claim)
}

#[test]
fn the_rest_is_settled_by_the_writes_that_follow_and_then_the_claim_is_dropped() {
    let mut rig = waiting(&vec![Command::Pause; 12]);
    rig.begin();
    assert_eq!(outcomes(&rig), [1, 2, 3, 4, 5]);
    assert!(!drops(&rig), "more is to come");
    rig.stored();
    assert_eq!(outcomes(&rig), [6, 7, 8, 9, 10]);
    rig.stored();
    assert_eq!(outcomes(&rig), [11, 12]);
    assert!(drops(&rig));
    assert_eq!(rig.stored(), ["done paused"]);
}

#[test]
fn no_handler_is_started_between_two_of_them() {
    let mut commands = vec![Command::Run; 6];
    commands.push(Command::Pause);
    let mut rig = waiting(&commands);
    rig.begin();
    assert_eq!(outcomes(&rig), [1, 2, 3, 4, 5]);
    let line =
        "write paused: run#6 pause#7; 6 applied runnable runnable; 7 applied runnable paused; drop";
    assert_eq!(rig.stored(), [line]);
}

#[test]
fn a_kill_behind_many_ends_the_task() {
    let mut commands = vec![Command::Pause; 7];
    commands.push(Command::Kill);
    let mut rig = waiting(&commands);
    rig.begin();
    rig.stored();
    assert_eq!(outcomes(&rig), [6, 7, 8]);
    assert_eq!(rig.stored(), ["done killed"]);
}

#[test]
fn a_stop_releases_the_claim_with_the_commands_that_wait() {
    let mut rig = waiting(&vec![Command::Pause; 12]);
    rig.begin();
    rig.stop();
    rig.stored();
    assert_eq!(outcomes(&rig), [6, 7, 8, 9, 10]);
    assert!(drops(&rig));
    assert_eq!(rig.stored(), ["done paused"], "11 and 12 wait in the store");
}

/// Those that wait behind the end are rejected by the store in the same write.
#[test]
fn a_handler_that_completes_is_not_held_up_by_them() {
    let mut rig = Rig::running();
    for _ in 0..12 {
        rig.command(Command::Pause);
    }
    rig.command(Command::Complete { result: None });
    rig.returned(Message::complete());
    assert_eq!(outcomes(&rig), [1, 2, 3, 4, 5]);
    assert_eq!(rig.stored(), ["done completed"]);
}

#[test]
fn a_checkpoint_answers_some_of_those_that_ask_for_one() {
    let mut rig = Rig::running();
    for _ in 0..7 {
        rig.command(Command::Checkpoint);
    }
    rig.checkpoint(1, "1");
    assert_eq!(outcomes(&rig), [1, 2, 3, 4, 5]);
    rig.stored();
    rig.checkpoint(2, "2");
    assert_eq!(outcomes(&rig), [6, 7]);
}
