//! Signals: delivered in their place, answered once, never lost.

use windlass_statemachine::{
    Command, Message, Signal, TaskState,
    machine::{Answer, Config, Input, StopReason},
};

use super::{
    NONE, asleep,
    common::{Rig, config, json, t, t0},
    paused,
};
use windlass_statemachine::Retry;

pub(super) fn signal(name: &str) -> Command {
    Command::Signal(Signal::new(name))
}

/// The signal of this order, as a handler has it.
pub(super) fn at(order: u64) -> Signal {
    Signal::new("any").at(order)
}

pub(super) fn answer(rig: &mut Rig, ticket: u64, order: u64, reply: &str) -> Vec<String> {
    answer_with(rig, ticket, order, (reply, None))
}

pub(super) fn answer_with(
    rig: &mut Rig,
    ticket: u64,
    order: u64,
    (reply, data): (&str, Option<&str>),
) -> Vec<String> {
    let answer = Answer {
        signal: order,
        reply: json(reply),
        data: data.map(json),
    };
    rig.feed(Input::Answer { ticket, answer })
}

pub(super) fn of(state: TaskState) -> Rig {
    Rig::of(state, Retry::default())
}

#[test]
fn a_running_handler_gets_a_signal_at_once_and_replies_beside_its_work() {
    let mut rig = Rig::running();
    assert_eq!(rig.command(signal("go")), ["signal go#1"]);
    let written = answer_with(&mut rig, 7, 1, ("true", Some("5")));
    assert_eq!(written, ["write runnable; 1 answered true"]);
    assert_eq!(rig.written().data, Some(json("5")));
    assert_eq!(rig.written().last_command, None);
    assert_eq!(rig.stored(), ["checkpoint 7 ok"]);
    assert_eq!(
        rig.returned(Message::complete()),
        ["write completed: complete; drop"]
    );
}

#[test]
fn a_signal_wakes_a_task_that_sleeps_or_is_paused() {
    for state in [paused(), asleep(3600), asleep(5)] {
        let from = state.code();
        let mut rig = of(state);
        assert_eq!(rig.command(signal("go")), NONE);
        assert_eq!(rig.begin(), ["write runnable: run#1"], "{from}");
        assert_eq!(rig.stored(), ["start 1", "signal go#1"]);
        let returned = rig.returned(Message::pause().answer(&at(1), &"ok"));
        assert_eq!(returned, ["write paused: pause; 1 answered \"ok\"; drop"]);
    }
}

#[test]
fn a_signal_ends_a_short_sleep() {
    let mut rig = of(asleep(5));
    assert_eq!(rig.begin(), ["arm wake +5s"]);
    let woken = ["disarm wake", "write runnable: run#1"];
    assert_eq!(rig.command(signal("go")), woken);
}

#[test]
fn a_signal_that_is_left_without_a_reply_ends_as_unanswered_in_the_write_of_the_return() {
    let mut rig = of(paused());
    rig.command(signal("go"));
    rig.begin();
    rig.stored();
    let returned = rig.returned(Message::pause());
    assert_eq!(returned, ["write paused: pause; 1 unanswered; drop"]);
}

#[test]
fn a_kept_signal_holds_the_claim_and_does_not_wake() {
    let mut rig = of(paused());
    rig.command(signal("go"));
    rig.begin();
    rig.stored();
    assert_eq!(
        rig.returned(Message::pause().keep_signals()),
        ["write paused: pause"]
    );
    assert_eq!(rig.written().kept_signals, 1);
    assert_eq!(rig.stored(), NONE);
    assert!(rig.machine.is_idle());
    // The next signal wakes it, and the handler gets both.
    let woken = ["disarm wake", "write runnable: run#2"];
    assert_eq!(rig.command(signal("more")), woken);
    assert_eq!(rig.stored(), ["start 1", "signal go#1", "signal more#2"]);
    assert_eq!(rig.written().kept_signals, 0);
}

