//! The claims of remote workers: for the server that speaks, read by another process, and reported to nodes.

use std::slice::from_ref;

use windlass_statemachine::{Command, Message, StateKind};

use super::{
    Harness,
    kit::{Kit, id, with_data},
    limits::{at_once, held, ready},
    wait::{Watcher, eventually},
    workers::assert_other_speaker,
};
use crate::store::{Claimed, Error, Lease, TaskView};

fn assert_same(claimed: &Claimed, held: &Claimed) {
    assert_eq!(held.claim, claimed.claim);
    assert_eq!(held.task, claimed.task);
    assert_eq!(held.order, claimed.order);
    assert_eq!(held.state, claimed.state);
    assert_eq!(held.commands, claimed.commands);
    assert_eq!(held.abandoned, claimed.abandoned);
}

/// A server that no longer speaks claims nothing, also not a task that the worker has. Claims that stand are written as
/// before.
pub async fn another_speaker_claims_nothing(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let first = kit.with_worker("w").await;
    let mut claimed = kit.claimed(&first, "t").await;
    let second = kit.speak(&first, "b", 2).await;
    kit.submit("u").await;
    kit.submit("v").await;
    let tasks = vec![id("u"), id("t"), id("v")];
    let refused = kit.coordinator().claim(&first, tasks).await;
    assert_eq!(refused.len(), 3);
    for answer in &refused {
        assert_other_speaker(answer, ("b", 2));
    }
    for text in ["u", "v"] {
        let record = kit.get(text).await;
        assert_eq!((record.node, kit.events(text).await.len()), (None, 1));
    }
    assert_eq!(kit.get("t").await.fence, claimed.claim.fence);
    kit.checkpoint(&mut claimed, 1).await;
    kit.claim(&second, "u").await;
    assert_other_speaker(&kit.try_claim(&first, "v").await, ("b", 2));
    kit.renew(&first).await.unwrap();
    kit.commit(&mut claimed, &Message::complete()).await;
}

/// The claims of a worker are read as they were made, with the present state and commands, and nothing is written.
pub async fn claims_are_read_without_a_change(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let lease = kit.with_worker("w").await;
    assert!(kit.all_held(&lease).await.is_empty());
    let mut a = kit.claimed(&lease, "a").await;
    let lost = kit.node("lost").await;
    kit.claimed(&lost, "b").await;
    kit.coordinator().abandon(&lost).await.unwrap();
    let mut b = kit.claim(&lease, "b").await;
    assert!(b.abandoned);
    kit.claimed(&node, "of another node").await;
    kit.submit("free").await;
    let ended = kit.claimed(&lease, "ended").await;
    kit.try_commit(&ended, &Message::complete()).await.unwrap();
    for _ in 0..2 {
        let held = kit.all_held(&lease).await;
        assert_eq!(held.len(), 2, "{held:?}");
        assert_same(&a, &held[0]);
        assert_same(&b, &held[1]);
    }
    kit.checkpoint(&mut a, 1).await;
    kit.checkpoint(&mut b, 2).await;
    b.abandoned = false;
    let order = kit.send("a", "c", Command::Pause).await;
    let written = (kit.history("a").await, kit.history("b").await);
    let held = eventually("the commands of a claim", async || {
        let held = kit.all_held(&lease).await;
        let commands = held.first().map(|claimed| claimed.commands.len());
        (commands == Some(1)).then_some(held)
    })
    .await;
    a.commands.clone_from(&held[0].commands);
    assert_eq!(
        (a.commands[0].order, &a.commands[0].command),
        (order, &Command::Pause)
    );
    assert_same(&a, &held[0]);
    assert_same(&b, &held[1]);
    let after = (kit.history("a").await, kit.history("b").await);
    assert_eq!(after, written, "reading writes nothing");
}

