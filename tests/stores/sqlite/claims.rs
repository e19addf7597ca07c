//! Claims of several tasks in one call.

use windlass::{
    Message,
    store::{Coordinator, Error},
};

use super::support::*;

#[tokio::test]
async fn each_task_of_a_call_has_its_own_result() {
    let file = file();
    let store = file.open().await;
    let names: Vec<String> = (0..45).map(|n| format!("t{n}")).collect();
    for name in &names {
        submit(&store, name).await;
    }
    let (lease, other) = (join(&store, "a").await, join(&store, "b").await);
    let ended = claim(&store, &lease, "t3").await;
    commit(&store, &ended, Message::complete()).await.unwrap();
    claim(&store, &other, "t20").await;

    let mut ids: Vec<_> = names.iter().map(|name| id(name)).collect();
    ids.insert(7, id("unknown"));
    let claimed = store.claim(&lease, ids.clone()).await;
    assert_eq!(claimed.len(), ids.len());
    let mut fences = Vec::new();
    for (id, claimed) in ids.iter().zip(claimed) {
        let claimed = claimed.unwrap();
        let is_free = !["t3", "t20", "unknown"].contains(&id.as_str());
        assert_eq!(claimed.is_some(), is_free, "{id}");
        if let Some(claimed) = claimed {
            assert_eq!((&claimed.claim.task, &claimed.task.id), (id, id));
            fences.push(claimed.claim.fence);
        }
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[tokio::test]
async fn a_task_that_a_call_names_twice_is_claimed_twice() {
    let file = file();
    let store = file.open().await;
    for name in ["a", "b", "c", "d"] {
        submit(&store, name).await;
    }
    let lease = join(&store, "n").await;
    let ids = ["a", "b", "a", "c", "d"].map(id).to_vec();
    let claimed = store.claim(&lease, ids).await.into_iter();
    let claimed: Vec<_> = claimed.map(|claimed| claimed.unwrap().unwrap()).collect();
    let claims: Vec<_> = claimed.iter().map(|claimed| claimed.state.claims).collect();
    assert_eq!(claims, [1, 1, 2, 1, 1]);
    let fenced = commit(&store, &claimed[0], Message::complete()).await;
    assert!(matches!(fenced, Err(Error::Fenced(_))), "{fenced:?}");
    for claimed in &claimed[1..] {
        commit(&store, claimed, Message::complete()).await.unwrap();
    }
}
