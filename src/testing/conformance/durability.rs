//! Durability: acknowledged writes are still there when the store is opened again.
//!
//! The cases for submits, commits and commands are with their other duties.

use std::time::Duration;

use tokio::time::sleep;
use windlass_statemachine::{Message, StateKind};

use super::{
    Harness,
    kit::{Kit, assert_matches, id, one, with_data},
};
use crate::store::{Error, NodeCommand, Purge};

/// A node that has joined is listed, and its name is taken.
pub async fn joins_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let kit = kit.reopened(harness).await;
    let nodes = kit.registry().nodes().await.unwrap();
    assert_eq!((nodes.len(), nodes[0].lease), (1, node.id));
    let second = kit.coordinator().join(&Kit::spec("n"), node.ttl).await;
    assert_matches!(second, Err(Error::AlreadyExists { .. }));
}

/// A renewed lease lasts its whole time from the renewal.
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

/// The list has the last description of a node.
pub async fn descriptions_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut spec = Kit::spec("n");
    spec.slots = 3;
    kit.coordinator().describe(&node, &spec).await.unwrap();
    let kit = kit.reopened(harness).await;
    let nodes = kit.registry().nodes().await.unwrap();
    assert_eq!(nodes[0].spec, spec);
}

/// A node that has left is gone, and its tasks are claimable and not abandoned.
pub async fn leaves_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.claimed(&node, "a").await;
    kit.coordinator().leave(&node).await.unwrap();
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.registry().nodes().await.unwrap(), []);
    let next = kit.node("next").await;
    assert!(!kit.claim(&next, "a").await.abandoned);
}

/// An acknowledged claim excludes other nodes, and its owner can write.
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

/// An acknowledged command to a node stays in the node's queue.
pub async fn node_commands_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let order = kit.send_node(&node.node, NodeCommand::Freeze).await;
    let kit = kit.reopened(harness).await;
    let outcome = kit.registry().node_outcome(order).await;
    assert_eq!(outcome.unwrap(), None);
    let mut watch = kit.watch(&node).await;
    assert_eq!(watch.node_command().await.id, order);
}

/// The sender can read the outcome that a node has acknowledged.
pub async fn outcomes_of_node_commands_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let order = kit.send_node(&node.node, NodeCommand::Freeze).await;
    let acknowledged = kit.coordinator().acknowledge(&node, order, "frozen");
    acknowledged.await.unwrap();
    let kit = kit.reopened(harness).await;
    let outcome = kit.registry().node_outcome(order).await.unwrap();
    assert_eq!(outcome.as_deref(), Some("frozen"));
}

/// A deleted task stays deleted, and its claim stays fenced.
pub async fn deletions_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    kit.submit("b").await;
    kit.delete("a").await;
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.list(Default::default()).await, ["b"]);
    kit.assert_fenced(&claimed, &Message::complete()).await;
}

/// A retried task is runnable in its new incarnation.
pub async fn retries_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.ended(&node, "a", &Message::error("x")).await;
    kit.retry("a").await;
    let kit = kit.reopened(harness).await;
    let state = kit.state("a").await;
    assert_eq!((state.code(), state.incarnation), (StateKind::Runnable, 1));
}

/// A purged task stays deleted.
pub async fn purges_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.ended(&node, "a", &Message::complete()).await;
    kit.submit("b").await;
    let purge = Purge::new([StateKind::Completed], kit.in_an_hour());
    assert_eq!(kit.registry().purge(&purge).await.unwrap(), 1);
    let kit = kit.reopened(harness).await;
    assert_eq!(kit.list(Default::default()).await, ["b"]);
}

/// An imported task is there with its state and its commands.
pub async fn imports_are_durable(harness: &dyn Harness) {
    let from = super::strangers::elsewhere().await;
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
