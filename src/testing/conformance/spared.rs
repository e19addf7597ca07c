//! The tasks that retention and purges spare: ended tasks that a live task waits for.

use std::time::Duration;

use jiff::Timestamp;
use windlass_statemachine::{Message, StateKind, Waits};

use super::{
    Harness,
    kit::{Kit, fresh, id, task},
    wait::eventually,
};
use crate::store::{Error, Lease, Purge};

/// Ended tasks that others wait for, and a live one.
struct Waiting {
    kit: Kit,
    node: Lease,
    ended: Vec<String>,
}

impl Waiting {
    /// Submits a task that waits for few others, and one that waits for many. All but one have ended.
    async fn new(harness: &dyn Harness) -> Self {
        let (kit, node) = Kit::with_node(harness).await;
        let ended: Vec<String> = (0..9).map(|n| format!("done-{n}")).collect();
        for text in ended.iter().map(String::as_str).chain(["slow"]) {
            kit.submit(text).await;
        }
        for (text, of) in [("few", &ended[..1]), ("many", &ended[1..])] {
            let named = of.iter().map(String::as_str).chain(["slow"]);
            let mut waiter = task(text);
            waiter.waits = Some(Box::new(
                Waits::new("after_ok", named).expect("a wait").ok(),
            ));
            kit.try_submit(fresh(waiter)).await.expect("submitted");
        }
        for text in &ended {
            kit.end(&node, text).await;
        }
        Self { kit, node, ended }
    }

    /// Asserts that `prune` deletes a task that no task waits for, and none of the others: while one of the others is
    /// live, when none is, and before the waiting tasks are claimed. After that it deletes all.
    async fn are_spared(self, prune: impl AsyncFn(&Kit) -> Result<u64, Error>) {
        let Self {
            kit,
            node,
            mut ended,
        } = self;
        pruned(&kit, &node, "other-1", &prune).await;
        are_there(&kit, &ended).await;
        kit.end(&node, "slow").await;
        ended.push("slow".to_owned());
        pruned(&kit, &node, "other-2", &prune).await;
        are_there(&kit, &ended).await;
        for text in ["few", "many"] {
            let mut claimed = kit.claim(&node, text).await;
            assert_eq!(
                claimed.state.code(),
                StateKind::Runnable,
                "each has completed"
            );
            let waits = claimed.state.waits.as_ref().expect("a wait");
            assert_eq!(waits.unmet(), None, "'{text}' has every outcome");
            kit.commit(&mut claimed, &Message::checkpoint()).await;
        }
        eventually("nothing waits for them any more", async || {
            prune(&kit).await.expect("pruned");
            let left = kit.list(Default::default()).await;
            (left == ["few", "many"]).then_some(())
        })
        .await;
    }
}

/// Ends another task, and prunes until it is gone.
async fn pruned(
    kit: &Kit,
    node: &Lease,
    text: &str,
    prune: &impl AsyncFn(&Kit) -> Result<u64, Error>,
) {
    kit.ended(node, text, &Message::complete()).await;
    eventually("a task that nothing waits for is pruned", async || {
        prune(kit).await.expect("pruned");
        let gone = kit.registry().get(&id(text)).await;
        matches!(gone, Err(Error::NotFound { .. })).then_some(())
    })
    .await;
}

async fn are_there(kit: &Kit, ended: &[String]) {
    for text in ended {
        assert_eq!(kit.state(text).await.code(), StateKind::Completed);
    }
}

/// Retention spares an ended task while a live one waits for it.
pub async fn retention_spares_what_a_waiting_task_names(harness: &dyn Harness) {
    let waiting = Waiting::new(harness).await;
    let millisecond = Some(Duration::from_millis(1));
    waiting
        .are_spared(async |kit| kit.coordinator().maintain(millisecond).await)
        .await;
}

/// A purge spares an ended task while a live one waits for it, and deletes the others up to its limit.
pub async fn a_purge_spares_what_a_waiting_task_names(harness: &dyn Harness) {
    let waiting = Waiting::new(harness).await;
    waiting
        .are_spared(async |kit| {
            let states = [StateKind::Completed];
            let before: Timestamp = kit.in_an_hour();
            kit.registry()
                .purge(&Purge::new(states, before).limit(3))
                .await
        })
        .await;
}
