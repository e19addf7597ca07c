//! Another process continues the machine of a handler that runs on.

use windlass_statemachine::{
    Command, Fence, Message, Retry, TaskState,
    machine::{Config, Effect, Env, Input, StopReason},
    state::Deadlines,
};

use super::signals::{answer, signal};
use super::{NONE, paused};
use crate::common::{Rig, config, t, t0};

/// The state of a task that was claimed for the first time.
pub(super) fn claimed() -> TaskState {
    TaskState::new(t0()).claimed(Fence(7), None, t0())
}

fn adopted() -> Rig {
    let rig = Rig::adopted(claimed(), 0);
    assert!(rig.machine.is_running());
    rig
}

#[test]
fn the_handler_is_not_started_again_whatever_comes_before_it_ends() {
    let mut rig = adopted();
    assert_eq!(rig.begin(), NONE);
    assert_eq!(rig.checkpoint(1, "1"), ["write runnable"]);
    assert_eq!(rig.stored(), ["checkpoint 1 ok"]);
    assert_eq!(
        rig.command(Command::Pause),
        ["signal pause", "arm grace +30s"]
    );
    assert_eq!(rig.wake(), NONE);
    assert_eq!(rig.begin(), NONE);
    assert_eq!(rig.at(30).grace(), ["abort"]);
    let last = "write paused: pause#1; 1 applied runnable paused; drop";
    assert_eq!(rig.aborted(), ["disarm grace", last]);
    assert_eq!(rig.stored(), ["done paused"]);
}

#[test]
fn its_return_is_applied_and_the_next_run_is_started() {
    let mut rig = adopted();
    assert_eq!(
        rig.returned(Message::run().with_data(&1)),
        ["write runnable: run"]
    );
    assert_eq!(rig.stored(), ["start 1"]);
    assert_eq!(rig.machine.run(), Some(2));
    let mut rig = adopted();
    let failed = rig.returned(Message::error("no luck"));
    assert_eq!(failed, ["write sleeping +0.5s: error sleep"]);
    assert_eq!(rig.written().attempts, 1, "the adoption counts no attempt");
}

#[test]
fn its_checkpoint_and_its_reply_are_stored_beside_it() {
    let mut rig = adopted();
    rig.command(signal("go"));
    assert_eq!(
        answer(&mut rig, 7, 1, "true"),
        ["write runnable; 1 answered true"]
    );
    assert_eq!(rig.checkpoint(8, "5"), NONE, "one write at a time");
    assert_eq!(rig.stored(), ["checkpoint 7 ok", "write runnable"]);
    assert_eq!(rig.stored(), ["checkpoint 8 ok"]);
    assert_eq!(rig.machine.run(), Some(1));
}

#[test]
fn an_abort_counts_as_a_run_because_only_what_has_started_is_adopted() {
    let mut state = claimed();
    state.deadlines = Some(Box::new(Deadlines {
        start_by: Some(t(5)),
        end_by: None,
    }));
    let mut rig = Rig::adopted(state, 0);
    // The worker has counted the grace of a stop that the process before had asked for.
    assert_eq!(rig.at(6).aborted(), ["write runnable"]);
    assert_eq!(rig.written().deadlines, None);
    assert_eq!(rig.stored(), ["start 1"]);
}

#[test]
fn a_stop_asks_it_again_and_counts_the_whole_grace() {
    let mut first = Rig::named(claimed());
    first.begin();
    first.stop();
    let mut rig = first.at(20).adopted_elsewhere(0);
    assert_eq!(rig.stop(), ["signal Shutdown", "arm grace +30s"]);
    assert_eq!(
        rig.returned(Message::release()),
        ["disarm grace", "write runnable: release; drop"]
    );
    let mut rig = first.adopted_elsewhere(0);
    let now = Input::StopNow(StopReason::StopTask);
    assert_eq!(rig.feed(now), ["signal StopTask", "abort"]);
    assert_eq!(
        rig.aborted(),
        ["disarm grace", "write runnable: release; drop"]
    );
}

#[test]
fn a_claim_that_is_lost_after_it_aborts_the_handler() {
    let mut rig = adopted();
    assert_eq!(rig.fenced(), ["signal LeaseLost", "abort", "lost"]);
}

