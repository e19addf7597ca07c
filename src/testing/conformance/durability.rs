//! Durability: what a store has acknowledged is there when the store is opened again.
//!
//! Submits, commits and commands have their cases beside their other duties.

use std::time::Duration;

use tokio::time::sleep;
use windlass_statemachine::{Message, StateKind};

use super::{
    Harness,
    kit::{Kit, id, one, with_data},
};
use crate::store::{Error, NodeCommand};

/// A node that has joined is listed, and its name is taken.
pub async fn joins_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let kit = kit.reopened(harness).await;
    let nodes = kit.registry().nodes().await.unwrap();
    assert_eq!((nodes.len(), nodes[0].lease), (1, node.id));
    let second = kit.coordinator().join(&Kit::spec("n"), node.ttl).await;
    assert!(
        matches!(second, Err(Error::AlreadyExists { .. })),
        "{second:?}"
    );
}

/// A lease that was renewed lasts its whole time from then on.
pub async fn renewals_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let ttl = Duration::from_secs(3);
    let node = kit.node_for("n", ttl).await;
    sleep(ttl * 2 / 3).await;
    kit.renew(&node).await.unwrap();
    let kit = kit.reopened(harness).await;
    sleep(ttl * 2 / 3).await;
    let nodes = kit.registry().nodes().await.unwrap();
    let leases: Vec<u64> = nodes.iter().map(|node| node.lease).collect();
    assert_eq!(leases, [node.id]);
}

/// A node that has left is gone, and its tasks are claimable and not abandoned.
pub async fn leaves_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    kit.claimed(&node, "a").await;
    kit.coordinator().leave(&node).await.unwrap();
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.registry().nodes().await.unwrap(), []);
    let next = kit.node("next").await;
    assert!(!kit.claim(&next, "a").await.abandoned);
}

/// A claim that was acknowledged excludes other nodes, and its owner can write.
pub async fn claims_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let claimed = kit.claimed(&node, "a").await;
    let kit = kit.reopened(harness).await;
    assert!(kit.try_claim(&other, "a").await.unwrap().is_none());
    assert_eq!(kit.get("a").await.fence, claimed.claim.fence);
    let data = with_data(Message::checkpoint(), 1);
    kit.try_commit(&claimed, &data).await.unwrap();
}

/// A command to a node that was acknowledged waits for the node.
pub async fn node_commands_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let sent = kit.registry().send_node(&node.node, NodeCommand::Freeze);
    let order = sent.await.unwrap();
    let kit = kit.reopened(harness).await;
    let outcome = kit.registry().node_outcome(order).await;
    assert_eq!(outcome.unwrap(), None);
    let mut watch = kit.watch(&node).await;
    let is_it = |event: &crate::store::Event| match event {
        crate::store::Event::Node(queued) if queued.id == order => Some(()),
        _ => None,
    };
    watch.until("the command", is_it).await;
}

/// The outcome that a node has acknowledged is there for the sender.
pub async fn outcomes_of_node_commands_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let sent = kit.registry().send_node(&node.node, NodeCommand::Freeze);
    let order = sent.await.unwrap();
    let acknowledged = kit.coordinator().acknowledge(&node, order, "frozen");
    acknowledged.await.unwrap();
    let kit = kit.reopened(harness).await;
    let outcome = kit.registry().node_outcome(order).await.unwrap();
    assert_eq!(outcome.as_deref(), Some("frozen"));
}

/// A task that was deleted stays deleted, and its claim stays fenced.
pub async fn deletions_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    let claimed = kit.claimed(&node, "a").await;
    kit.submit("b").await;
    one(kit.registry().delete(vec![id("a")]).await).unwrap();
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.list(Default::default()).await, ["b"]);
    let refused = kit.try_commit(&claimed, &Message::complete()).await;
    assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
}

/// A task that was retried is runnable in its new incarnation.
pub async fn retries_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    kit.ended(&node, "a", &Message::error("x")).await;
    one(kit.registry().retry(vec![id("a")]).await).unwrap();
    let kit = kit.reopened(harness).await;
    let state = kit.state("a").await;
    assert_eq!((state.code(), state.incarnation), (StateKind::Runnable, 1));
}

/// A task that was purged stays away.
pub async fn purges_are_durable(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let node = kit.node("n").await;
    kit.ended(&node, "a", &Message::complete()).await;
    kit.submit("b").await;
    let purged = kit
        .registry()
        .purge(&[StateKind::Completed], kit.in_an_hour(), 10);
    assert_eq!(purged.await.unwrap(), 1);
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.list(Default::default()).await, ["b"]);
}

/// A task that was imported is there with its state and its commands.
pub async fn imports_are_durable(harness: &dyn Harness) {
    let from = super::moving::elsewhere().await;
    from.submit("a").await;
    from.send("a", "c", windlass_statemachine::Command::Pause)
        .await;
    let exported = from.transfer().export(&[id("a")]).await;
    let exported = exported.into_iter().collect::<Result<_, _>>().unwrap();
    let kit = Kit::new(harness).await;
    one(kit.transfer().import(exported).await).unwrap();
    let before = kit.get("a").await;
    let kit = kit.reopened(harness).await;
    let after = kit.get("a").await;
    assert_eq!((after.task, after.commands), (before.task, 1));
    assert_eq!(after.state.unwrap(), before.state.unwrap());
}
