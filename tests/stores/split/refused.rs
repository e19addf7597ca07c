//! The coordinator refuses a write that the state store has accepted.

use windlass::{
    Json, Message, StateKind, TaskStatus,
    store::Error,
    testing::{Fault, Operation},
};

use super::support::*;

/// Another write of the same version is not confused with the refused one.
#[tokio::test]
async fn what_follows_a_refused_write_is_stored() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    kit.faulty.fail(Operation::Commit, Fault::Refused, 1);
    let refused = Message::complete_with("refused");
    let refused = refused.with_data(&"refused");
    let refused = kit.commit(&mut claimed, refused, None).await;
    assert!(
        matches!(refused, Err(Error::TooLarge { .. })),
        "{refused:?}"
    );
    let taken = Message::complete_with("taken");
    let taken = taken.with_data(&"taken");
    kit.commit(&mut claimed, taken, None).await.unwrap();
    let state = kit.state("a").await;
    let result = Some(Json::new("result", "taken").unwrap());
    assert_eq!(state.status, TaskStatus::Completed { result });
    assert_eq!(state.data.unwrap().as_str(), r#""taken""#);
}

/// When the coordinator refuses the write that it has to catch up with after a crash, the task
/// fails with the reason, instead of being claimed and refused for ever. A retry continues from the
/// stored state.
#[tokio::test]
async fn a_catch_up_that_is_refused_fails_the_task() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    kit.faulty.fail(Operation::Commit, Fault::Before, 1);
    let checkpoint = Message::checkpoint().with_data(&"kept");
    kit.commit(&mut claimed, checkpoint, None)
        .await
        .unwrap_err();
    kit.store.coordinator().leave(&node).await.unwrap();
    let node = kit.node("m").await;
    kit.faulty.fail(Operation::Commit, Fault::Refused, 1);
    let refused = kit.claim(&node, "a").await;
    assert!(
        matches!(refused, Err(Error::TooLarge { .. })),
        "{refused:?}"
    );
    let state = kit.state("a").await;
    assert_eq!(state.code(), StateKind::Failed);
    assert!(state.errors.last().unwrap().error.contains("at most"));
    let inner = kit.inner.registry().get(&id("a")).await.unwrap();
    assert_eq!(inner.state.unwrap().data, None, "data stays in its store");
    let registry = kit.store.registry();
    registry.retry(vec![id("a")]).await.remove(0).unwrap();
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.data.unwrap().as_str(), r#""kept""#);
}