/// A kept signal holds the claim, and a task that waits for others has none.
#[test]
fn a_message_that_waits_for_other_tasks_keeps_no_signals() {
    let mut rig = of(paused());
    rig.command(signal("go"));
    rig.begin();
    rig.stored();
    let written = rig.returned(Message::wait_for(["other"]).keep_signals());
    assert!(written[0].ends_with("; drop"), "{written:?}");
    assert!(written[0].contains("1 unanswered"), "{written:?}");
}

#[test]
fn the_next_owner_knows_which_signals_were_kept() {
    let mut state = paused();
    state.kept_signals = 4;
    let mut rig = of(state);
    rig.command_at(4, signal("old"));
    assert_eq!(rig.begin(), NONE);
    assert!(rig.machine.is_idle());
    assert_eq!(rig.stop(), ["disarm wake", "write paused: release; drop"]);
    assert_eq!(rig.written().kept_signals, 4);
}

#[test]
fn a_kept_signal_outlives_a_sleep() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    let asleep = rig.returned(Message::sleep_until(t(3600)).keep_signals());
    // The handler did not take it, so it starts again for it.
    assert_eq!(
        asleep,
        ["write runnable +0s: sleep run#1"].map(|l| l.replace(" +0s", ""))
    );
    assert_eq!(rig.stored(), ["start 1", "signal go#1"]);
    let asleep = rig.returned(Message::sleep_until(t(3600)).keep_signals());
    assert_eq!(asleep, ["write sleeping +3600s: sleep"]);
    assert_eq!(rig.stored(), ["arm wake +3600s"]);
    rig.at(3600);
    assert_eq!(rig.wake(), ["write runnable: run"]);
    assert_eq!(rig.stored(), ["start 1", "signal go#1"]);
}

#[test]
fn a_signal_that_the_handler_has_not_seen_starts_it_again() {
    let mut rig = Rig::running();
    rig.command(signal("seen"));
    rig.command(signal("late"));
    rig.feed(Input::Took(1));
    let returned = rig.returned(Message::pause());
    assert_eq!(returned, ["write runnable: pause run#2; 1 unanswered"]);
    assert_eq!(rig.stored(), ["start 1", "signal late#2"]);
}

#[test]
fn a_release_and_an_error_keep_the_signals() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    rig.feed(Input::Took(1));
    assert_eq!(
        rig.returned(Message::release()),
        ["write runnable: release; drop"]
    );

    let mut rig = Rig::running();
    rig.command(signal("go"));
    rig.feed(Input::Took(1));
    let failed = rig.returned(Message::error("no luck"));
    assert_eq!(failed, ["write sleeping +0.5s: error sleep"]);
    assert_eq!(
        rig.stored(),
        ["arm wake +0.5s"],
        "it does not end the wait of the retry"
    );

    let mut rig = Rig::running();
    rig.command(signal("go"));
    rig.feed(Input::Took(1));
    let failed = rig.returned(Message::fail("no luck"));
    assert_eq!(failed, ["write failed: error error; 1 unanswered; drop"]);
}

#[test]
fn commands_keep_their_place_beside_signals() {
    // The command came first: it has its effect, then the signal wakes.
    let mut rig = of(asleep(3600));
    rig.command(Command::Pause);
    rig.command(signal("go"));
    let woken = ["write runnable: pause#1 run#2; 1 applied sleeping paused"];
    assert_eq!(rig.begin(), woken);
    assert_eq!(rig.stored(), ["start 1", "signal go#2"]);

    // The signal came first: its handler gets it, and the command after it.
    let mut rig = of(asleep(3600));
    rig.command(signal("go"));
    rig.command(Command::Pause);
    assert_eq!(rig.begin(), ["write runnable: run#1"]);
    let started = ["start 1", "signal go#1", "signal pause", "arm grace +30s"];
    assert_eq!(rig.stored(), started);
    let answered = ["write runnable; 1 answered 1"];
    assert_eq!(answer(&mut rig, 1, 1, "1")[..1], answered);
    rig.stored();
    let returned = rig.returned(Message::pause());
    let last = "write paused: pause#2; 2 applied runnable paused; drop";
    assert_eq!(returned, ["disarm grace", last]);
}

