//! Commits: every field of a write is stored, and nothing else changes.

use serde_json::json;
use windlass_statemachine::{CommitId, Json, Message, Progress, StateKind, TaskStatus};

use super::{
    Harness,
    kit::{Kit, assert_matches, field, with_data},
};
use crate::store::{ChangeKind, Commit, Error};

/// A transition is stored with all its fields, and is in the history.
pub async fn a_transition_is_stored(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let until = kit.in_an_hour();
    kit.commit(&mut claimed, &with_data(Message::sleep_until(until), 1))
        .await;
    let state = kit.state("a").await;
    assert_eq!(state.status, TaskStatus::Sleeping { until });
    assert_eq!(state, claimed.state);
    let reported = kit.events("a").await;
    let moved = ChangeKind::Moved {
        message: windlass_statemachine::ActionKind::Sleep,
        from: StateKind::Runnable,
        to: StateKind::Sleeping,
        fence: claimed.claim.fence,
        command: None,
    };
    assert!(reported.contains(&moved), "{reported:?}");
    let fence = claimed.claim.fence;
    assert_eq!(reported.last(), Some(&ChangeKind::Dropped { fence }));
}

/// Data and result are stored unchanged: large ones, large numbers, any text.
pub async fn data_and_result_survive(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let data = Json::parse(
        "data",
        r#"{"u":18446744073709551615,"t":"é\u0000木","f":1.10}"#,
    )
    .unwrap();
    let result = Json::new("result", &"x".repeat(100_000)).unwrap();
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit(&mut claimed, &Message::checkpoint().with_json(data.clone()))
        .await;
    assert_eq!(kit.state("a").await.data, Some(data.clone()));
    let complete = Message::complete_with(&result);
    kit.commit(&mut claimed, &complete).await;
    let state = kit.state("a").await;
    assert_eq!(state.data, Some(data), "the data stays");
    let result = Some(result);
    assert_eq!(state.status, TaskStatus::Completed { result });
}

/// New data replaces the old data; a message without data keeps it.
pub async fn data_is_replaced_or_kept(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    for n in 1..4 {
        kit.checkpoint(&mut claimed, n).await;
    }
    kit.commit(&mut claimed, &Message::run()).await;
    assert_eq!(kit.state("a").await.data, Some(json!({"n": 3}).into()));
    let null = Message::checkpoint().with_json(Json::null());
    kit.commit(&mut claimed, &null).await;
    kit.commit(&mut claimed, &Message::release()).await;
    let next = kit.claim(&node, "a").await;
    assert_eq!(next.state.data, Some(Json::null()), "null is data too");
}

/// Errors, attempts and progress are stored.
pub async fn errors_and_counters_survive(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let claimed = kit.claimed(&node, "a").await;
    let mut write = kit.write(&claimed, &Message::error("disk full: é"));
    write.state.attempts = 3;
    write.state.progress = Some(Progress::new(Some(0.25), "a quarter"));
    let stored = write.state.clone();
    kit.try_write(&claimed, write).await.unwrap();
    assert_eq!(kit.state("a").await, stored);
    let next = kit.claim(&node, "a").await.state;
    assert_eq!((next.attempts, next.progress), (3, stored.progress));
    assert_eq!(next.errors, stored.errors);
    assert_eq!(next.status, TaskStatus::Fault);
}

/// A commit that does not release the claim keeps it, and its progress is shown while the task runs.
pub async fn a_checkpoint_keeps_the_claim(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    for n in 0..3 {
        let mut write = kit.write(&claimed, &with_data(Message::checkpoint(), n));
        write.steps.clear();
        write.state.progress = Some(Progress::new(None, n.to_string()));
        claimed.state = write.state.clone();
        kit.try_write(&claimed, write).await.unwrap();
        assert_eq!(kit.state("a").await.progress, claimed.state.progress);
        assert_eq!(kit.get("a").await.node, Some("n".parse().unwrap()));
    }
    let fence = claimed.claim.fence;
    let reported = kit.history("a").await;
    assert_eq!(
        reported.last().unwrap().what,
        ChangeKind::Checkpointed { fence }
    );
}

