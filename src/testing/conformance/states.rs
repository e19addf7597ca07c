//! State stores: fenced, durable, and nothing lost.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use windlass_statemachine::{
    Fence, Json, Outcome, Progress, StateKind, TaskId, TaskState, TaskStatus, state::LastCommand,
};

use super::{
    Capability, StateHarness,
    capability::need,
    kit::{assert_matches, field, id, one},
};
use crate::store::{Error, StateRemoval, StateStore, StateWrite};

type Store = Arc<dyn StateStore>;

fn state(fence: u64, version: u64) -> TaskState {
    let mut state = TaskState::new("2030-01-02T03:04:05.678Z".parse().unwrap());
    state.fence = Fence(fence);
    state.version = version;
    state.data_version = 2;
    state.data = Some(json!({ "fence": fence, "version": version }).into());
    state
}

async fn store(states: &Store, name: &str, state: TaskState) -> Result<(), Error> {
    let task = id(name);
    one(states.store(vec![StateWrite { task, state }]).await)
}

async fn load(states: &Store, name: &str) -> Option<TaskState> {
    one(states.load(&[id(name)]).await).expect("a readable state")
}

/// Removes the state that is stored now.
async fn remove(states: &Store, name: &str) -> Result<(), Error> {
    let stored = one(states.load(&[id(name)]).await);
    let removal = StateRemoval::of(&id(name), &stored).expect("something to remove");
    one(states.remove(vec![removal]).await)
}

fn removal(name: &str, seen: Option<(u64, u64)>) -> StateRemoval {
    let seen = seen.map(|(fence, version)| (Fence(fence), version));
    StateRemoval {
        task: id(name),
        seen,
    }
}

/// A state is loaded with every field.
pub async fn a_state_comes_back(harness: &dyn StateHarness) {
    let states = harness.states().await;
    assert_eq!(load(&states, "a").await, None);
    let mut full = state(u64::MAX >> 1, 3);
    full.status = TaskStatus::Completed {
        result: Some(
            Json::parse("result", r#"{"n":123456789012345678901234567890,"f":1.10}"#).unwrap(),
        ),
    };
    full.data = Some(Json::parse("data", r#"{"u":18446744073709551615,"t":"é\u0000木"}"#).unwrap());
    for data in [format!("\"{}\"", "x".repeat(200)), "[1.10]".to_owned()] {
        full.replace_data(Some(Json::parse("data", &data).unwrap()), full.since);
    }
    assert_eq!(full.earlier_data.len(), 2);
    full.errors.push(full.since, "disk full: é\n", 8);
    (full.attempts, full.claims, full.incarnation) = (3, 7, 2);
    full.last_command = Some(LastCommand::new(
        9_007_199_254_740_993,
        Outcome::Rejected {
            reason: "not now".into(),
        },
    ));
    for order in [1, u64::MAX] {
        full.delivered(order, full.since);
    }
    full.progress = Some(Progress::new(Some(0.25), "a quarter"));
    store(&states, "a", full.clone()).await.unwrap();
    assert_eq!(load(&states, "a").await, Some(full));
    let mut sleeping = state(1, 1);
    sleeping.status = TaskStatus::Sleeping {
        until: "2031-01-01T00:00:00.123456789Z".parse().unwrap(),
    };
    sleeping.data = None;
    store(&states, "b", sleeping.clone()).await.unwrap();
    assert_eq!(load(&states, "b").await, Some(sleeping));
}

/// A write with a smaller fence is refused, whatever its version is, and changes nothing.
pub async fn a_smaller_fence_is_refused(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 10)).await.unwrap();
    for stale in [state(4, 10), state(4, 11), state(1, 1000), state(0, 0)] {
        assert_matches!(store(&states, "a", stale).await, Err(Error::Fenced(_)));
    }
    assert_eq!(load(&states, "a").await, Some(state(5, 10)));
}

/// A write with the same fence and a smaller version is refused: it is late.
pub async fn a_smaller_version_is_refused(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 10)).await.unwrap();
    let refused = store(&states, "a", state(5, 9)).await;
    assert_matches!(refused, Err(Error::Fenced(_)));
    assert_eq!(load(&states, "a").await, Some(state(5, 10)));
}

/// A greater fence is stored even with a smaller version, and so is a greater version of the same fence.
pub async fn a_newer_state_is_stored(harness: &dyn StateHarness) {
    let states = harness.states().await;
    for newer in [state(5, 10), state(5, 11), state(6, 1), state(100, 1)] {
        store(&states, "a", newer.clone()).await.unwrap();
        assert_eq!(load(&states, "a").await, Some(newer));
    }
}

/// A late write of a task that was replaced is refused, however often that task was retried.
pub async fn the_incarnation_does_not_matter(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 1)).await.unwrap();
    let mut late = state(4, 9);
    late.incarnation = 3;
    assert_matches!(store(&states, "a", late).await, Err(Error::Fenced(_)));
    assert_eq!(load(&states, "a").await, Some(state(5, 1)));
}

