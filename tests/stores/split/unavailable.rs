//! The state store cannot be reached.

use std::sync::atomic::Ordering;

use windlass::{Message, StateKind};

use super::support::*;

/// A claim waits for the end of a short outage.
#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_a_short_outage() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.submit("a").await;
    kit.states.failing.store(3, Ordering::SeqCst);
    assert!(kit.claim(&node, "a").await.unwrap().is_some());
}

/// A long outage releases the claim as if it had never been made.
#[tokio::test(start_paused = true)]
async fn a_claim_is_released() {
    let kit = Kit::new().await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    kit.submit("a").await;
    for _ in 0..3 {
        kit.states.failing.store(1000, Ordering::SeqCst);
        let refused = kit.claim(&node, "a").await.unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        kit.states.failing.store(0, Ordering::SeqCst);
        let record = kit.store.registry().get(&id("a")).await.unwrap();
        let state = record.state.unwrap();
        assert_eq!((record.node, state.claims, state.attempts), (None, 0, 0));
    }
    let claimed = kit.claim(&other, "a").await.unwrap().unwrap();
    assert_eq!((claimed.state.claims, claimed.abandoned), (1, false));
}

/// An outage during a claim must not hide that the state store is ahead.
#[tokio::test(start_paused = true)]
async fn a_release_does_not_hide_a_newer_state() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    let (before, after) = (
        windlass::testing::Fault::Before,
        windlass::testing::Operation::Commit,
    );
    kit.faulty.fail(after, before, 1);
    let complete = Message::complete_with("done");
    kit.commit(&mut claimed, complete, None).await.unwrap_err();
    kit.store.coordinator().leave(&node).await.unwrap();
    let node = kit.node("m").await;
    for _ in 0..3 {
        kit.states.failing.store(1000, Ordering::SeqCst);
        kit.claim(&node, "a").await.unwrap_err();
        kit.states.failing.store(0, Ordering::SeqCst);
    }
    assert!(kit.claim(&node, "a").await.unwrap().is_none());
    assert_eq!(kit.state("a").await.code(), StateKind::Completed);
    kit.moves("a").await;
}

/// A commit that the state store did not get does not reach the coordinator either.
#[tokio::test]
async fn a_commit_without_its_state_changes_nothing() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    kit.states.failing.store(1, Ordering::SeqCst);
    let refused = kit.commit(&mut claimed, Message::complete(), None).await;
    assert!(refused.unwrap_err().is_retryable());
    assert_eq!(kit.state("a").await.code(), StateKind::Runnable);
    assert!(kit.moves("a").await.is_empty());
    kit.commit(&mut claimed, Message::complete(), None)
        .await
        .unwrap();
}

/// Reading is refused too: a task without its data would look like one that has none.
#[tokio::test]
async fn reading_is_refused() {
    let kit = Kit::new().await;
    kit.submit("a").await;
    for _ in 0..2 {
        kit.states.failing.store(1, Ordering::SeqCst);
        let refused = kit.store.registry().get(&id("a")).await.unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        kit.states.failing.store(1, Ordering::SeqCst);
        let page = Default::default();
        let listed = kit.store.registry().list(&Default::default(), page).await;
        assert!(listed.unwrap_err().is_retryable());
    }
}