/// A terminal state ends the claim, even when the write does not ask for it.
pub async fn the_end_removes_the_claim(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    for (name, message, code) in [
        ("done", Message::complete(), StateKind::Completed),
        ("killed", Message::kill(), StateKind::Killed),
    ] {
        let claimed = kit.claimed(&node, name).await;
        let mut write = kit.write(&claimed, &message);
        write.drop_claim = false;
        kit.try_write(&claimed, write).await.unwrap();
        let record = kit.get(name).await;
        assert_eq!(record.node, None, "{name}");
        assert_eq!(record.state.unwrap().code(), code);
        assert_eq!(
            record.fence, claimed.claim.fence,
            "the last fence stays known"
        );
    }
    let nodes = kit.registry().nodes().await.unwrap();
    assert_eq!(nodes[0].claims, 0);
}

/// A refused write does not affect the others, and results are in the order of the items.
pub async fn items_are_independent(harness: &dyn Harness) {
    let kit = Kit::new(harness).await;
    let (node, gone) = (kit.node("n").await, kit.node("gone").await);
    let mut commits = Vec::new();
    for name in ["a", "stale", "b", "large", "c"] {
        let lease = if name == "stale" { &gone } else { &node };
        let claimed = kit.claimed(lease, name).await;
        let mut message = Message::complete();
        if name == "large" {
            let bytes = kit.coordinator().limits().max_bytes;
            message = message.with_data(&"x".repeat(bytes));
        }
        let write = kit.write(&claimed, &message);
        let claim = claimed.claim;
        commits.push(Commit {
            claim,
            write,
            log: None,
        });
    }
    kit.coordinator().leave(&gone).await.unwrap();
    let answers = kit.coordinator().commit(commits).await;
    assert_matches!(
        answers[..],
        [
            Ok(()),
            Err(Error::Fenced(_)),
            Ok(()),
            Err(Error::TooLarge { .. }),
            Ok(())
        ]
    );
    for (name, code) in [
        ("a", StateKind::Completed),
        ("stale", StateKind::Runnable),
        ("b", StateKind::Completed),
        ("large", StateKind::Runnable),
        ("c", StateKind::Completed),
    ] {
        assert_eq!(kit.state(name).await.code(), code, "{name}");
    }
}

/// Two writes of one claim in one call are applied in order. A third one after the end of the claim is
/// refused.
pub async fn two_writes_of_one_claim_happen_in_order(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let first = kit.write(&claimed, &with_data(Message::checkpoint(), 1));
    claimed.state = first.state.clone();
    let second = kit.write(&claimed, &with_data(Message::pause(), 2));
    claimed.state = second.state.clone();
    let mut third = second.clone();
    third.follows += 1;
    third.state.version += 1;
    third.state.commit = Some(CommitId(3));
    let commits = [first, second, third].map(|write| Commit {
        claim: claimed.claim.clone(),
        write,
        log: None,
    });
    let answers = kit.coordinator().commit(commits.to_vec()).await;
    assert_matches!(answers[..], [Ok(()), Ok(()), Err(Error::Fenced(_))]);
    let record = kit.get("a").await;
    assert_eq!((record.node, record.state.unwrap()), (None, claimed.state));
}

/// A state that is too large is refused with its field and size; the claim stays.
pub async fn too_large_is_refused_and_the_claim_stands(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    let limit = kit.coordinator().limits().max_bytes;
    let long = "x".repeat(limit);
    let data = Message::checkpoint().with_data(&long);
    let result = Message::complete_with(&long);
    for (message, name) in [(data, "data"), (result, "result")] {
        let error = kit.try_commit(&claimed, &message).await.unwrap_err();
        assert_eq!(field(&error), name);
        let Error::TooLarge {
            bytes,
            limit: reported,
            ..
        } = error
        else {
            panic!("{error:?}")
        };
        assert!(bytes > limit && reported <= limit, "{bytes} of {reported}");
    }
    assert_eq!(kit.state("a").await, claimed.state);
    kit.commit(&mut claimed, &Message::complete()).await;
}

/// A commit is still there when the store is opened again.
pub async fn commits_are_durable(harness: &dyn Harness) {
    let (kit, node) = Kit::with_node(harness).await;
    let mut claimed = kit.claimed(&node, "a").await;
    kit.commit(&mut claimed, &with_data(Message::pause(), 1))
        .await;
    let history = kit.history("a").await;
    let kit = kit.reopened(harness).await;
    let record = kit.get("a").await;
    assert_eq!(record.state.unwrap(), claimed.state);
    assert_eq!(record.fence, claimed.claim.fence);
    assert_eq!(kit.history("a").await, history);
}
