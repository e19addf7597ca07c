//! Claims: which node may claim a task, and when.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{Command, Fence, Message, StateKind, TaskStatus};

use super::{
    Harness,
    kit::{Kit, assert_matches, id, task, with_data},
    wait::eventually,
};
use crate::{
    store::{ChangeKind, Error},
    testing::ManualClock,
};

/// A claim returns everything that a node needs to start the task, and is in its record and history.
pub async fn a_runnable_task_is_claimed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(*claimed.task, task("a"));
    assert_eq!(claimed.claim.task, id("a"));
    assert_eq!(claimed.claim.lease, node.id);
    assert!(claimed.claim.fence > Fence(0));
    assert_eq!(claimed.state.fence, claimed.claim.fence);
    assert_eq!(claimed.state.code(), StateKind::Runnable);
    assert_eq!((claimed.state.claims, claimed.state.attempts), (1, 0));
    assert!(claimed.commands.is_empty() && !claimed.abandoned);

    let record = kit.get("a").await;
    assert_eq!(record.node, Some("n".parse().unwrap()));
    assert_eq!(record.fence, claimed.claim.fence);
    assert_eq!(record.order, claimed.order);
    assert_eq!(record.state.unwrap().fence, claimed.claim.fence);
    let reported = ChangeKind::Claimed {
        node: "n".parse().unwrap(),
        fence: claimed.claim.fence,
        abandoned: false,
    };
    assert_eq!(kit.events("a").await.last(), Some(&reported));
}

/// A task has one owner.
pub async fn a_claimed_task_is_not_claimed_again(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let mut claimed = kit.claimed(&first, "a").await;
    assert!(kit.try_claim(&second, "a").await.unwrap().is_none());
    kit.send("a", "c", Command::Pause).await;
    assert!(kit.try_claim(&second, "a").await.unwrap().is_none());
    kit.commit(&mut claimed, &Message::checkpoint()).await;
    assert!(kit.try_claim(&second, "a").await.unwrap().is_none());
    assert_eq!(kit.get("a").await.node, Some("n1".parse().unwrap()));
}

/// A claim of a task that does not exist (any more) returns `None`.
pub async fn an_unknown_task_is_not_claimed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
    kit.submit("a").await;
    kit.delete("a").await;
    assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
}

/// An ended task is not claimed.
pub async fn an_ended_task_is_not_claimed(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, message) in [
        ("done", Message::complete()),
        ("killed", Message::kill()),
        ("failed", Message::error("x")),
    ] {
        kit.ended(&node, name, &message).await;
        let claimed = kit.try_claim(&node, name).await.unwrap();
        assert!(claimed.is_none(), "{name}: {claimed:?}");
    }
}

/// A sleeping task is claimed when it is due, not before, and the claim wakes it.
pub async fn a_sleeper_is_claimed_when_it_is_due(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let until = kit.later(Duration::from_millis(300));
    let mut sleeper = task("a");
    sleeper.start_at = Some(until);
    kit.submit_task(sleeper).await;
    let claimed = eventually("a sleeper is due", async || {
        let claimed = kit.try_claim(&node, "a").await.unwrap();
        assert!(claimed.is_none() || kit.now() >= until, "claimed too early");
        claimed
    })
    .await;
    assert_eq!(claimed.state.code(), StateKind::Runnable);
    assert_eq!(kit.state("a").await.code(), StateKind::Runnable);
}

/// A sleeper is not claimed before it is due, even by less time than an index of due times keeps.
pub async fn a_sleeper_is_not_claimed_early(harness: &dyn Harness) {
    let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
    let clock = Arc::new(ManualClock::new(start));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let node = kit.node("n").await;
    let until = start + SignedDuration::from_nanos(1_000_900);
    let mut sleeper = task("a");
    sleeper.start_at = Some(until);
    kit.submit_task(sleeper).await;
    clock.set(until - SignedDuration::from_nanos(500));
    let early = kit.try_claim(&node, "a").await.unwrap();
    assert!(early.is_none(), "{early:?}");
    clock.set(until);
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(claimed.state.code(), StateKind::Runnable);
}

/// A paused task waits for a command.
pub async fn a_paused_task_is_claimed_when_it_is_commanded(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit(&mut claimed, &Message::pause()).await;
    assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
    kit.send("a", "c", Command::Run).await;
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(
        claimed.state.code(),
        StateKind::Paused,
        "the command changes it, not the claim"
    );
    assert_eq!(claimed.commands.len(), 1);
}

/// A sleeping task with a queued command is claimed before it is due.
pub async fn a_commanded_sleeper_is_claimed_early(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let until = kit.in_an_hour();
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit(&mut claimed, &Message::sleep_until(until)).await;
    assert!(kit.try_claim(&node, "a").await.unwrap().is_none());
    kit.send("a", "c", Command::Kill).await;
    let claimed = kit.claim(&node, "a").await;
    assert_eq!(
        claimed.state.status,
        TaskStatus::Sleeping { until },
        "it sleeps on until then"
    );
}