/// Found by this test: the timer was armed at the start of a handler only.
#[test]
fn the_deadline_of_an_adopted_run_is_counted() {
    let mut state = claimed();
    state.deadlines = Some(Box::new(Deadlines {
        start_by: Some(t(3)),
        end_by: Some(t(9)),
    }));
    let mut rig = Rig::adopted(state.clone(), 0);
    assert_eq!(rig.begin(), ["arm wake +9s"], "it has started");
    assert_eq!(rig.at(9).wake(), ["signal Deadline", "arm grace +39s"]);
    let last = "write failed: error error; drop";
    let ended = rig.returned(Message::complete());
    assert_eq!(ended, ["disarm grace", "disarm wake", last]);
    assert_eq!(rig.error(), "did not end by 2030-01-01T00:00:09Z");

    // It has passed already: the timer goes off at once.
    let mut rig = Rig::adopted(state, 0);
    assert_eq!(rig.at(10).begin(), ["arm wake +9s"]);
    assert_eq!(rig.wake(), ["signal Deadline", "arm grace +40s"]);
}

#[test]
fn commands_that_waited_are_delivered_again() {
    let mut first = Rig::named(claimed());
    first.begin();
    first.command(signal("go"));
    first.command(Command::Pause);
    let mut rig = first.adopted_elsewhere(0);
    assert_eq!(rig.command(signal("go")), ["signal go#1"]);
    assert_eq!(
        rig.command(Command::Pause),
        ["signal pause", "arm grace +30s"]
    );
    assert_eq!(rig.begin(), NONE);
    assert_eq!(rig.at(30).grace(), ["abort"]);
}

#[test]
fn a_command_that_has_its_outcome_is_not_delivered_again() {
    let mut first = Rig::named(claimed());
    first.begin();
    first.command(Command::Checkpoint);
    first.checkpoint(1, "1");
    first.stored();
    let mut rig = first.adopted_elsewhere(1);
    assert_eq!(rig.command_at(1, Command::Checkpoint), NONE);
    assert_eq!(rig.command_at(2, Command::Kill).len(), 2);
}

#[test]
fn what_the_handler_took_decides_which_signals_it_has_seen() {
    for (took, of_return) in [
        (0, "write runnable: pause run#1"),
        (1, "write runnable: pause run#2; 1 unanswered"),
        (2, "write paused: pause; 1 unanswered; 2 unanswered; drop"),
    ] {
        let mut rig = Rig::adopted(claimed(), took);
        rig.command(signal("seen"));
        rig.command(signal("late"));
        assert_eq!(rig.returned(Message::pause()), [of_return], "took {took}");
    }
    // It may take more after the adoption, and never less.
    let mut rig = Rig::adopted(claimed(), 1);
    rig.command(signal("seen"));
    rig.command(signal("more"));
    rig.feed(Input::Took(2));
    rig.feed(Input::Took(1));
    let of_return = "write paused: pause; 1 unanswered; 2 unanswered; drop";
    assert_eq!(rig.returned(Message::pause()), [of_return]);
}

#[test]
fn a_signal_of_its_start_that_it_did_not_take_starts_it_again() {
    let mut first = Rig::named(paused().claimed(Fence(7), None, t0()));
    first.command(signal("go"));
    first.begin();
    assert_eq!(first.stored(), ["start 1", "signal go#1"]);
    let mut rig = first.adopted_elsewhere(0);
    rig.command(signal("go"));
    assert_eq!(
        rig.returned(Message::pause()),
        ["write runnable: pause run#1"]
    );
}

