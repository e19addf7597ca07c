//! Replies to signals: stored once, refused when they do not fit, made again.

use windlass_statemachine::Message;

use super::{
    NONE,
    common::Rig,
    paused,
    signals::{answer, answer_with, at, of, signal},
};

#[test]
fn a_second_reply_is_refused() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    answer(&mut rig, 1, 1, "1");
    // While the first is under way, and after it.
    assert_eq!(answer(&mut rig, 2, 1, "2"), NONE);
    let why = "the signal waits for no reply: it has its outcome, or is another task's";
    assert_eq!(
        rig.stored(),
        [
            "checkpoint 1 ok".into(),
            format!("checkpoint 2 refused: {why}")
        ]
    );
    assert_eq!(
        answer(&mut rig, 3, 1, "3"),
        [format!("checkpoint 3 refused: {why}")]
    );
    assert_eq!(
        answer(&mut rig, 4, 99, "3"),
        [format!("checkpoint 4 refused: {why}")]
    );
}

#[test]
fn a_reply_that_is_too_large_is_refused_and_the_signal_can_be_answered() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    let long = format!("\"{}\"", "r".repeat(99));
    let why = "reply: has 101 bytes; at most 100 are allowed (with the task's props)";
    assert_eq!(
        answer(&mut rig, 1, 1, &long),
        [format!("checkpoint 1 refused: {why}")]
    );
    let half = format!("\"{}\"", "r".repeat(58));
    let both = answer_with(&mut rig, 2, 1, (&half, Some(&half)));
    let why = "data: has 120 bytes; at most 100 are allowed (with the task's props)";
    assert_eq!(both, [format!("checkpoint 2 refused: {why}")]);
    assert_eq!(
        answer(&mut rig, 3, 1, "1"),
        ["write runnable; 1 answered 1"]
    );
    rig.stored();
    rig.command(signal("more"));
    let failed = rig.returned(Message::complete().answer(&at(2), &"r".repeat(99)));
    let failed = failed.join("; ");
    assert!(failed.starts_with("write failed: error error"), "{failed}");
    assert!(
        rig.error().starts_with("reply: has 101 bytes"),
        "{}",
        rig.error()
    );
}

#[test]
fn a_refused_reply_can_be_made_again() {
    let mut rig = Rig::running();
    rig.command(signal("go"));
    answer(&mut rig, 1, 1, "1");
    assert_eq!(rig.refused(), ["checkpoint 1 refused: too much"]);
    assert_eq!(
        answer(&mut rig, 2, 1, "2"),
        ["write runnable; 1 answered 2"]
    );
}

#[test]
fn a_refused_return_keeps_the_signal_for_the_retry() {
    let mut rig = of(paused());
    rig.command(signal("go"));
    rig.begin();
    rig.stored();
    rig.returned(Message::complete().answer(&at(1), &1));
    let again = rig.refused();
    assert_eq!(again, ["write sleeping +0.5s: error sleep"]);
    assert_eq!(rig.stored(), ["arm wake +0.5s"]);
    rig.at(1);
    rig.wake();
    assert_eq!(rig.stored(), ["start 2", "signal go#1"]);
}

#[test]
fn replies_and_checkpoints_are_written_one_after_the_other() {
    let mut rig = Rig::running();
    rig.command(signal("a"));
    rig.command(signal("b"));
    assert_eq!(rig.checkpoint(1, "1"), ["write runnable"]);
    assert_eq!(answer(&mut rig, 2, 2, "2"), NONE);
    assert_eq!(answer(&mut rig, 3, 1, "3"), NONE);
    assert_eq!(rig.checkpoint(4, "4"), NONE);
    assert_eq!(
        rig.stored(),
        ["checkpoint 1 ok", "write runnable; 2 answered 2"]
    );
    assert_eq!(
        rig.stored(),
        ["checkpoint 2 ok", "write runnable; 1 answered 3"]
    );
    assert_eq!(rig.stored(), ["checkpoint 3 ok", "write runnable"]);
    assert_eq!(rig.stored(), ["checkpoint 4 ok"]);
}

#[test]
fn many_replies_are_spread_over_writes() {
    let mut rig = of(paused());
    for _ in 0..7 {
        rig.command(signal("go"));
    }
    rig.begin();
    rig.stored();
    let message = (1..=7).fold(Message::pause(), |m, n| m.answer(&at(n), &n));
    let first = rig.returned(message).join(" ");
    assert_eq!(first.matches("answered").count(), 4, "{first}");
    let second = rig.stored().join(" ");
    assert_eq!(second.matches("answered").count(), 3, "{second}");
    assert!(second.ends_with("; drop"), "{second}");
}
