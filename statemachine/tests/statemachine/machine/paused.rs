//! Who paused a task, and since when a task runs.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use windlass_statemachine::{
    Author, Command, Fence, Message, Note, QueuedCommand, Retry, StateKind, TaskState, TaskStatus,
    machine::Input,
    state::{Pause, Skipped},
    transition,
    waits::Waits,
};

use crate::common::{Rig, t, t0};

fn sent(order: u64, command: Command, by: &str) -> Input {
    let queued = QueuedCommand::new(format!("c{order}").parse().unwrap(), order, command);
    let note = Note::new(format!("why {order}")).unwrap();
    Input::Command(queued.by(Author::new(by).unwrap()).note(note))
}

fn paused(state: &TaskState) -> Option<String> {
    state.paused.as_ref().map(ToString::to_string)
}

#[test]
fn a_pause_by_a_command_names_its_author_and_its_note() {
    let mut rig = Rig::running();
    rig.feed(sent(1, Command::Pause, "alice"));
    rig.returned(Message::pause());
    assert_eq!(paused(rig.written()).unwrap(), "alice: why 1");
    assert_eq!(rig.written().paused.as_ref().unwrap().command, Some(1));
    // The handler did not stop, and the command is applied as it is.
    let mut rig = Rig::running();
    rig.feed(sent(1, Command::Pause, "alice"));
    rig.at(31).grace();
    rig.aborted();
    assert_eq!(paused(rig.written()).unwrap(), "alice: why 1");
}

#[test]
fn a_pause_by_the_handler_names_no_command() {
    let mut rig = Rig::running();
    rig.returned(Message::pause());
    assert_eq!(rig.written().paused.as_deref(), Some(&Pause::by_handler()));
    // A command that was overridden by a pause of the handler paused nothing.
    let mut rig = Rig::running();
    rig.feed(sent(1, Command::Release, "alice"));
    rig.returned(Message::pause());
    assert_eq!(paused(rig.written()).unwrap(), "its handler");
}

#[test]
fn a_task_that_is_paused_again_names_the_last_author_and_a_resumed_one_none() {
    let mut state = TaskState::new(t0());
    state.status = TaskStatus::Paused;
    let mut rig = Rig::of(state, Retry::default());
    rig.feed(sent(1, Command::Pause, "alice"));
    rig.feed(sent(2, Command::Checkpoint, "carol"));
    rig.feed(sent(3, Command::Pause, "bob"));
    rig.begin();
    assert_eq!(paused(rig.written()).unwrap(), "bob: why 3");
    rig.stored();
    let mut rig = Rig::of(rig.written().clone(), Retry::default());
    rig.feed(sent(4, Command::Run, "dan"));
    rig.begin();
    assert_eq!(
        (rig.written().code(), paused(rig.written())),
        (StateKind::Runnable, None)
    );
}

#[test]
fn a_run_begins_with_its_claim_and_with_each_message_that_runs_the_handler_again() {
    let claimed = TaskState::new(t0()).claimed(Fence(1), None, t(5));
    assert_eq!((claimed.since, claimed.run_since), (t0(), Some(t(5))));
    let mut rig = Rig::of(claimed, Retry::default());
    rig.begin();
    rig.at(9).checkpoint(1, "7");
    assert_eq!(rig.written().run_since, Some(t(5)), "the same run goes on");
    rig.stored();
    rig.at(20).returned(Message::run());
    assert_eq!(
        (rig.written().since, rig.written().run_since),
        (t0(), Some(t(20)))
    );
    let slept = TaskState::submitted(Some(t(50)), t0());
    assert_eq!(slept.clone().claimed(Fence(1), None, t(10)).run_since, None);
    let woken = slept.claimed(Fence(1), None, t(60));
    assert_eq!((woken.ready(), woken.run_since), (Some(t(60)), None));
    assert_eq!(woken.retried(t(70)).run_since, None);
}

/// A command to run starts a paused task at once, so its state says what the pause interrupted: also after a second pause.
#[test]
fn a_pause_keeps_what_it_interrupts() {
    let slept = TaskState::submitted(Some(t(60)), t0());
    let mut rig = Rig::of(slept, Retry::default());
    rig.feed(sent(1, Command::Pause, "alice"));
    rig.feed(sent(2, Command::Pause, "bob"));
    rig.begin();
    let state = rig.written().clone();
    assert_eq!(paused(&state).unwrap(), "bob: why 2");
    assert_eq!(state.skipped(t(59)), Some(Skipped::Time(t(60))));
    assert_eq!(state.skipped(t(60)), None, "its time has come");
    let again = transition(&state, &Message::sleep_until(t(60)), t(1)).unwrap();
    assert_eq!((again.due(), paused(&again)), (Some(t(60)), None));
    let resumed = transition(&state, &Message::run(), t(1)).unwrap();
    assert_eq!(resumed.skipped(t(1)), None);

    let waits = TaskState::new(t0()).waiting(Waits::new("after", ["a", "b"]).unwrap());
    let held = transition(&waits, &Message::pause(), t(1)).unwrap();
    for state in [&waits, &held] {
        let skipped = state.skipped(t(1)).unwrap();
        assert_eq!(skipped.to_string(), "its wait for 2 tasks");
    }
    // A sleep by command has ended this wait before.
    let slept = transition(&waits, &Message::sleep_until(t(60)), t(1)).unwrap();
    let held = transition(&slept, &Message::pause(), t(2)).unwrap();
    assert_eq!(held.skipped(t(3)), Some(Skipped::Time(t(60))));

    let asks = Message::wait_for_signal("approve");
    let asks = transition(&TaskState::new(t0()), &asks, t0()).unwrap();
    let held = transition(&asks, &Message::pause(), t(1)).unwrap();
    let skipped = held.skipped(t(1)).unwrap();
    assert_eq!(skipped.to_string(), "its wait for the signal 'approve'");
    let runs = transition(&TaskState::new(t0()), &Message::pause(), t(1)).unwrap();
    assert_eq!(runs.skipped(t(1)), None, "it was running");
}
