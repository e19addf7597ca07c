//! What a machine reports of itself in each phase.

use windlass_statemachine::machine::Input;
use windlass_statemachine::{Command, Message, Retry, StopReason};

use super::asleep;
use crate::common::Rig;

/// The names of the predicates that hold.
fn reported(rig: &Rig) -> Vec<&'static str> {
    let machine = &rig.machine;
    let predicates = [
        ("running", machine.is_running()),
        ("idle", machine.is_idle()),
        ("storing", machine.is_storing()),
        ("ending", machine.is_ending()),
        ("done", machine.is_done()),
    ];
    let holding = predicates.into_iter().filter(|(_, holds)| *holds);
    holding.map(|(name, _)| name).collect()
}

#[test]
fn a_machine_before_its_beginning_reports_nothing() {
    let mut rig = Rig::new();
    assert!(reported(&rig).is_empty());
    rig.command(Command::Pause);
    assert!(reported(&rig).is_empty(), "the command waits");
}

#[test]
fn a_handler_runs_until_it_has_returned_or_ended() {
    let mut rig = Rig::running();
    assert_eq!(reported(&rig), ["running"]);
    rig.checkpoint(1, "1");
    assert_eq!(reported(&rig), ["running", "storing"]);
    rig.stored();
    assert_eq!(reported(&rig), ["running"]);
    rig.feed(Input::StopNow(StopReason::Shutdown));
    assert_eq!(reported(&rig), ["running"], "aborted, and not ended yet");
    rig.aborted();
    assert_eq!(reported(&rig), ["storing", "ending"]);
}

#[test]
fn only_a_write_that_drops_the_claim_is_the_end() {
    let mut rig = Rig::running();
    rig.returned(Message::run());
    assert_eq!(reported(&rig), ["storing"]);
    rig.stored();
    rig.returned(Message::complete());
    assert_eq!(reported(&rig), ["storing", "ending"]);
    rig.stored();
    assert_eq!(reported(&rig), ["done"]);
}

#[test]
fn a_short_sleep_is_idle() {
    let mut rig = Rig::of(asleep(5), Retry::default());
    rig.begin();
    assert_eq!(reported(&rig), ["idle"]);
    rig.at(5).wake();
    assert_eq!(reported(&rig), ["storing"]);
}

#[test]
fn a_lost_claim_ends_the_machine_in_every_phase() {
    let mut sleeper = Rig::of(asleep(5), Retry::default());
    sleeper.begin();
    let mut storing = Rig::running();
    storing.returned(Message::complete());
    for mut rig in [Rig::new(), Rig::running(), sleeper, storing] {
        rig.fenced();
        assert_eq!(reported(&rig), ["done"]);
    }
}
