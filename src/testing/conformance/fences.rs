//! Fences: only the live claim can write.

use std::time::Duration;

use windlass_statemachine::{Command, Fence, Message, Outcome, StateKind};

use super::{
    Capability, Harness,
    capability::need,
    kit::{Kit, fresh, is_fenced, one, settle, task, with_data},
};
use crate::store::{ChangeKind, Claim, Claimed, Commit, Error};

/// A fence is greater than that of every earlier claim of the task: across claims, retries,
/// replacements and deletions.
pub async fn fences_only_grow(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let mut last = Fence(0);
    let mut grows = |fence: Fence, after: &str| {
        assert!(
            fence > last,
            "{fence} is not greater than {last}, after {after}"
        );
        last = fence;
    };
    for _ in 0..3 {
        let mut claimed = kit.claim(&node, "a").await;
        grows(claimed.claim.fence, "a release");
        kit.commit(&mut claimed, &Message::release()).await;
    }
    let mut claimed = kit.claim(&node, "a").await;
    grows(claimed.claim.fence, "a release");
    kit.commit(&mut claimed, &Message::complete()).await;

    kit.retry("a").await;
    let mut claimed = kit.claim(&node, "a").await;
    grows(claimed.claim.fence, "a retry");
    kit.commit(&mut claimed, &Message::complete()).await;

    kit.replace("a").await;
    grows(kit.claim(&node, "a").await.claim.fence, "a replacement");

    kit.delete("a").await;
    kit.try_submit(fresh(task("a"))).await.unwrap();
    grows(kit.claim(&node, "a").await.claim.fence, "a deletion");
}

/// Asserts that a write which settles a command is refused: its claim is stale.
async fn assert_settles_nothing(kit: &Kit, stale: &Claimed, message: &Message, order: u64) {
    let mut write = kit.write(stale, message);
    let (from, to) = (StateKind::Runnable, StateKind::Runnable);
    settle(&mut write, order, Outcome::Applied { from, to });
    let answer = kit.try_write(stale, write).await;
    assert!(is_fenced(&answer), "{message:?}: {answer:?}");
}

/// A node that lost a task cannot change its state, its owner, its data or its queue.
pub async fn a_stale_owner_changes_nothing(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let stale = kit.claimed(&first, "a").await;
    let order = kit.send("a", "c", Command::Pause).await;
    kit.coordinator().leave(&first).await.unwrap();
    let mut owner = kit.claim(&second, "a").await;
    kit.checkpoint(&mut owner, 2).await;
    let before = kit.events("a").await;

    for message in [
        Message::complete(),
        Message::kill(),
        Message::release(),
        with_data(Message::checkpoint(), 1),
    ] {
        assert_settles_nothing(&kit, &stale, &message, order).await;
    }
    let record = kit.get("a").await;
    assert_eq!(record.node, Some("n2".parse().unwrap()));
    assert_eq!(record.commands, 1);
    let state = record.state.unwrap();
    assert_eq!(state, owner.state, "nothing of the stale writes is there");
    assert_eq!(kit.outcome("c").await, None);
    assert_eq!(kit.events("a").await, before);
    kit.commit(&mut owner, &Message::complete()).await;
}

/// A new claim alone fences off the earlier owner, even before the new owner writes, and after its
/// claim ends.
pub async fn a_claim_shuts_out_the_one_before(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let mut stale = kit.claimed(&first, "a").await;
    kit.checkpoint(&mut stale, 1).await;
    kit.coordinator().leave(&first).await.unwrap();
    kit.claim(&second, "a").await;
    for message in [with_data(Message::pause(), 2), Message::complete()] {
        kit.assert_fenced(&stale, &message).await;
    }
    kit.coordinator().leave(&second).await.unwrap();
    let third = kit.node("n3").await;
    let claimed = kit.claim(&third, "a").await;
    assert_eq!(claimed.state.code(), StateKind::Runnable);
    assert_eq!(claimed.state.data.unwrap().as_str(), r#"{"n":1}"#);
}

/// The end of a task that a stale owner writes does not end a later task with the same id.
pub async fn a_stale_end_does_not_end_a_later_task(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let stale = kit.claimed(&first, "a").await;
    kit.delete("a").await;
    kit.assert_fenced(&stale, &Message::complete()).await;

    kit.submit("a").await;
    kit.assert_fenced(&stale, &Message::complete()).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Runnable);

    let mut owner = kit.claim(&second, "a").await;
    kit.assert_fenced(&stale, &Message::complete()).await;
    assert_eq!(kit.get("a").await.node, Some("n2".parse().unwrap()));
    kit.commit(&mut owner, &Message::complete()).await;
}

