//! Tasks that wait for a signal which their handler has declared.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use windlass_statemachine::{
    AwaitedSignal, Command, Message, Retry, StateKind, TaskState, TaskStatus, WaitOutcome,
    machine::{Config, StopReason},
    transition,
};

use super::{
    common::{Rig, config, t, t0},
    signals::signal,
};

fn asked() -> AwaitedSignal {
    AwaitedSignal::new("approve").with_text("Deploy?")
}

/// A task that waits for a signal, as its handler leaves it.
fn waiting(message: Message) -> TaskState {
    transition(&TaskState::new(t0()), &message, t0()).unwrap()
}

fn awaited(rig: &Rig) -> Option<&str> {
    rig.written().awaits_signal().map(AwaitedSignal::name)
}

#[test]
fn a_handler_waits_and_its_claim_is_dropped_at_once() {
    let mut rig = Rig::new();
    rig.begin();
    let message = Message::wait_for_signal(asked());
    assert_eq!(rig.returned(message), ["write paused: pause; drop"]);
    assert_eq!(rig.written().awaits_signal(), Some(&asked()));
    let mut rig = Rig::new();
    rig.begin();
    let message = Message::wait_for_signal(asked()).deadline(t(600));
    assert_eq!(rig.returned(message), ["write sleeping +600s: sleep; drop"]);
    assert_eq!(awaited(&rig), Some("approve"));
    let signal = rig.written().awaits_signal().unwrap();
    assert_eq!(signal.until(), Some(t(600)));
    assert!(!signal.expired(), "it has not ended");
}

/// Whatever starts the handler ends the wait, and every attempt of the run knows what was waited for.
#[test]
fn a_run_ends_the_wait_and_knows_it() {
    for command in [signal("approve"), signal("other"), Command::Run] {
        let mut rig = Rig::of(waiting(Message::wait_for_signal(asked())), Retry::default());
        rig.command(command);
        rig.begin();
        rig.stored();
        assert_eq!(
            (rig.written().code(), awaited(&rig)),
            (StateKind::Runnable, None)
        );
        let known = rig.written().awaited_signal.as_ref().unwrap();
        assert_eq!((known.name(), known.text()), ("approve", "Deploy?"));
        rig.returned(Message::error("no"));
        assert!(
            rig.written().awaited_signal.is_some(),
            "the next attempt knows it"
        );
        assert_eq!(
            awaited(&rig),
            None,
            "a task that is retried later does not wait for a signal"
        );
    }
}

#[test]
fn the_next_return_clears_what_was_waited_for() {
    for (message, kept) in [
        (Message::run(), false),
        (Message::pause(), false),
        (Message::sleep_until(t(60)), false),
        (Message::wait_for(["a"]), false),
        (Message::checkpoint(), true),
        (Message::release(), true),
        (Message::complete(), true),
    ] {
        let mut rig = Rig::of(waiting(Message::wait_for_signal(asked())), Retry::default());
        rig.command(Command::Run);
        rig.begin();
        rig.stored();
        rig.returned(message.clone());
        assert_eq!(rig.written().awaited_signal.is_some(), kept, "{message:?}");
        assert_eq!(awaited(&rig), None, "{message:?}");
    }
}

#[test]
fn a_pause_or_a_sleep_by_an_operator_goes_on_waiting() {
    for command in [Command::Pause, Command::Sleep { until: t(900) }] {
        let message = Message::wait_for_signal(asked()).deadline(t(600));
        let mut rig = Rig::of(waiting(message), Retry::default());
        rig.command(command.clone());
        rig.begin();
        assert_eq!(awaited(&rig), Some("approve"), "{command:?}");
    }
}

#[test]
fn ends_and_retries_wait_for_no_signal() {
    let state = waiting(Message::wait_for_signal(asked()));
    let mut rig = Rig::of(state, Retry::default());
    rig.command(Command::Kill);
    rig.begin();
    assert_eq!(
        (rig.written().code(), awaited(&rig)),
        (StateKind::Killed, None)
    );
    let again = rig.written().clone().retried(t0());
    assert_eq!(again.awaited_signal, None);
}

#[test]
fn a_claim_at_the_deadline_ends_the_wait() {
    let message = Message::wait_for_signal(asked()).deadline(t(600));
    let state = waiting(message);
    let early = state.clone().claimed(Default::default(), None, t(599));
    assert!(early.awaits_signal().is_some());
    let late = state.claimed(Default::default(), None, t(600));
    assert_eq!(late.status, TaskStatus::Runnable);
    assert!(late.awaits_signal().is_none());
    assert!(late.wait_expired() && late.awaited_signal.unwrap().expired());
}

/// A duration is counted from when the message is applied, in one place for every kind of wait.
#[test]
fn a_wait_that_is_given_by_its_length_begins_when_the_message_is_applied() {
    let hour = Duration::from_secs(3600);
    for message in [
        Message::wait_for_signal(asked()).within(hour),
        Message::wait_for(["a"]).within(hour),
        Message::wait_for_ok(["a"]).within(hour),
    ] {
        let mut rig = Rig::running();
        rig.at(5).returned(message.clone());
        let state = rig.written();
        assert_eq!(state.due(), Some(t(3605)), "{message:?}");
        let waits = state.waits.as_deref().map(|waits| waits.deadline);
        let signal = state.awaited_signal.as_deref().map(AwaitedSignal::until);
        assert_eq!(waits.or(signal), Some(Some(t(3605))), "{message:?}");
    }
    for message in [Message::wait_for_signal(asked()), Message::wait_for(["a"])] {
        let mut rig = Rig::running();
        rig.returned(message.within(Duration::MAX));
        let end = "within: is beyond 9999-12-30T22:00:00Z; wait for a shorter time";
        assert!(rig.error().ends_with(end), "{}", rig.error());
    }
}

