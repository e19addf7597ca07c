//! Numbered reports of remote workers: each number is stored with what it reports, and with nothing else.

use windlass_statemachine::{
    Command, Fence, Message, Outcome,
    machine::{Input, StopReason},
    state::Report,
};

use super::{
    NONE,
    adopting::claimed,
    common::{Rig, t},
    signals::{answer, signal},
};

fn running() -> Rig {
    let mut rig = Rig::named(claimed());
    assert_eq!(rig.begin(), ["start 1"]);
    rig
}

fn numbered(rig: &mut Rig, n: u64) -> &mut Rig {
    assert_eq!(rig.feed(Input::Numbered(n)), NONE);
    rig
}

#[test]
fn a_number_is_stored_with_a_checkpoint_a_reply_a_return_and_an_abort() {
    let mut rig = running();
    rig.command(signal("go"));
    numbered(&mut rig, 1).checkpoint(1, "1");
    assert_eq!(rig.written().reported(), 1);
    rig.stored();
    numbered(&mut rig, 2);
    answer(&mut rig, 2, 1, "true");
    assert_eq!(rig.written().reported(), 2);
    rig.stored();
    numbered(&mut rig, 3).returned(Message::run());
    assert_eq!(rig.written().report.as_deref(), Some(&Report::new(3)));
    assert_eq!(rig.stored(), ["start 1"]);
    numbered(&mut rig, 4).aborted();
    assert_eq!(rig.written().reported(), 4);
}

#[test]
fn the_number_of_a_refused_checkpoint_is_not_stored() {
    let mut rig = running();
    numbered(&mut rig, 1).checkpoint(1, "1");
    assert_eq!(rig.refused(), ["checkpoint 1 refused: too much"]);
    rig.checkpoint(2, "2");
    assert_eq!(rig.written().reported(), 0, "by the store");
    rig.stored();

    let large = format!("\"{}\"", "x".repeat(100));
    numbered(&mut rig, 1).checkpoint(3, &large);
    rig.checkpoint(4, "4");
    assert_eq!(rig.written().reported(), 0, "by the machine");
    rig.stored();

    numbered(&mut rig, 1);
    let refused = answer(&mut rig, 5, 99, "true");
    assert!(
        refused[0].starts_with("checkpoint 5 refused"),
        "{refused:?}"
    );
    rig.checkpoint(6, "6");
    assert_eq!(rig.written().reported(), 0, "a reply to no signal");
    rig.stored();

    rig.feed(Input::StopNow(StopReason::StopTask));
    numbered(&mut rig, 1).checkpoint(7, "7");
    rig.aborted();
    assert_eq!(rig.written().reported(), 0, "of a handler that is aborted");
}

/// Found by this test: the number of a checkpoint that waited behind another write was stored with the next write,
/// whatever that wrote. The checkpoint, sent again, then counted as stored.
#[test]
fn the_number_of_a_checkpoint_that_waits_goes_with_no_other_write() {
    let mut rig = running();
    rig.command(signal("go"));
    answer(&mut rig, 1, 1, "true");
    assert_eq!(rig.written().reported(), 0);
    numbered(&mut rig, 1).checkpoint(2, "2");
    // The process aborts the handler by itself, before the checkpoint has its turn.
    rig.feed(Input::StopNow(StopReason::StopTask));
    let ended = ["checkpoint 2 refused: the handler has returned"];
    assert_eq!(rig.aborted()[1..], ended);
    rig.stored();
    assert_eq!((rig.written().reported(), &rig.written().data), (0, &None));

    // Two wait: each write has its own number.
    let mut rig = running();
    rig.command(signal("go"));
    rig.checkpoint(1, "1");
    numbered(&mut rig, 1);
    answer(&mut rig, 2, 1, "true");
    numbered(&mut rig, 2).checkpoint(3, "3");
    rig.stored();
    assert_eq!(rig.written().reported(), 1);
    rig.stored();
    assert_eq!(rig.written().reported(), 2);
}

#[test]
fn the_number_of_a_return_waits_for_the_write_that_is_under_way() {
    let mut rig = running();
    rig.command(Command::Run);
    rig.at(30).grace();
    assert_eq!(rig.written().reported(), 0);
    assert_eq!(numbered(&mut rig, 1).returned(Message::complete()), NONE);
    assert_eq!(rig.stored(), ["write completed: complete; drop"]);
    assert_eq!(rig.written().reported(), 1);
    rig.stored();
    assert_eq!(rig.machine.state().reported(), 1, "it outlives the end");
}