/// The same write again succeeds and changes nothing.
pub async fn the_same_write_again_succeeds(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 10)).await.unwrap();
    store(&states, "a", state(5, 10)).await.unwrap();
    assert_eq!(load(&states, "a").await, Some(state(5, 10)));
}

/// Another write with the same fence and version replaces the earlier one, which the coordinator
/// has refused.
pub async fn another_write_of_the_same_version_is_stored(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 10)).await.unwrap();
    let mut other = state(5, 10);
    other.data = None;
    other.status = TaskStatus::Failed;
    store(&states, "a", other.clone()).await.unwrap();
    assert_eq!(load(&states, "a").await, Some(other));
}

/// Items are independent, and results are in the order of the items.
pub async fn items_are_independent(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "b", state(5, 1)).await.unwrap();
    let names = ["a", "b", "c", "a"];
    let fences = [1, 4, 1, 2];
    let writes = names.iter().zip(fences).map(|(name, fence)| StateWrite {
        task: id(name),
        state: state(fence, 1),
    });
    let answers = states.store(writes.collect()).await;
    assert_matches!(answers[..], [Ok(()), Err(Error::Fenced(_)), Ok(()), Ok(())]);
    let ids: Vec<TaskId> = ["c", "nothing", "a", "b", "a"].map(id).to_vec();
    let loaded = states.load(&ids).await.into_iter();
    let fences: Vec<_> = loaded.map(|s| s.unwrap().map(|s| s.fence.0)).collect();
    assert_eq!(fences, [Some(1), None, Some(2), Some(5), Some(2)]);
    assert!(states.load(&[]).await.is_empty());
    assert!(states.store(vec![]).await.is_empty());
    assert!(states.remove(vec![]).await.is_empty());
}

/// Similar ids are different tasks, and a state can be stored under every legal id.
pub async fn names_do_not_touch(harness: &dyn StateHarness) {
    let states = harness.states().await;
    let longest = "x".repeat(256);
    let longest_but_one = "x".repeat(255);
    let wide = "木".repeat(85);
    let names = [
        "a",
        "ab",
        "A",
        "a%",
        "a_",
        "a*",
        "...",
        "a.json",
        "a.tmp",
        "con",
        "a\\b",
        "a:b",
        "é",
        "e\u{301}",
        "%61",
        "61",
        "a b",
        "-a",
        "~",
        "$HOME",
        &longest,
        &longest_but_one,
        &wide,
    ];
    for (n, name) in names.iter().enumerate() {
        let stored = store(&states, name, state(n as u64 + 1, 1)).await;
        stored.unwrap_or_else(|e| panic!("{name:?} cannot be stored: {e}"));
    }
    for (n, name) in names.iter().enumerate() {
        let expected = state(n as u64 + 1, 1);
        assert_eq!(load(&states, name).await, Some(expected), "{name:?}");
    }
    for (n, name) in names.iter().enumerate() {
        remove(&states, name).await.unwrap();
        assert_eq!(load(&states, name).await, None, "{name:?}");
        for left in &names[n + 1..] {
            assert!(
                load(&states, left).await.is_some(),
                "{left:?} after {name:?}"
            );
        }
    }
}

/// After a removal the state is gone, and its id accepts any state again. Removing a missing state
/// is not an error.
pub async fn a_removed_state_is_gone(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 10)).await.unwrap();
    store(&states, "b", state(5, 10)).await.unwrap();
    let seen = Some((5, 10));
    let removals = ["a", "nothing", "a"].map(|name| removal(name, seen));
    let answers = states.remove(removals.to_vec()).await;
    assert_matches!(answers[..], [Ok(()), Ok(()), Ok(())]);
    assert_eq!(load(&states, "a").await, None);
    assert!(load(&states, "b").await.is_some());
    store(&states, "a", state(1, 1)).await.unwrap();
    assert_eq!(load(&states, "a").await, Some(state(1, 1)));
}

/// A removal removes the state that was seen, not a newer or an older one.
pub async fn only_the_state_that_was_seen_is_removed(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 10)).await.unwrap();
    for seen in [
        Some((5, 9)),
        Some((4, 10)),
        Some((5, 11)),
        Some((9, 9)),
        None,
    ] {
        let refused = one(states.remove(vec![removal("a", seen)]).await);
        assert_matches!(refused, Err(Error::Fenced(_)));
        assert_eq!(load(&states, "a").await, Some(state(5, 10)));
    }
    store(&states, "b", state(1, 1)).await.unwrap();
    let removals = vec![removal("a", Some((4, 1))), removal("b", Some((1, 1)))];
    let answers = states.remove(removals).await;
    assert_matches!(answers[..], [Err(Error::Fenced(_)), Ok(())]);
    assert_eq!(load(&states, "b").await, None);
}

