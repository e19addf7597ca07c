//! The node gives the task back.

use windlass_statemachine::machine::{Input, StopReason};
use windlass_statemachine::{Command, Json, Message, Retry, TaskState};

use super::{AtOnce, NONE, asleep};
use crate::common::{Rig, t, t0};

#[test]
fn a_handler_that_releases_when_the_node_stops_releases_the_claim() {
    let mut rig = Rig::running();
    assert_eq!(rig.at(5).stop(), ["signal Shutdown", "arm grace +35s"]);
    assert_eq!(
        rig.returned(Message::release().with_data(&1)),
        ["disarm grace", "write runnable: release; drop"]
    );
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn a_handler_that_ignores_the_stop_is_aborted_and_released() {
    let mut rig = Rig::running();
    rig.stop();
    assert_eq!(rig.at(30).grace(), ["abort"]);
    assert_eq!(
        rig.aborted(),
        ["disarm grace", "write runnable: release; drop"]
    );
    assert_eq!(rig.stored(), ["done runnable"]);
}

#[test]
fn whatever_a_handler_returns_on_a_stop_the_claim_goes_back_in_the_same_write() {
    for (message, expected) in [
        (Message::run(), "write runnable: run release; drop"),
        (
            Message::sleep_until(t(5)),
            "write sleeping +5s: sleep release; drop",
        ),
        (
            Message::error("no"),
            "write runnable: error run release; drop",
        ),
        (Message::complete(), "write completed: complete; drop"),
    ] {
        let mut rig = Rig::of(TaskState::new(t0()), AtOnce);
        rig.begin();
        rig.stop();
        assert_eq!(rig.returned(message), ["disarm grace", expected]);
    }
}

#[test]
fn a_second_stop_does_not_lengthen_the_first() {
    let mut rig = Rig::running();
    rig.stop();
    let drain = Input::Stop(StopReason::Drain);
    assert_eq!(rig.at(20).feed(drain), ["signal Drain", "arm grace +30s"]);
    assert_eq!(rig.at(30).grace(), ["abort"]);
}

#[test]
fn a_command_before_the_stop_is_applied_in_the_write_that_releases() {
    let mut rig = Rig::running();
    rig.command(Command::Checkpoint);
    assert_eq!(rig.at(1).stop(), ["signal Shutdown", "arm grace +30s"]);
    assert_eq!(
        rig.returned(Message::release()),
        [
            "disarm grace",
            "write runnable: release; 1 overridden by release; drop"
        ]
    );
}

/// A handler that only knows to release would otherwise lose every pause: it would be claimed again
/// at once, and run on.
#[test]
fn a_handler_that_releases_on_a_command_gives_way_to_the_command() {
    let mut rig = Rig::running();
    rig.command(Command::Checkpoint);
    rig.command(Command::Pause);
    assert_eq!(
        rig.returned(Message::release().with_data(&7)),
        [
            "disarm grace",
            "write paused: checkpoint#1 pause#2; 1 applied runnable runnable; \
             2 applied runnable paused; drop"
        ]
    );
    assert_eq!(rig.written().data.as_ref().map(Json::as_str), Some("7"));
    // On a release command the handler does what the command asks.
    let mut rig = Rig::running();
    rig.command(Command::Release);
    assert_eq!(
        rig.returned(Message::release()),
        [
            "disarm grace",
            "write runnable: release#1; 1 applied runnable runnable; drop"
        ]
    );
}

#[test]
fn a_stop_ends_a_short_sleep_and_keeps_its_time() {
    let mut rig = Rig::of(asleep(5), Retry::default());
    rig.begin();
    assert_eq!(
        rig.stop(),
        ["disarm wake", "write sleeping +5s: release; drop"]
    );
    assert_eq!(rig.stored(), ["done sleeping"]);
}

#[test]
fn a_stop_before_the_handler_starts_keeps_it_from_starting() {
    let mut rig = Rig::new();
    assert_eq!(rig.stop(), NONE);
    assert_eq!(rig.begin(), ["write runnable: release; drop"]);
    // The same when it comes during a write.
    let mut rig = Rig::running();
    rig.returned(Message::run());
    assert_eq!(rig.stop(), NONE);
    assert_eq!(rig.stored(), ["write runnable: release; drop"]);
}

#[test]
fn a_stop_when_the_handler_has_returned_aborts_nothing() {
    let mut rig = Rig::running();
    rig.checkpoint(1, "1");
    rig.returned(Message::run());
    assert_eq!(rig.stop(), NONE);
    assert_eq!(rig.at(30).grace(), NONE);
    assert_eq!(
        rig.stored(),
        ["checkpoint 1 ok", "write runnable: run release; drop"]
    );
}

#[test]
fn setting_the_clock_changes_no_grace() {
    for clock in [-3600, 3600] {
        let mut rig = Rig::running();
        assert_eq!(rig.stop(), ["signal Shutdown", "arm grace +30s"]);
        rig.at(10).clock_set_to(clock);
        assert_eq!(rig.grace(), ["arm grace +30s"], "20 s are left");
        rig.at(30).clock_set_to(clock);
        assert_eq!(rig.grace(), ["abort"], "its time has passed");

        let mut rig = Rig::running();
        let delivered = rig.at(5).command(Command::Kill);
        assert_eq!(delivered, ["signal kill", "arm grace +35s"]);
        rig.clock_set_to(clock);
        assert_eq!(rig.grace(), ["arm grace +35s"]);
        rig.at(35).clock_set_to(clock);
        assert_eq!(rig.grace(), ["abort"]);
    }
}

#[test]
fn a_stop_without_a_grace_aborts_a_running_handler_at_once() {
    let now = || Input::StopNow(StopReason::Deleted);
    let mut rig = Rig::running();
    assert_eq!(rig.feed(now()), ["signal Deleted", "abort"]);
    assert_eq!(
        rig.aborted(),
        ["disarm grace", "write runnable: release; drop"]
    );
    // A grace that an earlier stop left has no meaning any more.
    let mut rig = Rig::running();
    rig.stop();
    assert_eq!(rig.at(1).feed(now()), ["signal Deleted", "abort"]);
    // Without a handler it is a stop like any other.
    let mut rig = Rig::of(asleep(5), Retry::default());
    rig.begin();
    assert_eq!(
        rig.feed(now()),
        ["disarm wake", "write sleeping +5s: release; drop"]
    );
    let mut rig = Rig::running();
    rig.returned(Message::run());
    assert_eq!(rig.feed(now()), NONE);
    assert_eq!(rig.stored(), ["write runnable: release; drop"]);
}
