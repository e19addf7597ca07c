//! Tasks of another store, for the cases that import and export.

use std::sync::Arc;

use windlass_statemachine::{Command, Message, Outcome, StateKind, TaskId};

use super::kit::{Kit, id, settle, task, with_data};
use crate::{
    clock::{Clock, SystemClock},
    store::{Exported, Store},
};

/// Opens another store, in memory.
pub(super) async fn elsewhere() -> Kit {
    elsewhere_with(SystemClock::shared()).await
}

pub(super) async fn elsewhere_with(clock: Arc<dyn Clock>) -> Kit {
    let store = Store::open_with_clock("memory:", clock).await;
    let store = store.expect("a store in memory");
    Kit { store }
}

/// Submits tasks and brings them into every state that an export may encounter. Returns their ids in
/// submit order.
pub(super) async fn fill(kit: &Kit) -> Vec<TaskId> {
    let node = kit.node("n").await;
    let mut new = task("new");
    new.priority = -3;
    new.labels = [("team".to_owned(), "x".to_owned())].into();
    new.props = serde_json::json!({ "big": 9_007_199_254_740_993_u64, "ü": [null] }).into();
    kit.submit_task(new).await;
    let mut later = task("later");
    later.start_at = Some(kit.in_an_hour());
    later.retry = Some(windlass_statemachine::Retry::Never);
    kit.submit_task(later).await;

    let mut asleep = kit.claimed(&node, "asleep").await;
    let until = kit.in_an_hour();
    kit.commit(&mut asleep, &with_data(Message::sleep_until(until), 7))
        .await;
    kit.send("asleep", "wait-1", Command::Run).await;
    kit.send("asleep", "wait-2", Command::Kill).await;

    let mut paused = kit.claimed(&node, "paused").await;
    let order = kit.send("paused", "done", Command::Pause).await;
    let mut write = kit.write(&paused, &with_data(Message::pause(), 1));
    let (from, to) = (StateKind::Runnable, StateKind::Paused);
    settle(&mut write, order, Outcome::Applied { from, to });
    write.steps[0].command = Some(order);
    paused.state = write.state.clone();
    kit.try_write(&paused, write).await.expect("paused");

    let ends = [
        ("completed", with_data(Message::complete_with("done"), 2)),
        ("failed", with_data(Message::error("out of luck"), 3)),
        ("killed", Message::kill()),
    ];
    for (name, message) in ends {
        kit.ended(&node, name, &message).await;
    }
    kit.ended(&node, "again", &Message::error("once")).await;
    kit.retry("again").await;
    kit.coordinator().leave(&node).await.expect("left");
    kit.transfer().ids().await.expect("the ids")
}

pub(super) async fn export(kit: &Kit, ids: &[TaskId]) -> Vec<Exported> {
    let exported = kit.transfer().export(ids).await;
    exported.into_iter().map(|e| e.expect("exported")).collect()
}

pub(super) async fn import(kit: &Kit, tasks: Vec<Exported>) {
    for answer in kit.transfer().import(tasks).await {
        answer.expect("imported");
    }
}

/// Exports a new task from another store, with one thing changed.
pub(super) async fn stranger(name: &str, change: impl FnOnce(&mut Exported)) -> Exported {
    let kit = elsewhere().await;
    kit.submit(name).await;
    let mut exported = export(&kit, &[id(name)]).await;
    let mut exported = exported.remove(0);
    change(&mut exported);
    exported
}