/// A removal at the same time as a write removes the state that was seen, or nothing.
pub async fn a_removal_does_not_take_a_write_along(harness: &dyn StateHarness) {
    let states = harness.states().await;
    for round in 0..10 {
        let name = format!("t{round}");
        store(&states, &name, state(1, 1)).await.unwrap();
        let writing = tokio::spawn({
            let (states, name) = (states.clone(), name.clone());
            async move { store(&states, &name, state(2, 1)).await }
        });
        let removed = one(states.remove(vec![removal(&name, Some((1, 1)))]).await);
        writing.await.unwrap().unwrap();
        assert_matches!(removed, Ok(()) | Err(Error::Fenced(_)));
        assert_eq!(load(&states, &name).await, Some(state(2, 1)));
    }
}

/// Of several concurrent writers, the one with the greatest fence wins: comparing and writing is one
/// step.
pub async fn writers_at_once_leave_the_greatest(harness: &dyn StateHarness) {
    let states = harness.states().await;
    for round in 0..5 {
        let name = format!("t{round}");
        let mut fences: Vec<u64> = (1..=16).collect();
        let half = fences.len() / 2;
        fences.rotate_left(half + round);
        let writes = fences.iter().map(|fence| {
            let (states, name, fence) = (states.clone(), name.clone(), *fence);
            tokio::spawn(async move { (fence, store(&states, &name, state(fence, 1)).await) })
        });
        for written in join_all(writes).await {
            let (fence, answer) = written.unwrap();
            let is_right = match &answer {
                Ok(()) => true,
                Err(Error::Fenced(_)) => fence < 16,
                Err(_) => false,
            };
            assert!(is_right, "{fence}: {answer:?}");
        }
        assert_eq!(load(&states, &name).await, Some(state(16, 1)));
    }
}

/// A state that is larger than the store allows is refused with its size, and the stored state stays.
/// A store without a limit stores it.
pub async fn large_states_are_stored_or_refused(harness: &dyn StateHarness) {
    let states = harness.states().await;
    let mut large = state(1, 1);
    large.data = Some(Json::new("data", &"x".repeat(500_000)).unwrap());
    store(&states, "a", large.clone()).await.unwrap();
    assert_eq!(load(&states, "a").await, Some(large));
    store(&states, "b", state(1, 1)).await.unwrap();
    let mut huge = state(1, 2);
    // More than 16 MiB, the limit of a value in common databases.
    huge.data = Some(Json::new("data", &"x".repeat(17 << 20)).unwrap());
    match store(&states, "b", huge.clone()).await {
        Ok(()) => assert!(
            load(&states, "b").await == Some(huge),
            "it was stored whole"
        ),
        Err(error) => {
            assert_matches!(error, Error::TooLarge { .. });
            assert_eq!(field(&error), "data");
            assert_eq!(load(&states, "b").await, Some(state(1, 1)));
        }
    }
}

/// Stored states are there when the store is opened again.
pub async fn states_are_durable(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "a", state(5, 10)).await.unwrap();
    store(&states, "b", state(1, 1)).await.unwrap();
    remove(&states, "b").await.unwrap();
    let states = need(Capability::Reopen, harness.reopen(states).await);
    assert_eq!(load(&states, "a").await, Some(state(5, 10)));
    assert_eq!(load(&states, "b").await, None);
    let refused = store(&states, "a", state(4, 99)).await;
    assert_matches!(refused, Err(Error::Fenced(_)));
}

/// An unreadable state returns [`Error::Corrupt`] and stays as it is; the others are loaded. Only a store
/// that knows its fence without reading it replaces it with a newer one.
pub async fn an_unreadable_state_is_left_as_it_is(harness: &dyn StateHarness) {
    let states = harness.states().await;
    store(&states, "bad", state(1, 1)).await.unwrap();
    store(&states, "good", state(1, 1)).await.unwrap();
    let damaged = harness.corrupt(&states, &id("bad")).await;
    need(Capability::CorruptState, damaged.then_some(()));
    for _ in 0..2 {
        let mut answers = states.load(&["bad", "good"].map(id)).await;
        let error = answers.remove(0).unwrap_err();
        assert_matches!(error, Error::Corrupt { .. });
        assert!(error.to_string().contains("bad"), "names the task: {error}");
        let good = answers.remove(0).unwrap().unwrap();
        assert_eq!(good.code(), StateKind::Runnable);
    }
    let refused = one(states.remove(vec![removal("good", None)]).await);
    assert_matches!(refused, Err(Error::Fenced(_)));
    match store(&states, "bad", state(9, 9)).await {
        Ok(()) => assert_eq!(load(&states, "bad").await, Some(state(9, 9))),
        Err(error) => {
            assert_matches!(error, Error::Corrupt { .. });
            let loaded = one(states.load(&[id("bad")]).await);
            assert_matches!(loaded, Err(Error::Corrupt { .. }));
        }
    }
    remove(&states, "bad").await.unwrap();
    assert_eq!(load(&states, "bad").await, None);
    store(&states, "bad", state(2, 1)).await.unwrap();
    assert_eq!(load(&states, "bad").await, Some(state(2, 1)));
}