#[test]
fn a_refused_return_stores_its_number_and_the_reason() {
    let mut rig = running();
    let refused = |why: &str| {
        let mut report = Report::new(1);
        report.refused = Some(why.into());
        report
    };
    numbered(&mut rig, 1).returned(Message::complete());
    rig.refused();
    let report = rig.written().report.as_deref();
    assert_eq!(report, Some(&refused("too much")));
    rig.refused();
    let report = rig.written().report.as_deref();
    assert_eq!(report, Some(&refused("too much")), "also the next");
    assert_eq!(rig.refused(), ["write runnable; drop"]);
    let report = rig.written().report.as_deref();
    assert_eq!(report, Some(&refused("too much")), "also the release");
    assert_eq!(rig.stored(), ["done runnable"]);
}

/// Found by this test: the worker was told that its report was refused, and the abort was stored.
#[test]
fn the_number_of_an_abort_is_stored_without_a_refusal_when_a_commands_result_is_refused() {
    let mut rig = running();
    rig.command(super::result("1"));
    rig.at(30).grace();
    numbered(&mut rig, 1).aborted();
    let again = rig.refused();
    assert!(again[0].contains("1 rejected: result"), "{again:?}");
    assert_eq!(rig.written().report.as_deref(), Some(&Report::new(1)));
}

#[test]
fn a_number_survives_parking_and_the_writes_of_the_server() {
    let mut rig = running();
    numbered(&mut rig, 1).checkpoint(1, "1");
    rig.stored();
    rig.command(Command::Run);
    assert_eq!(
        rig.at(30).grace(),
        ["write runnable: run#1; 1 applied runnable runnable"]
    );
    assert_eq!(rig.written().reported(), 1);
    rig.stored();
    let half = windlass_statemachine::Progress::new(Some(0.5), "half");
    rig.feed(Input::Progress(half));
    assert_eq!(rig.feed(Input::KeepProgress), ["write runnable"]);
    assert_eq!(rig.written().reported(), 1);
    rig.stored();
    numbered(&mut rig, 2).returned(Message::sleep_until(t(35)));
    rig.stored();
    let killed = rig.command(Command::Kill);
    assert_eq!(
        killed[1],
        "write killed: kill#2; 2 applied sleeping killed; drop"
    );
    assert_eq!(rig.written().reported(), 2);

    let mut rig = running();
    numbered(&mut rig, 1).returned(Message::sleep_until(t(3600)));
    assert_eq!(rig.stored(), ["done sleeping"]);
    let parked = rig.machine.state().clone();
    assert_eq!(parked.reported(), 1);
    let moved = parked.rescheduled(Some(t(60)), t(1));
    assert_eq!(moved.map(|state| state.reported()), Some(1));
}

#[test]
fn a_claim_begins_with_no_report() {
    let mut rig = running();
    numbered(&mut rig, 1).returned(Message::sleep_until(t(3600)));
    rig.stored();
    let next = rig.machine.state().clone().claimed(Fence(8), None, t(3600));
    assert_eq!((next.reported(), next.report), (0, None));
}

/// The number of a report that the machine does not take may not be stored with a later one.
#[test]
fn a_number_whose_report_comes_too_late_is_dropped() {
    let mut rig = running();
    numbered(&mut rig, 1).returned(Message::sleep_until(t(5)));
    rig.stored();
    assert_eq!(
        numbered(&mut rig, 2).returned(Message::complete()),
        NONE,
        "no handler runs"
    );
    assert_eq!(rig.at(5).wake(), ["write runnable: run"]);
    assert_eq!(rig.written().reported(), 1);
    rig.stored();
    rig.checkpoint(1, "1");
    assert_eq!(rig.written().reported(), 1);
}

#[test]
fn a_return_that_is_overtaken_by_a_kill_has_its_number_in_the_write_of_the_kill() {
    let mut rig = running();
    rig.command(Command::Kill);
    numbered(&mut rig, 1).returned(Message::complete());
    let write = rig.write.as_ref().map(|write| &write.outcomes[0].1);
    assert!(matches!(write, Some(Outcome::Applied { .. })), "{write:?}");
    assert_eq!(rig.written().reported(), 1);
}