#[test]
fn the_name_of_a_run_is_the_version_at_its_start_and_is_kept_while_it_goes_on() {
    let mut rig = Rig::named(claimed());
    assert_eq!(rig.machine.run(), None);
    let (mut out, now) = (Vec::new(), rig.now);
    let env = Env {
        now,
        elapsed: rig.elapsed(),
        jitter: 0.5,
    };
    rig.machine.input(Input::Begin, env, &mut out);
    assert!(matches!(out[..], [Effect::Start { run: 1, .. }]), "{out:?}");
    assert_eq!(rig.machine.run(), Some(1));
    assert_eq!(rig.machine.state().current_run(), 1, "nothing is written");

    for ticket in 1..=2 {
        rig.checkpoint(ticket, "1");
        assert_eq!(rig.written().run, Some(1));
        rig.stored();
        let state = rig.machine.state();
        assert_eq!((state.version, state.current_run()), (1 + ticket, 1));
    }
    let mut rig = rig.adopted_elsewhere(0);
    assert_eq!(rig.machine.run(), Some(1));
    rig.checkpoint(3, "2");
    rig.stored();
    assert_eq!(rig.written().run, Some(1));
    rig.returned(Message::run());
    assert_eq!((rig.written().run, rig.machine.run()), (None, None));
    assert_eq!(rig.stored(), ["start 1"]);
    assert_eq!(rig.machine.run(), Some(5), "the next has a greater name");
    assert_eq!(rig.machine.state().current_run(), 5);
}

#[test]
fn the_name_of_a_run_is_gone_after_an_abort_and_with_the_next_claim() {
    let mut rig = Rig::named(claimed());
    rig.begin();
    rig.checkpoint(1, "1");
    rig.stored();
    let state = rig.machine.state().clone();
    assert_eq!(state.run, Some(1));
    let next = state.claimed(Fence(8), Some("n"), t(1));
    assert_eq!((next.run, next.current_run()), (None, next.version));

    rig.stop();
    rig.at(30).grace();
    rig.aborted();
    assert_eq!(rig.written().run, None);
}

/// Found by the model test: the run had the name 2, and the state still named it 1. The next process did not recognize it.
#[test]
fn a_run_that_did_not_start_before_its_process_was_lost_is_started_by_the_next_with_the_same_name()
{
    let mut first = Rig::named(claimed());
    first.begin();
    first.command(Command::Checkpoint);
    first.at(30).grace();
    first.stored();
    let state = first.machine.state().clone();
    assert_eq!((state.version, state.run), (2, Some(1)));

    let mut rig = Rig::named(state);
    assert_eq!(rig.begin(), ["start 1"]);
    assert_eq!(rig.machine.run(), Some(1));
    assert_eq!(rig.machine.state().current_run(), 1);
}

#[test]
fn a_run_in_the_process_of_its_node_has_no_name_in_the_state() {
    let mut rig = Rig::with(config(Retry::default()), claimed(), false);
    rig.begin();
    assert_eq!(rig.machine.run(), Some(1));
    rig.checkpoint(1, "1");
    assert_eq!(rig.written().run, None);
}

#[test]
fn the_progress_of_an_adopted_run_is_kept() {
    let mut first = Rig::named(claimed());
    first.begin();
    let half = windlass_statemachine::Progress::new(Some(0.5), "half");
    first.feed(Input::Progress(half.clone()));
    first.checkpoint(1, "1");
    first.stored();
    let mut rig = first.adopted_elsewhere(0);
    assert_eq!(rig.feed(Input::KeepProgress), NONE, "it is stored");
    rig.checkpoint(1, "2");
    assert_eq!(rig.written().progress, Some(half));
}

#[test]
fn a_refused_return_of_an_adopted_run_is_a_failed_attempt() {
    let mut rig = adopted();
    rig.feed(Input::Numbered(1));
    rig.returned(Message::complete());
    assert_eq!(rig.refused(), ["write sleeping +0.5s: error sleep"]);
    let report = rig.written().report.as_deref();
    assert_eq!(
        report.and_then(|report| report.refused.as_deref()),
        Some("too much")
    );
}

/// The settings may differ from those of the process before: those of the adopter count.
#[test]
fn a_kind_that_takes_no_signals_any_more_rejects_them_beside_the_run() {
    let deaf = Config {
        takes_signals: false,
        named_runs: true,
        ..config(Retry::default())
    };
    let mut rig = adopted();
    rig.machine = windlass_statemachine::Machine::adopt(deaf, claimed(), 0);
    let rejected = "write runnable; 1 rejected: the kind does not accept signals";
    assert_eq!(rig.command(signal("go")), [rejected]);
    assert_eq!(rig.written().run, Some(1));
}
