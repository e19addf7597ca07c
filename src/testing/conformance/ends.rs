//! Ends of tasks: delete, retry, purge, retention.

use std::time::Duration;

use windlass_statemachine::{Fence, Message, StateKind, TaskState};

use super::{
    Harness,
    kit::{Kit, assert_matches, field, fresh, id, task, with_data},
    wait::eventually,
};
use crate::store::{ChangeKind, Error, IfExists, Purge, Submit, Submitted};

const ENDED: [StateKind; 3] = [StateKind::Completed, StateKind::Failed, StateKind::Killed];

/// The id of a task with `free_id` is free when the task has completed, for each rule of a submit, and
/// only then.
pub async fn the_id_of_a_completed_task_may_be_free(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let freeing = || {
        let mut task = task("a");
        task.free_id = true;
        task
    };
    kit.submit_task(freeing()).await;
    let taken = kit.try_submit(fresh(freeing())).await.unwrap_err();
    assert_matches!(taken, Error::AlreadyExists { .. });
    for if_exists in [
        IfExists::Refuse,
        IfExists::Same,
        IfExists::Skip,
        IfExists::ReplaceFinished,
    ] {
        let mut claimed = kit.claim(&node, "a").await;
        kit.commit(&mut claimed, &Message::complete()).await;
        let order = kit.get("a").await.order;
        assert_eq!(
            kit.get("a").await.task,
            freeing(),
            "its record stays until then"
        );
        let task = freeing();
        let again = kit.try_submit(Submit { task, if_exists }).await;
        assert_eq!(again.unwrap(), Submitted::New, "{if_exists:?}");
        let record = kit.get("a").await;
        assert!(record.order > order, "{if_exists:?}");
        assert_eq!(record.state.unwrap().code(), StateKind::Runnable);
    }
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::kill()).await;
    let taken = kit.try_submit(fresh(freeing())).await.unwrap_err();
    assert_matches!(taken, Error::AlreadyFinished { .. });
}

