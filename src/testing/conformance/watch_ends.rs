//! The watch of a node at the end of a task: completed, deleted, or submitted again.

use windlass_statemachine::{Command, Message};

use super::{
    Harness,
    kit::{Kit, id, of_kind, task},
    wait::Watcher,
};
use crate::store::Event;

/// An ended or deleted task is reported as gone; a retry reports it again.
pub async fn ends_are_reported(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit(&mut claimed, &Message::kill()).await;
    watch.gone("a").await;
    kit.retry("a").await;
    watch
        .task("a", "a retry", |v| {
            v.claimed_by.is_none() && v.due.is_some()
        })
        .await;
    kit.delete("a").await;
    watch.gone("a").await;
}

/// The owner of a deleted task is notified of the deletion.
pub async fn the_owner_is_notified_of_a_deletion(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    kit.claimed(&node, "a").await;
    kit.delete("a").await;
    watch.gone("a").await;
}

/// A task that is deleted and submitted again at once is two tasks. The owner is notified of the end of
/// the first, and then of the second, with its own claims and commands.
pub async fn a_deleted_task_and_the_next_of_its_id_are_two(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut watch = kit.watch(&node).await;
    watch.listed().await;
    for _ in 0..5 {
        let first = kit.claimed(&node, "a").await;
        kit.delete("a").await;
        kit.submit("a").await;
        let (mut gone, mut second) = (false, None);
        watch
            .until("the end of the first, and the second", |event| {
                match event {
                    Event::Gone {
                        id: task, order, ..
                    } if *task == id("a") => {
                        gone |= *order == first.order;
                    }
                    Event::Task(view) if view.order > first.order => {
                        assert!(gone, "the first comes first: {view:?}");
                        second = Some(view.order);
                    }
                    _ => {}
                }
                (gone && second.is_some()).then_some(())
            })
            .await;
        let claimed = kit.claim(&node, "a").await;
        assert_eq!(Some(claimed.order), second);
        let command = format!("c{}", claimed.order);
        kit.send("a", &command, Command::Pause).await;
        watch
            .until("the command", |event| match event {
                Event::Commands { order, .. } => {
                    assert_eq!(*order, claimed.order);
                    Some(())
                }
                Event::Gone { order, fence, .. } => {
                    let is_over = *order == claimed.order
                        && fence.is_none_or(|fence| claimed.claim.fence <= fence);
                    assert!(!is_over, "the claim stands: {event:?}");
                    None
                }
                _ => None,
            })
            .await;
        kit.delete("a").await;
    }
}

/// The owner of a deleted task is notified of its end even when the next task with its id is of a
/// kind that the owner does not watch.
pub async fn the_owner_is_notified_though_another_kind_has_the_id(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let kinds = Some(vec![task("a").kind]);
    let watch = kit.coordinator().watch(&node, kinds).await.unwrap();
    let mut watch = Watcher::new(watch);
    watch.listed().await;
    let other = of_kind("a", "other");
    for _ in 0..5 {
        let first = kit.claimed(&node, "a").await;
        kit.delete("a").await;
        kit.submit_task(other.clone()).await;
        watch
            .until("the end of the first", |event| match event {
                Event::Gone {
                    id: task, order, ..
                } if *task == id("a") => (*order == first.order).then_some(()),
                _ => None,
            })
            .await;
        kit.delete("a").await;
    }
}

/// The reported end of a task does not end the claim after a retry.
pub async fn an_end_names_the_claims_that_are_over(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let mut watch = kit.watch(&other).await;
    watch.listed().await;
    let mut first = kit.claimed(&node, "a").await;
    kit.commit(&mut first, &Message::complete()).await;
    kit.retry("a").await;
    let second = kit.claim(&node, "a").await;
    kit.submit("last").await;
    assert_eq!(first.order, second.order);
    watch
        .until("what comes last", |event| match event {
            Event::Gone { order, fence, .. } => {
                assert_eq!(*order, first.order);
                let fence = fence.expect("it was not deleted");
                assert!(fence >= first.claim.fence && fence < second.claim.fence);
                None
            }
            Event::Task(view) => (view.id == id("last")).then_some(()),
            _ => None,
        })
        .await;
}