/// A worker whose claim stands does not claim the task again: its handler may run, and would be shut out by a new fence.
pub async fn a_claim_of_a_worker_is_made_once(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let lease = kit.with_worker("w").await;
    let mut claimed = kit.claimed(&lease, "t").await;
    let again = kit.try_claim(&lease, "t").await;
    assert!(
        matches!(&again, Err(Error::Claimed(task)) if *task == claimed.claim.task),
        "{again:?}"
    );
    assert_eq!(kit.get("t").await.fence, claimed.claim.fence);
    kit.commit(&mut claimed, &Message::complete()).await;
}

/// Some claims are read by their tasks. A task that the worker has not claimed is not among them.
pub async fn some_claims_are_read(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let lease = kit.with_worker("w").await;
    let a = kit.claimed(&lease, "a").await;
    kit.claimed(&lease, "b").await;
    kit.claimed(&node, "other").await;
    kit.submit("free").await;
    let tasks = ["other", "a", "unknown", "free", "a"].map(id);
    let held = kit.coordinator().held(&lease, Some(tasks.into())).await;
    let held = held.unwrap();
    assert_eq!(held.len(), 1, "{held:?}");
    assert_same(&a, &held[0]);
    let none = kit.coordinator().held(&lease, Some(Vec::new())).await;
    assert!(none.unwrap().is_empty());
}

/// A claim that was read is written like one that was made: checkpoint, release and end.
pub async fn a_read_claim_is_continued(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let lease = kit.with_worker("w").await;
    for text in ["a", "b", "c"] {
        kit.claimed(&lease, text).await;
    }
    let lease = kit.speak(&lease, "b", 2).await;
    let mut held = kit.all_held(&lease).await;
    kit.checkpoint(&mut held[0], 1).await;
    kit.commit(&mut held[0], &with_data(Message::complete(), 2))
        .await;
    kit.commit(&mut held[1], &Message::release()).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Completed);
    assert_eq!(kit.all_held(&lease).await.len(), 1);
    kit.claim(&lease, "b").await;
    let before = kit.worker_node("w").await.unwrap();
    assert_eq!(before.claims, 2);
    kit.coordinator().leave(&lease).await.unwrap();
    let node = kit.node("n").await;
    let released = kit.claim(&node, "c").await;
    assert!(!released.abandoned);
}

async fn commanded(watch: &mut Watcher, text: &str, lease: &Lease) {
    let what = format!("a command for '{text}' of a worker");
    let is_commanded = |view: &TaskView| view.commanded && view.claimed_by == Some(lease.id);
    watch.task(text, &what, is_commanded).await;
}

/// Every watch of a node reports the tasks that workers have claimed, when they are commanded and when they end.
pub async fn nodes_receive_tasks_of_workers(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let lease = kit.with_worker("w").await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    let mut a = kit.claimed(&lease, "a").await;
    kit.claimed(&lease, "b").await;
    kit.send("a", "c", Command::Pause).await;
    commanded(&mut watch, "a", &lease).await;
    kit.send("b", "d", Command::Pause).await;
    commanded(&mut watch, "b", &lease).await;
    let listed = kit.watch(&node).await.listed().await;
    let is_listed = |view: &&TaskView| view.commanded && view.claimed_by == Some(lease.id);
    assert_eq!(listed.iter().filter(is_listed).count(), 2, "{listed:?}");
    kit.commit(&mut a, &Message::complete()).await;
    watch.gone("a").await;
    kit.delete("b").await;
    watch.gone("b").await;
}

/// A task that a worker could not claim, because a limit was full, is reported to nodes when a slot is free.
pub async fn a_slot_of_a_worker_frees_the_next(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let lease = kit.with_worker("w").await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.limited(&["a", "b"], from_ref(&at_once("k", 1))).await;
    let mut a = kit.admitted(&lease, "a").await;
    kit.refused(&lease, "b").await;
    held(&mut watch, "b").await;
    let read = kit.all_held(&lease).await;
    assert!(read.len() == 1 && !read[0].over_limit, "{read:?}");
    kit.commit(&mut a, &Message::complete()).await;
    ready(&mut watch, "b").await;
    kit.admitted(&lease, "b").await;
}
