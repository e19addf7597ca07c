//! Signals: values for a handler that wait in the queue, and the handler's replies.

use windlass_statemachine::{Command, Json, Message, Outcome, Signal, StateKind};

use super::{
    Harness,
    kit::{Kit, command_of, field, id, settle},
};
use crate::store::Error;

/// A payload with a number that no float can represent.
const PAYLOAD: &str = r#"{"by":"ann","n":9007199254740993}"#;

fn signal(name: &str, payload: &str) -> Command {
    let payload = Json::parse("payload", payload).expect("JSON");
    Command::Signal(Signal::new(name).with_json(payload))
}

fn answered(reply: &str) -> Outcome {
    let reply = Json::parse("reply", reply).expect("JSON");
    Outcome::Answered { reply }
}

/// Name and payload are read as they were sent, digit by digit: with the claim, and by clients.
pub async fn a_payload_survives(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let sent = [
        signal("approve", PAYLOAD),
        signal("null", "null"),
        Command::Signal(Signal::new("without a payload")),
    ];
    for (n, command) in sent.iter().enumerate() {
        kit.send("a", &format!("s{n}"), command.clone()).await;
    }
    let claimed = kit.claim(&node, "a").await;
    let reported: Vec<_> = claimed.commands.iter().map(|c| c.command.clone()).collect();
    assert_eq!(reported, sent);
    let records = kit.registry().commands(&id("a")).await.unwrap();
    let kept: Vec<_> = records.into_iter().map(|r| r.command).collect();
    assert_eq!(kept, sent);
}

/// A task without an owner can be claimed when a signal is queued for it, even a paused one.
pub async fn a_signal_makes_a_parked_task_claimable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit(&mut claimed, &Message::pause()).await;
    assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
    kit.send("a", "s", signal("go", "1")).await;
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(claimed.state.code(), StateKind::Paused);
    assert_eq!(claimed.commands.len(), 1);
}

/// The reply is stored in the write of the handler, and stays after the end of the task.
pub async fn a_reply_is_recorded(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let order = kit.send("a", "s", signal("approve", PAYLOAD)).await;
    let silent = kit.send("a", "t", signal("silent", "1")).await;
    let reply = answered(r#"{"n":9007199254740993,"x":1.50}"#);
    let mut write = kit.write(&claimed, &Message::checkpoint().with_data(&7));
    settle(&mut write, order, reply.clone());
    let state = write.state.clone();
    kit.try_write(&claimed, write).await.unwrap();
    claimed.state = state;
    assert_eq!(kit.outcome("s").await, Some(reply.clone()));
    assert_eq!(kit.outcome("t").await, None);
    assert_eq!(kit.get("a").await.commands, 1);
    let mut write = kit.write(&claimed, &Message::complete());
    settle(&mut write, silent, Outcome::Unanswered);
    kit.try_write(&claimed, write).await.unwrap();
    assert_eq!(kit.outcome("s").await, Some(reply));
    assert_eq!(kit.outcome("t").await, Some(Outcome::Unanswered));
    let record = kit.registry().command(&command_of("s")).await.unwrap();
    assert_eq!(record.command, signal("approve", PAYLOAD));
}

/// A signal keeps its place in the queue while later ones get their replies, across a change of owner.
pub async fn replies_come_in_any_order(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let first = kit.send("a", "s1", signal("first", "1")).await;
    let pause = kit.send("a", "c", Command::Pause).await;
    let last = kit.send("a", "s2", signal("last", "2")).await;
    let mut write = kit.write(&claimed, &Message::release());
    settle(&mut write, last, answered("2"));
    kit.try_write(&claimed, write).await.unwrap();
    let claimed = kit.claim(&node, "a").await;
    let waiting: Vec<_> = claimed.commands.iter().map(|c| c.order).collect();
    assert_eq!(waiting, [first, pause]);
    assert_eq!(claimed.state.last_command, None);
}

/// The end of a task rejects its queued signals, and an ended task takes none.
pub async fn the_end_rejects_waiting_signals(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    kit.send("a", "s", signal("late", PAYLOAD)).await;
    kit.try_commit(&claimed, &Message::complete())
        .await
        .unwrap();
    let Some(Outcome::Rejected { reason }) = kit.outcome("s").await else {
        panic!("{:?}", kit.outcome("s").await);
    };
    assert_eq!(reason, "the task has ended: it is completed");
    let refused = kit.try_send("a", "s2", signal("later", "1")).await;
    assert!(
        matches!(refused, Err(Error::AlreadyFinished { .. })),
        "{refused:?}"
    );
}

/// A reply that is too large is refused with its field and size. The claim stands, and the handler can
/// still reply to the signal.
pub async fn a_reply_that_is_too_large_is_refused(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let order = kit.send("a", "s", signal("ask", "1")).await;
    let limit = kit.coordinator().limits().max_bytes;
    let reply = Json::new("reply", &"x".repeat(limit)).expect("JSON");
    let mut write = kit.write(&claimed, &Message::checkpoint());
    settle(&mut write, order, Outcome::Answered { reply });
    let error = kit.try_write(&claimed, write).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    assert_eq!(field(&error), "reply");
    assert_eq!(kit.outcome("s").await, None);
    let mut write = kit.write(&claimed, &Message::checkpoint());
    settle(&mut write, order, answered("\"short\""));
    kit.try_write(&claimed, write).await.unwrap();
    assert_eq!(kit.outcome("s").await, Some(answered("\"short\"")));
}

/// A bad name and a payload that is too large are refused when they are sent, with the field.
pub async fn bad_signals_are_refused(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    let large = "x".repeat(kit.registry().limits().max_bytes);
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    for (command, name) in [
        (signal("", "1"), "name"),
        (signal("a\nb", "1"), "name"),
        (signal(&"x".repeat(65), "1"), "name"),
        (Command::signal("large", &large).expect("JSON"), "payload"),
        (signal("deep", &deep), "payload"),
    ] {
        let error = kit.try_send("a", "s", command).await.unwrap_err();
        assert_eq!(field(&error), name, "{error}");
    }
    assert_eq!(kit.get("a").await.commands, 0);
}