/// A runnable task runs at once, even when its timestamps come from a clock that is ahead of the node's.
/// Only a sleeping task waits for its time.
pub async fn a_runnable_task_from_a_clock_ahead_runs_now(harness: &dyn Harness) {
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    let clock = Arc::new(ManualClock::new(now + hour));
    let kit = Kit::with_clock(harness, clock.clone()).await;
    let node = kit.node("n").await;
    // New, released by a node, and retried, all at the time of the clock ahead.
    kit.submit("new").await;
    let mut released = kit.claimed(&node, "released").await;
    kit.commit(&mut released, &Message::release()).await;
    kit.ended(&node, "retried", &Message::complete()).await;
    kit.retry("retried").await;
    let mut asleep = task("asleep");
    asleep.start_at = Some(now + hour + hour);
    kit.submit_task(asleep).await;
    kit.coordinator().leave(&node).await.unwrap();

    clock.set(now);
    let runner = crate::Runner::builder(&kit.store)
        .node("behind")
        .handler("demo", |_: crate::TaskContext| async {
            Message::complete()
        })
        .start();
    let runner = runner.await.unwrap();
    for name in ["new", "released", "retried"] {
        eventually(name, async || {
            let code = kit.state(name).await.code();
            (code == StateKind::Completed).then_some(())
        })
        .await;
    }
    assert_eq!(
        kit.state("asleep").await.code(),
        StateKind::Sleeping,
        "a wake-up is waited for"
    );
    runner.shutdown().await;
}

/// One call claims several tasks; each result belongs to its own task.
pub async fn claims_are_independent(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, other) = (kit.node("n").await, kit.node("other").await);
    kit.submit("a").await;
    kit.claimed(&other, "b").await;
    kit.submit("c").await;
    let ids = ["a", "b", "nothing", "c"].map(id).to_vec();
    let answers = kit.coordinator().claim(&node, ids).await;
    let names: Vec<Option<String>> = answers
        .into_iter()
        .map(|a| a.unwrap().map(|c| c.task.id.to_string()))
        .collect();
    assert_eq!(names, [Some("a".into()), None, None, Some("c".into())]);
}

/// A task that one call names twice is claimed twice, in order: the second claim has the greater fence
/// and is the live one. The first may be refused as fenced.
pub async fn one_id_twice_is_claimed_twice(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    kit.submit("b").await;
    let ids = ["a", "b", "a"].map(id).to_vec();
    let answers = kit.coordinator().claim(&node, ids).await;
    let [first, Ok(Some(other)), Ok(Some(second))] = &answers[..] else {
        panic!("three items, three answers: {answers:?}");
    };
    assert_eq!((&second.task.id, &other.task.id), (&id("a"), &id("b")));
    match first {
        Ok(Some(first)) => {
            assert!(second.claim.fence > first.claim.fence);
            kit.assert_fenced(first, &Message::kill()).await;
        }
        refused => assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}"),
    }
    kit.try_commit(second, &Message::complete()).await.unwrap();
    assert_eq!(kit.state("a").await.code(), StateKind::Completed);
}

/// A lease that got no answer can claim the same task again, with a new fence.
pub async fn claiming_again_returns_a_lost_claim(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    let lost = kit.claim(&node, "a").await;
    let mut found = kit.claim(&node, "a").await;
    assert!(found.claim.fence > lost.claim.fence);
    kit.assert_fenced(&lost, &Message::complete()).await;
    assert_eq!(found.state.attempts, 0, "nothing was abandoned");
    kit.commit(&mut found, &Message::complete()).await;
    assert_eq!(kit.state("a").await.code(), StateKind::Completed);
    // A loss before it counts once, in the state and in the history; both claims begin a run after a loss.
    kit.claimed(&node, "b").await;
    kit.coordinator().abandon(&node).await.unwrap();
    let other = kit.node("other").await;
    for _ in 0..2 {
        let claimed = kit.claim(&other, "b").await;
        assert_eq!((claimed.abandoned, claimed.state.attempts), (true, 1));
    }
    let history = kit.history("b").await;
    let counts = history.iter().filter(|change| {
        matches!(
            change.what,
            ChangeKind::Claimed {
                abandoned: true,
                ..
            }
        )
    });
    assert_eq!(counts.count(), 1);
}

/// If many nodes claim one task, exactly one gets it.
pub async fn many_claimers_have_one_winner(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let mut nodes = Vec::new();
    for n in 0..8 {
        nodes.push(kit.node(&format!("n{n}")).await);
    }
    for n in 0..5 {
        let name = format!("t{n}");
        kit.submit(&name).await;
        let claims = nodes.iter().map(|node| kit.try_claim(node, &name));
        let won = join_all(claims)
            .await
            .into_iter()
            .filter_map(Result::unwrap);
        let won: Vec<_> = won.collect();
        assert_eq!(won.len(), 1, "{won:?}");
        assert_eq!(kit.get(&name).await.fence, won[0].claim.fence);
    }
}

/// Another node claims a released task, with everything that was stored.
pub async fn a_released_task_is_claimed_by_another(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (first, second) = (kit.node("n1").await, kit.node("n2").await);
    let mut claimed = kit.claimed(&first, "a").await;
    kit.commit(&mut claimed, &with_data(Message::release(), 5))
        .await;
    assert_eq!(kit.get("a").await.node, None);
    let next = kit.claim(&second, "a").await;
    assert!(next.claim.fence > claimed.claim.fence);
    assert!(!next.abandoned);
    assert_eq!((next.state.claims, next.state.attempts), (2, 0));
    assert_eq!(next.state.data.unwrap().as_str(), r#"{"n":5}"#);
}

/// An ended lease claims nothing.
pub async fn an_ended_lease_claims_nothing(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("a").await;
    kit.coordinator().leave(&node).await.unwrap();
    assert_matches!(kit.try_claim(&node, "a").await, Err(Error::Fenced(_)));
    assert_eq!(kit.get("a").await.node, None);
}
