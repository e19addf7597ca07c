//! Writes that the store refuses.

use windlass_statemachine::machine::Input;
use windlass_statemachine::{Command, Message, Retry, StopReason, TaskState};

use super::{AtOnce, NONE, asleep, result};
use crate::common::{Rig, config, t0};

#[test]
fn a_refused_write_is_an_error_and_its_commands_are_not_lost() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.command(Command::Checkpoint);
    rig.command(Command::Pause);
    let message = Message::run().with_data(&1);
    assert_eq!(
        rig.returned(message),
        [
            "disarm grace",
            "write paused: run pause#2; 1 overridden by run; 2 applied runnable paused; drop"
        ]
    );
    assert_eq!(
        rig.refused(),
        ["write paused: error run pause#2; 1 overridden by error; 2 applied runnable paused; drop"]
    );
    assert_eq!(
        rig.error(),
        "the result of the handler could not be stored: too much"
    );
    assert_eq!(
        (rig.written().data.clone(), rig.written().attempts),
        (None, 1)
    );
    assert_eq!(rig.written().version, 1, "the first was never written");
    assert_eq!(rig.stored(), ["done paused"]);
}

#[test]
fn a_refused_completion_follows_the_policy() {
    let mut rig = Rig::running();
    rig.returned(Message::complete());
    assert_eq!(rig.refused(), ["write sleeping +0.5s: error sleep"]);
    assert_eq!(rig.stored(), ["arm wake +0.5s"]);
}

#[test]
fn a_write_that_is_refused_for_its_size_fails_the_task() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.returned(Message::complete());
    assert_eq!(
        rig.refused_for_good(),
        ["write failed: error error; drop"],
        "a retry does not make it smaller"
    );
    assert_eq!(
        rig.error(),
        "the result of the handler could not be stored: too much"
    );
    assert_eq!(rig.stored(), ["done failed"]);
}

#[test]
fn an_error_that_no_retry_fixes_stays_one_when_it_is_refused() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.returned(Message::fail("no such address"));
    for _ in 0..2 {
        assert_eq!(rig.refused(), ["write failed: error error; drop"]);
    }
    assert_eq!(rig.stored(), ["done failed"]);
}

#[test]
fn a_write_that_is_refused_three_times_releases_the_task_as_it_was() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.returned(Message::complete());
    assert_eq!(rig.refused(), ["write runnable: error run"]);
    assert_eq!(rig.refused(), ["write runnable: error run"]);
    assert_eq!(
        rig.written().errors.total(),
        1,
        "each begins from what is durable"
    );
    assert_eq!(rig.refused(), ["write runnable; drop"]);
    assert_eq!(rig.written().errors.total(), 0);
    assert_eq!(rig.refused(), ["lost"]);
    // Those before a success do not count.
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    for _ in 0..3 {
        rig.returned(Message::complete());
        rig.refused();
        rig.refused();
        assert_eq!(rig.stored().len(), 1);
        assert!(rig.machine.is_running());
    }
}

#[test]
fn a_refused_kill_is_a_kill_without_the_data() {
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    rig.returned(Message::kill().with_data(&1));
    assert_eq!(
        rig.refused(),
        ["write killed: kill#1; 1 applied runnable killed; drop"]
    );
    assert_eq!(rig.written().data, None);
}

#[test]
fn a_refused_result_of_a_command_rejects_the_command_and_costs_no_attempt() {
    let mut rig = Rig::of(asleep(5), Retry::Never);
    rig.begin();
    rig.command(Command::Checkpoint);
    rig.stored();
    rig.command(result("1"));
    assert_eq!(
        rig.refused(),
        ["write sleeping +5s; 2 rejected: result: the store refused it; send a smaller one"]
    );
    assert_eq!(rig.written().errors.total(), 0);
    assert_eq!(rig.stored(), ["arm wake +5s"]);
    // A command without a result is sent again.
    rig.command(Command::Pause);
    assert_eq!(
        rig.refused(),
        ["write paused: pause#3; 3 applied sleeping paused; drop"]
    );
}

#[test]
fn a_refused_result_after_a_refused_return_is_rejected_in_the_end() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.checkpoint(1, "1");
    rig.returned(Message::run());
    rig.command(result("2"));
    assert_eq!(
        rig.stored()[1],
        "write completed: run complete#1; 1 applied runnable completed; drop"
    );
    assert_eq!(
        rig.refused(),
        ["write completed: error run complete#1; 1 applied runnable completed; drop"]
    );
    assert_eq!(
        rig.refused(),
        ["write runnable: error run; 1 rejected: result: the store refused it; send a smaller one"]
    );
    assert_eq!(rig.stored(), ["start 2"]);
}

#[test]
fn giving_up_is_written_again_when_it_is_refused() {
    let mut rig = Rig::with(config(Retry::Never), TaskState::new(t0()), true);
    assert_eq!(rig.begin(), ["write failed: error error; drop"]);
    assert_eq!(rig.refused(), ["write failed: error error; drop"]);
    assert_eq!(rig.stored(), ["done failed"]);
}

#[test]
fn a_refused_write_beside_a_running_handler_does_not_start_a_second_one() {
    let mut rig = Rig::running();
    rig.command(Command::Run);
    rig.at(30).grace();
    assert_eq!(rig.refused(), ["arm grace +30s"]);
    assert!(rig.machine.is_running());
    assert_eq!(
        rig.grace(),
        ["write runnable: run#1; 1 applied runnable runnable"]
    );
    assert_eq!(rig.refused(), ["arm grace +30s"]);
    rig.grace();
    assert_eq!(
        rig.refused(),
        ["signal LeaseLost", "abort", "disarm grace", "lost"]
    );
}

#[test]
fn the_claim_is_kept_until_an_aborted_handler_has_ended() {
    let mut rig = Rig::running();
    rig.command(Command::Run);
    rig.at(30);
    for _ in 0..2 {
        rig.grace();
        rig.refused();
    }
    rig.grace();
    let stop = Input::StopNow(StopReason::Shutdown);
    assert_eq!(rig.feed(stop), ["signal Shutdown", "abort"]);
    assert_eq!(rig.refused(), NONE, "the handler has not ended yet");
    assert_eq!(
        rig.aborted(),
        [
            "disarm grace",
            "write runnable: run#1 release; 1 applied runnable runnable; drop"
        ]
    );
    assert_eq!(rig.refused(), ["write runnable; drop"]);
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn refusals_before_a_handlers_return_count_unless_they_are_of_its_checkpoint() {
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.checkpoint(1, "1");
    rig.returned(Message::complete());
    assert_eq!(
        rig.refused(),
        [
            "checkpoint 1 refused: too much",
            "write completed: complete; drop"
        ]
    );
    for _ in 0..2 {
        assert_eq!(rig.refused(), ["write runnable: error run"]);
    }
    assert_eq!(rig.refused(), ["write runnable; drop"], "the third");
    // The write of a command counts.
    let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
    rig.begin();
    rig.command(Command::Run);
    rig.at(30).grace();
    rig.returned(Message::complete());
    assert_eq!(
        rig.refused(),
        ["write completed: complete; 1 overridden by complete; drop"]
    );
    assert_eq!(
        rig.refused(),
        ["write runnable: error run; 1 overridden by error"]
    );
    assert_eq!(rig.refused(), ["write runnable; drop"], "the third");
}
