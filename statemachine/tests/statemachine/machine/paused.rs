//! Who paused a task, and since when a task runs.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use windlass_statemachine::{
    Author, Command, Fence, Message, Note, QueuedCommand, StateKind, TaskState, machine::Input,
    state::Pause,
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
    state.status = windlass_statemachine::TaskStatus::Paused;
    let mut rig = Rig::of(state, windlass_statemachine::Retry::default());
    rig.feed(sent(1, Command::Pause, "alice"));
    rig.feed(sent(2, Command::Checkpoint, "carol"));
    rig.feed(sent(3, Command::Pause, "bob"));
    rig.begin();
    assert_eq!(paused(rig.written()).unwrap(), "bob: why 3");
    rig.stored();
    let mut rig = Rig::of(
        rig.written().clone(),
        windlass_statemachine::Retry::default(),
    );
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
    let mut rig = Rig::of(claimed, windlass_statemachine::Retry::default());
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