/// A delete leaves tasks with similar ids alone.
pub async fn deleting_one_leaves_its_neighbours(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let names = [
        "foo", "foobar", "fo", "Foo", "foo%", "foo_", "foo bar", "foo.json",
    ];
    for name in names {
        let mut claimed = kit.claimed(&node, name).await;
        kit.send(
            name,
            &format!("c-{name}"),
            windlass_statemachine::Command::Run,
        )
        .await;
        kit.commit(&mut claimed, &with_data(Message::release(), 1))
            .await;
    }
    for (n, name) in names.iter().enumerate() {
        kit.delete(name).await;
        assert_eq!(kit.list(Default::default()).await, names[n + 1..]);
        for left in &names[n + 1..] {
            assert_eq!(kit.get(left).await.commands, 1);
            let data = kit.state(left).await.data;
            assert_eq!(data.unwrap().as_str(), r#"{"n":1}"#, "{left}");
        }
    }
}

/// A delete ends the claim: its owner can no longer write.
pub async fn deleting_ends_the_claim(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    kit.delete("a").await;
    kit.assert_fenced(&claimed, &Message::complete()).await;
    let gone = kit.registry().get(&id("a")).await;
    assert_matches!(gone, Err(Error::NotFound { .. }));
    assert_eq!(kit.registry().nodes().await.unwrap()[0].claims, 0);
}

/// A deleted id is free, and the new task has nothing of the old one.
pub async fn a_deleted_id_is_free(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.ended(&node, "a", &with_data(Message::complete(), 1))
        .await;
    let old = kit.get("a").await;
    kit.delete("a").await;
    kit.submit("a").await;
    let record = kit.get("a").await;
    assert!(record.order > old.order);
    let state = record.state.unwrap();
    assert_eq!(state, TaskState::new(state.since));
    let state = StateKind::Runnable;
    assert_eq!(kit.events("a").await, [ChangeKind::Submitted { state }]);
    assert_eq!(kit.claim(&node, "a").await.state.data, None);
}

/// A task that does not exist is not found; the others in the call are deleted.
pub async fn deletions_are_independent(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    kit.submit("a").await;
    kit.submit("b").await;
    let ids = ["a", "nothing", "b", "a"].map(id).to_vec();
    let answers = kit.registry().delete(ids).await;
    assert_matches!(
        answers[..],
        [
            Ok(()),
            Err(Error::NotFound { .. }),
            Ok(()),
            Err(Error::NotFound { .. })
        ]
    );
}

/// A retry starts a task again: attempts from 0, with its data and its errors.
pub async fn a_retry_starts_again(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    kit.checkpoint(&mut claimed, 1).await;
    let mut write = kit.write(&claimed, &Message::kill());
    write.state.attempts = 4;
    write.state.errors.push(kit.now(), "disk full", 8);
    kit.try_write(&claimed, write).await.unwrap();
    for incarnation in 1..3 {
        let before = kit.get("a").await;
        kit.retry("a").await;
        let record = kit.get("a").await;
        assert_eq!(record.order, before.order, "it keeps its place");
        let state = record.state.unwrap();
        assert_eq!(state.code(), StateKind::Runnable);
        assert_eq!((state.attempts, state.incarnation), (0, incarnation));
        assert_eq!(state.data.unwrap().as_str(), r#"{"n":1}"#);
        assert_eq!(state.errors.last().unwrap().error, "disk full");
        assert_eq!(kit.events("a").await.last(), Some(&ChangeKind::Retried));
        let mut claimed = kit.claim(&node, "a").await;
        assert!(claimed.claim.fence > before.fence && !claimed.abandoned);
        assert_eq!(claimed.state.data.as_ref().unwrap().as_str(), r#"{"n":1}"#);
        kit.commit(&mut claimed, &Message::complete()).await;
    }
}

/// A retry removes the result of the ended incarnation.
pub async fn a_retry_forgets_the_result(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.ended(&node, "a", &Message::complete_with(1)).await;
    kit.retry("a").await;
    let mut claimed = kit.claim(&node, "a").await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let result = None;
    let status = kit.state("a").await.status;
    assert_eq!(
        status,
        windlass_statemachine::TaskStatus::Completed { result }
    );
}

/// Only ended tasks are retried, and each task has its own result.
pub async fn a_live_task_is_not_retried(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.submit("live").await;
    kit.claimed(&node, "claimed").await;
    kit.ended(&node, "failed", &Message::error("x")).await;
    let ids = ["live", "claimed", "nothing", "failed"].map(id).to_vec();
    let answers = kit.registry().retry(ids).await;
    for answer in &answers[..2] {
        let error = answer.as_ref().unwrap_err();
        assert_eq!(field(error), "state", "{error}");
    }
    assert_matches!(answers[2], Err(Error::NotFound { .. }));
    assert!(answers[3].is_ok(), "{answers:?}");
    assert_eq!(kit.get("claimed").await.node, Some("n".parse().unwrap()));
    assert_eq!(kit.state("live").await.incarnation, 0);
}

/// A task that one call names twice is retried once: the second item finds it live.
pub async fn one_id_twice_is_retried_once(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    kit.ended(&node, "a", &Message::error("x")).await;
    let answers = kit.registry().retry(["a", "a"].map(id).to_vec()).await;
    assert_matches!(answers[..], [Ok(()), Err(Error::Invalid(_))]);
    assert_eq!(kit.state("a").await.incarnation, 1);
    let retries = kit.events("a").await.into_iter();
    assert_eq!(
        retries.filter(|what| *what == ChangeKind::Retried).count(),
        1
    );
}

/// A purge deletes tasks that ended in one of the states before the time, the oldest first, up to the
/// limit.
pub async fn purge_deletes_only_matching_tasks(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let long_ago = kit.now();
    kit.submit("live").await;
    for (name, message) in [
        ("done-1", Message::complete()),
        ("failed", Message::error("x")),
        ("done-2", Message::complete()),
        ("killed", Message::kill()),
        ("done-3", Message::complete()),
    ] {
        // Each ends later than the previous one, even by a clock with milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        kit.ended(&node, name, &message).await;
    }
    let soon = kit.in_an_hour();
    let purge = async |states: &[StateKind], before, limit| {
        let purge = Purge::new(states, before).limit(limit);
        kit.registry().purge(&purge).await.unwrap()
    };
    assert_eq!(purge(&ENDED, long_ago, 10).await, 0, "nothing is that old");
    let live = [
        StateKind::Runnable,
        StateKind::Sleeping,
        StateKind::Paused,
        StateKind::Fault,
    ];
    assert_eq!(purge(&live, soon, 10).await, 0, "live states are ignored");
    assert_eq!(purge(&[], soon, 10).await, 0);
    assert_eq!(purge(&[StateKind::Completed], soon, 2).await, 2);
    let left = kit.list(Default::default()).await;
    assert_eq!(left, ["live", "failed", "killed", "done-3"]);
    assert_eq!(
        purge(&[StateKind::Failed, StateKind::Killed], soon, 10).await,
        2
    );
    assert_eq!(purge(&ENDED, soon, 10).await, 1);
    assert_eq!(kit.list(Default::default()).await, ["live"]);
    let gone = kit.registry().get(&id("failed")).await;
    assert_matches!(gone, Err(Error::NotFound { .. }));
    kit.try_submit(super::kit::fresh(task("failed")))
        .await
        .unwrap();
}

/// The age of a task counts from its end, not from its submit.
pub async fn retention_counts_from_the_end(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let age = Duration::from_secs(2);
    tokio::time::sleep(age + Duration::from_millis(50)).await;
    kit.commit(&mut claimed, &Message::complete()).await;
    let ended = tokio::time::Instant::now();
    let pruned = kit.coordinator().maintain(Some(age)).await.unwrap();
    // On a machine that stood still, the task may have reached the age by now.
    assert!(
        pruned == 0 || ended.elapsed() >= age,
        "pruned {:?} after its end",
        ended.elapsed()
    );
}

/// Retention deletes tasks that ended longer ago than its time, and never a live task.
pub async fn retention_prunes_only_what_has_ended(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut paused = kit.claimed(&node, "paused").await;
    kit.commit(&mut paused, &with_data(Message::pause(), 1))
        .await;
    kit.claimed(&node, "claimed").await;
    for n in 0..5 {
        kit.ended(&node, &format!("done-{n}"), &Message::complete())
            .await;
    }
    let coordinator = kit.coordinator();
    assert_eq!(coordinator.maintain(None).await.unwrap(), 0);
    let week = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(coordinator.maintain(Some(week)).await.unwrap(), 0);
    assert_eq!(kit.list(Default::default()).await.len(), 7);
    let mut pruned = 0;
    let millisecond = Some(Duration::from_millis(1));
    while pruned < 5 {
        pruned += eventually("retention", async || {
            let gone = coordinator.maintain(millisecond).await.unwrap();
            (gone > 0).then_some(gone)
        })
        .await;
    }
    assert_eq!(pruned, 5, "the number of deleted tasks");
    assert_eq!(kit.list(Default::default()).await, ["paused", "claimed"]);
    let data = kit.state("paused").await.data;
    assert_eq!(data.unwrap().as_str(), r#"{"n":1}"#);
    assert!(kit.get("claimed").await.fence > Fence(0));
}