/// Writes of a deleted task do not change the next task with its id, even when the same lease has
/// claimed it.
pub async fn writes_of_a_deleted_task_do_not_reach_the_next(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut stale = kit.claimed(&node, "a").await;
    kit.checkpoint(&mut stale, 1).await;
    kit.delete("a").await;
    kit.submit("a").await;
    let mut owner = kit.claim(&node, "a").await;
    assert!(owner.order > stale.order);
    assert_eq!(owner.claim.lease, stale.claim.lease);
    let order = kit.send("a", "c", Command::Pause).await;
    for message in [
        with_data(Message::checkpoint(), 1),
        with_data(Message::release(), 1),
        Message::complete(),
        Message::kill(),
    ] {
        assert_settles_nothing(&kit, &stale, &message, order).await;
    }
    let record = kit.get("a").await;
    assert_eq!((record.order, record.commands), (owner.order, 1));
    let state = record.state.unwrap();
    assert_eq!((state.code(), state.data), (StateKind::Runnable, None));
    assert_eq!(kit.outcome("c").await, None);
    kit.commit(&mut owner, &with_data(Message::complete(), 2))
        .await;
}

/// A released claim cannot write.
pub async fn a_released_claim_is_gone(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, message) in [
        ("released", Message::release()),
        ("paused", Message::pause()),
        ("done", Message::complete()),
    ] {
        let mut claimed = kit.claimed(&node, name).await;
        let mut again = kit.write(&claimed, &Message::run());
        kit.commit(&mut claimed, &message).await;
        again.state.version += 1;
        let answer = kit.try_write(&claimed, again).await;
        assert!(is_fenced(&answer), "{name}: {answer:?}");
        assert_eq!(kit.state(name).await, claimed.state);
    }
}

/// The claims of an ended lease cannot write.
pub async fn a_claim_ends_with_its_lease(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    kit.coordinator().leave(&node).await.unwrap();
    kit.assert_fenced(&claimed, &Message::complete()).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Runnable);
}

/// A claim with the fence of one claim and the lease of another cannot write.
pub async fn a_forged_claim_is_fenced(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    let claimed = kit.claimed(&node, "a").await;
    let write = kit.write(&claimed, &Message::complete());
    let right = claimed.claim.clone();
    let lease = Claim {
        lease: other.id,
        ..right.clone()
    };
    let fence = Claim {
        fence: Fence(right.fence.0 + 1),
        ..right.clone()
    };
    for claim in [lease, fence] {
        let write = write.clone();
        let answer = one(kit
            .coordinator()
            .commit(vec![Commit {
                claim,
                write,
                log: None,
            }])
            .await);
        assert!(is_fenced(&answer), "{answer:?}");
    }
    assert_eq!(kit.state("a").await.code(), StateKind::Runnable);
    kit.try_write(&claimed, write).await.unwrap();
}

/// A repeated write succeeds and is applied once, even when it has ended the claim or the task.
pub async fn a_repeated_commit_happens_once(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, message) in [
        ("kept", with_data(Message::run(), 1)),
        ("dropped", with_data(Message::pause(), 1)),
        ("ended", Message::complete_with(1)),
    ] {
        let claimed = kit.claimed(&node, name).await;
        let order = kit.send(name, name, Command::Run).await;
        let mut write = kit.write(&claimed, &message);
        let by = message.kind();
        let overridden = Outcome::Overridden { by };
        settle(&mut write, order, overridden.clone());
        let stored = write.state.clone();
        for _ in 0..3 {
            let answer = kit.try_write(&claimed, write.clone()).await;
            assert!(answer.is_ok(), "{name}: {answer:?}");
        }
        assert_eq!(kit.state(name).await, stored);
        assert_eq!(kit.outcome(name).await, Some(overridden));
        let moved = kit.events(name).await.into_iter();
        let moved = moved.filter(|what| matches!(what, ChangeKind::Moved { .. }));
        assert_eq!(moved.count(), 1, "{name}: one line of history");
    }
}

