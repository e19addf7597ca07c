//! An attempt whose node was lost counts, whatever happens to the next claims.

use std::{sync::atomic::Ordering, time::Duration};

use windlass::{
    Message, StateKind, TaskState,
    store::Claimed,
    testing::{Fault, Operation},
};

use super::support::*;

/// Loses the lease of the node that has `a`.
async fn lose(kit: &Kit, name: &str) -> Claimed {
    let lease = kit.node_for(name, Duration::from_millis(20)).await;
    let claimed = kit.claim(&lease, "a").await.unwrap().unwrap();
    kit.lost(&lease).await;
    claimed
}

/// A claim that could not be completed and was released.
async fn outage(kit: &Kit, name: &str) {
    let node = kit.node(name).await;
    kit.states.failing.store(1000, Ordering::SeqCst);
    kit.claim(&node, "a").await.unwrap_err();
    kit.states.failing.store(0, Ordering::SeqCst);
    kit.store.coordinator().leave(&node).await.unwrap();
}

fn abandonments(state: &TaskState) -> usize {
    let errors = state.errors.entries().iter();
    errors.filter(|e| e.error.contains("abandoned")).count()
}

/// The claim after the released one is still the first after the lost one, so the retry policy is
/// asked.
#[tokio::test]
async fn a_released_claim_does_not_hide_a_lost_one() {
    let kit = Kit::new().await;
    kit.submit("a").await;
    lose(&kit, "lost").await;
    outage(&kit, "released").await;
    outage(&kit, "again").await;
    let node = kit.node("n").await;
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert!(claimed.abandoned);
    assert_eq!(claimed.state.attempts, 1);
    assert_eq!(abandonments(&claimed.state), 1);
    // The loss has been reported now, so a later release counts as a release.
    kit.store.coordinator().leave(&node).await.unwrap();
    let node = kit.node("m").await;
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert!(!claimed.abandoned);
    assert_eq!(claimed.state.attempts, 1);
}

/// The state store is ahead by a write from before the lost claims.
#[tokio::test]
async fn catching_up_keeps_every_lost_attempt() {
    for outages in [false, true] {
        let kit = Kit::new().await;
        kit.submit("a").await;
        let lease = kit.node_for("ahead", Duration::from_millis(500)).await;
        let mut claimed = kit.claim(&lease, "a").await.unwrap().unwrap();
        let checkpoint = Message::checkpoint().with_data(&"kept");
        kit.faulty.fail(Operation::Commit, Fault::Before, 1);
        kit.commit(&mut claimed, checkpoint, None)
            .await
            .unwrap_err();
        kit.lost(&lease).await;
        // The process dies between its two claims.
        let lease = kit.node_for("between", Duration::from_millis(20)).await;
        let inner = kit.inner.coordinator().claim(&lease, vec![id("a")]).await;
        assert!(inner[0].as_ref().unwrap().as_ref().unwrap().abandoned);
        kit.lost(&lease).await;
        if outages {
            outage(&kit, "released").await;
        }
        let node = kit.node("n").await;
        let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
        assert!(claimed.abandoned, "outages: {outages}");
        assert_eq!(claimed.state.attempts, 2, "outages: {outages}");
        assert_eq!(abandonments(&claimed.state), 2, "outages: {outages}");
        assert_eq!(claimed.state.code(), StateKind::Runnable);
        assert_eq!(claimed.state.data.unwrap().as_str(), r#""kept""#);
    }
}