#[test]
fn a_handler_that_ignores_signal_and_pause_does_not_run_for_ever() {
    let mut rig = of(paused());
    rig.command(signal("go"));
    rig.command(Command::Pause);
    rig.begin();
    rig.stored();
    rig.at(30);
    assert_eq!(rig.grace(), ["abort"]);
    let last = "write paused: pause#2; 1 unanswered; 2 applied runnable paused; drop";
    assert_eq!(rig.aborted(), ["disarm grace", last]);

    // Also when it was sent while the handler ran, which has not taken it.
    let mut rig = Rig::running();
    rig.command(signal("go"));
    rig.command(Command::Pause);
    let last = "write paused: pause#2; 1 unanswered; 2 applied runnable paused; drop";
    assert_eq!(rig.returned(Message::pause()), ["disarm grace", last]);
}

#[test]
fn an_abort_by_the_node_leaves_signals_to_the_next_owner() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    rig.feed(Input::Took(1));
    rig.feed(Input::StopNow(StopReason::Shutdown));
    let last = ["disarm grace", "write runnable: release; drop"];
    assert_eq!(rig.aborted(), last);
}

#[test]
fn a_signal_alone_never_aborts() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    rig.at(3600);
    assert_eq!(rig.grace(), NONE);
}

#[test]
fn a_kill_keeps_no_reply_of_a_message_with_effects() {
    let replies = Message::run().answer(&at(1), &"done");
    let acts = replies.clone().and_send("c", "id", Command::Run);
    for (message, keeps) in [(replies, true), (acts, false)] {
        let mut rig = Rig::running();
        rig.command(signal("go"));
        rig.command(Command::Kill);
        let written = rig.returned(message).join(" ");
        assert!(written.contains("write killed: kill#2"), "{written}");
        assert_eq!(written.contains("answered \"done\""), keeps, "{written}");
    }
}

#[test]
fn kill_waits_for_no_signal() {
    let mut rig = of(paused());
    rig.command(signal("go"));
    rig.command(Command::Kill);
    let killed = ["write killed: kill#2; 2 applied paused killed; drop"];
    assert_eq!(
        rig.begin(),
        killed,
        "the store rejects the signal with the end"
    );
}

#[test]
fn a_signal_that_was_fed_before_has_no_effect() {
    let mut rig = Rig::running();
    rig.command_at(5, signal("go"));
    assert_eq!(rig.command_at(5, signal("go")), NONE);
    assert_eq!(rig.command_at(4, signal("older")), NONE);
}

#[test]
fn a_claim_brings_signals_that_are_older_than_the_last_command() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    rig.command(Command::Checkpoint);
    rig.checkpoint(1, "1");
    rig.stored();
    let crashed = rig.machine.state().clone();
    assert_eq!(crashed.last_command.as_ref().map(|c| c.order), Some(2));
    let mut next = of(crashed);
    next.command_at(1, signal("go"));
    next.command_at(2, Command::Checkpoint);
    assert_eq!(next.begin(), ["start 1", "signal go#1"]);
}

#[test]
fn a_kind_without_signals_rejects_them_and_is_not_woken() {
    let deaf = || Config {
        takes_signals: false,
        ..config(Retry::default())
    };
    let mut rig = Rig::with(deaf(), paused(), false);
    rig.command(signal("go"));
    let rejected = "1 rejected: the kind does not accept signals";
    assert_eq!(rig.begin(), [format!("write paused; {rejected}; drop")]);

    let mut rig = Rig::with(deaf(), TaskState::new(t0()), false);
    rig.begin();
    assert_eq!(
        rig.command(signal("go")),
        [format!("write runnable; {rejected}")]
    );
    assert_eq!(rig.stored(), NONE);
}

/// Regression: signals without a reply used up the room of the last write, and the end of the task rejected the one with a
/// reply.
#[test]
fn replies_are_settled_before_signals_without_one() {
    let config = Config {
        max_outcomes: 3,
        ..config(Retry::default())
    };
    let mut rig = Rig::with(config, TaskState::new(t0()), false);
    rig.begin();
    for name in ["a", "b", "c", "approve"] {
        rig.command(signal(name));
    }
    rig.feed(Input::Took(4));
    let written = rig.returned(Message::complete().answer(&at(4), &true));
    assert!(written[0].contains("4 answered true"), "{written:?}");
}