/// A repeated write does not undo the writes of a later owner.
pub async fn a_repeated_commit_does_not_undo(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let claimed = kit.claimed(&first, "a").await;
    let write = kit.write(&claimed, &with_data(Message::release(), 1));
    kit.try_write(&claimed, write.clone()).await.unwrap();
    let mut owner = kit.claim(&second, "a").await;
    let answer = kit.try_write(&claimed, write.clone()).await;
    assert!(is_fenced(&answer), "{answer:?}");
    kit.checkpoint(&mut owner, 2).await;
    let answer = kit.try_write(&claimed, write).await;
    assert!(is_fenced(&answer), "{answer:?}");
    assert_eq!(kit.state("a").await, owner.state);
}

/// Two writers of one claim write different states of one version: the first is applied, and the second gets
/// an error. Each may repeat its write.
pub async fn two_writers_of_a_claim_write_in_turn(harness: &dyn Harness) {
    need(Capability::Effects, harness.takes_effects().then_some(()));
    let (kit, node) = Kit::with_node(harness).await;
    for (name, message) in [
        ("kept", with_data(Message::run(), 1)),
        (
            "asleep",
            with_data(Message::sleep_for(Duration::from_secs(3600)), 1),
        ),
        ("ended", Message::complete_with(1)),
    ] {
        let claimed = kit.claimed(&node, name).await;
        let first = kit.write(&claimed, &with_data(Message::checkpoint(), 7));
        let second = kit.write(&claimed, &message);
        kit.try_write(&claimed, first.clone()).await.unwrap();
        for _ in 0..2 {
            let answer = kit.try_write(&claimed, second.clone()).await;
            assert_superseded(&answer, first.follows, first.state.version);
            kit.try_write(&claimed, first.clone()).await.unwrap();
            assert_eq!(kit.state(name).await, first.state, "{name}");
        }
        // A write that follows the stored version is applied.
        let now = Claimed {
            state: first.state.clone(),
            ..claimed.clone()
        };
        kit.try_write(&claimed, kit.write(&now, &message))
            .await
            .unwrap();
    }
}

/// A write of a claim that arrives after a newer one does not overwrite it.
pub async fn a_write_that_arrives_late_is_superseded(harness: &dyn Harness) {
    need(Capability::Effects, harness.takes_effects().then_some(()));
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let late = kit.write(&claimed, &with_data(Message::checkpoint(), 9));
    let repeated = kit.write(&claimed, &with_data(Message::checkpoint(), 1));
    kit.try_write(&claimed, repeated.clone()).await.unwrap();
    claimed.state = repeated.state.clone();
    for n in 2..5 {
        kit.checkpoint(&mut claimed, n).await;
        for write in [&late, &repeated] {
            let answer = kit.try_write(&claimed, write.clone()).await;
            assert_superseded(&answer, write.follows, claimed.state.version);
        }
        assert_eq!(kit.state("a").await, claimed.state);
    }
    // Nor does a write that follows a version which the store does not have.
    let ahead = Claimed {
        state: {
            let mut state = claimed.state.clone();
            state.version += 1;
            state
        },
        ..claimed.clone()
    };
    let early = kit.write(&ahead, &with_data(Message::checkpoint(), 9));
    let answer = kit.try_write(&claimed, early).await;
    assert_superseded(&answer, claimed.state.version + 1, claimed.state.version);
    assert_eq!(kit.state("a").await, claimed.state);
}

fn assert_superseded(answer: &Result<(), Error>, expected_follows: u64, expected_stored: u64) {
    match answer {
        Err(
            error @ Error::Superseded {
                follows, stored, ..
            },
        ) => {
            assert_eq!((*follows, *stored), (expected_follows, expected_stored));
            assert!(!error.is_retryable(), "the same write is superseded again");
        }
        other => panic!("got {other:?}, want a superseded write"),
    }
}