/// An attempt that fails after the deadline of a wait that a command had ended before did not wait in vain.
#[test]
fn whether_a_wait_has_expired_is_decided_when_it_ends() {
    for (at, expired) in [(599, false), (600, true)] {
        let message = Message::wait_for_signal(asked()).deadline(t(600));
        let mut rig = Rig::of(waiting(message), Retry::default());
        rig.at(at).command(Command::Run);
        rig.begin();
        rig.stored();
        assert_eq!(rig.written().wait_expired(), expired, "at {at}");
        rig.at(900).returned(Message::error("no"));
        assert_eq!(
            rig.written().wait_expired(),
            expired,
            "the next attempt after {at}"
        );
    }
}

/// Regression: a reschedule to an earlier time made the wait expired, as if nobody had answered in time.
#[test]
fn a_wait_for_a_signal_that_is_cut_short_has_not_expired() {
    let asks = waiting(Message::wait_for_signal(asked()).deadline(t(600)));
    let run = |state: &TaskState, at| transition(state, &Message::run(), t(at)).unwrap();
    let slept = |until| transition(&asks, &Message::sleep_until(t(until)), t(10)).unwrap();
    let moved = |due| asks.clone().rescheduled(Some(t(due)), t(10)).unwrap();
    let paused = transition(&asks, &Message::pause(), t(10)).unwrap();
    let claimed = |state: &TaskState, at| state.clone().claimed(Default::default(), None, t(at));
    for (what, state, expired) in [
        ("resumed", run(&paused, 599), false),
        ("resumed after its deadline", run(&paused, 600), true),
        ("slept", claimed(&slept(300), 300), false),
        ("claimed late", claimed(&slept(300), 600), true),
        ("slept beyond its deadline", claimed(&slept(900), 900), true),
        ("moved to now", moved(10), false),
        ("moved to the past", moved(0), false),
        ("moved to an earlier time", claimed(&moved(300), 300), false),
        ("moved to a later time", claimed(&moved(900), 900), true),
        (
            "resumed before the later time",
            run(&moved(900), 700),
            false,
        ),
    ] {
        assert_eq!(state.code(), StateKind::Runnable, "{what}");
        assert_eq!(state.wait_expired(), expired, "{what}");
        let signal = state.awaited_signal.unwrap();
        assert_eq!(signal.expired(), expired, "{what}");
    }
    // A sleep by command gives a wait without a deadline none.
    let asks = waiting(Message::wait_for_signal(asked()));
    let slept = transition(&asks, &Message::sleep_until(t(300)), t(10)).unwrap();
    let moved = slept.clone().rescheduled(Some(t(200)), t(10)).unwrap();
    assert!(!claimed(&slept, 300).wait_expired() && !claimed(&moved, 300).wait_expired());
}

#[test]
fn a_wait_for_tasks_expires_at_its_deadline_only() {
    let message = Message::wait_for(["a", "b"]).within(Duration::from_secs(600));
    let state = waiting(message);
    let claimed = |outcome, at| {
        let outcomes = vec![WaitOutcome::Completed, outcome];
        let state = state.clone().with_outcomes(outcomes, t(at));
        state.claimed(Default::default(), None, t(at))
    };
    assert!(claimed(WaitOutcome::Live, 600).wait_expired());
    assert!(!claimed(WaitOutcome::Killed, 600).wait_expired());
    let blocked = claimed(WaitOutcome::Live, 599);
    let overridden = transition(&blocked, &Message::run(), t(599)).unwrap();
    assert_eq!(overridden.code(), StateKind::Runnable);
    assert!(!overridden.wait_expired(), "a command has ended the wait");
}

/// Nothing would end the wait.
#[test]
fn a_kind_without_signals_waits_for_none() {
    let config = Config {
        takes_signals: false,
        ..config(Retry::default())
    };
    let mut rig = Rig::with(config, TaskState::new(t0()), false);
    rig.begin();
    rig.returned(Message::wait_for_signal(asked()));
    assert_eq!(rig.written().code(), StateKind::Failed);
    assert!(
        rig.error()
            .starts_with("wait_for_signal: the kind does not accept signals")
    );
}

/// A message that the machine replaces, because a kill takes precedence, declares nothing.
#[test]
fn a_killed_task_waits_for_nothing() {
    let mut rig = Rig::running();
    rig.command(Command::Kill);
    rig.returned(Message::wait_for_signal(asked()));
    assert_eq!(
        (rig.written().code(), awaited(&rig)),
        (StateKind::Killed, None)
    );
    let mut rig = Rig::running();
    rig.stop();
    rig.returned(Message::wait_for_signal(asked()));
    assert_eq!(awaited(&rig), Some("approve"), "{:?}", StopReason::Shutdown);
}
