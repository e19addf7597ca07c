//! A claim that is lost while it is being made does not harm the next owner.

use std::sync::Arc;

use windlass::{
    Message, StateKind, TaskStatus,
    store::{Claimed, Error, Lease},
};

use super::support::*;

/// Claims `name` for `first`, holds that claim at `call`, and lets `second` run the task to its end
/// in the meantime. Returns what `first` gets in the end.
async fn overtaken(
    kit: &Arc<Kit>,
    call: Call,
    (first, second): (&Lease, &Lease),
) -> Result<Option<Claimed>, Error> {
    let (reached, release) = kit.states.hold(call);
    let slow = tokio::spawn({
        let (kit, first) = (kit.clone(), first.clone());
        async move { kit.claim(&first, "a").await }
    });
    reached.await.unwrap();
    kit.store.coordinator().leave(first).await.unwrap();
    let mut claimed = kit.claim(second, "a").await.unwrap().unwrap();
    let checkpoint = Message::checkpoint().with_data(&"kept");
    kit.commit(&mut claimed, checkpoint, None).await.unwrap();
    let complete = Message::complete_with("done");
    kit.commit(&mut claimed, complete, None).await.unwrap();
    release.send(()).unwrap();
    slow.await.unwrap()
}

/// The state of the second owner is whole.
async fn assert_kept(kit: &Kit) {
    let state = kit.state("a").await;
    let result = Some(windlass::Json::new("result", "done").unwrap());
    assert_eq!(state.status, TaskStatus::Completed { result });
    assert_eq!(state.data.unwrap().as_str(), r#""kept""#);
    assert_eq!(kit.stored("a").await.unwrap().code(), StateKind::Completed);
}

#[tokio::test]
async fn a_lost_first_claim_leaves_the_next_owners_state() {
    for call in [Call::Load, Call::Write] {
        let kit = Arc::new(Kit::new().await);
        let nodes = (&kit.node("first").await, &kit.node("second").await);
        kit.submit("a").await;
        let lost = overtaken(&kit, call, nodes).await;
        assert!(matches!(lost, Err(Error::Fenced(_))), "{call:?}: {lost:?}");
        assert_kept(&kit).await;
    }
}

/// A first claim removes the state that an earlier task left under a greater fence, but not the
/// state that the next owner has stored since.
#[tokio::test]
async fn a_lost_first_claim_removes_only_what_it_has_seen() {
    for call in [Call::Load, Call::Write] {
        let kit = Arc::new(Kit::new().await);
        let nodes = (&kit.node("first").await, &kit.node("second").await);
        kit.leave_behind("a").await;
        kit.submit("a").await;
        let lost = overtaken(&kit, call, nodes).await;
        assert!(matches!(lost, Err(Error::Fenced(_))), "{call:?}: {lost:?}");
        assert_kept(&kit).await;
    }
}

/// A task is deleted and submitted again while the delete removes the state.
#[tokio::test]
async fn a_late_delete_leaves_the_next_tasks_state() {
    let kit = Arc::new(Kit::new().await);
    let node = kit.node("n").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    kit.commit(&mut claimed, Message::kill(), None)
        .await
        .unwrap();
    let (reached, release) = kit.states.hold(Call::Write);
    let slow = tokio::spawn({
        let kit = kit.clone();
        async move { kit.store.registry().delete(vec![id("a")]).await.remove(0) }
    });
    reached.await.unwrap();
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    let checkpoint = Message::checkpoint().with_data(&"kept");
    kit.commit(&mut claimed, checkpoint, None).await.unwrap();
    release.send(()).unwrap();
    slow.await.unwrap().unwrap();
    let data = kit.stored("a").await.unwrap().data.unwrap();
    assert_eq!(data.as_str(), r#""kept""#);
}

/// A write after the delete of its task stores a state again, which no task reads.
#[tokio::test]
async fn a_write_after_the_delete_is_not_read_by_the_next_task() {
    let kit = Kit::new().await;
    let (old, new) = (kit.node("old").await, kit.node("new").await);
    kit.submit("a").await;
    let mut stale = kit.claim(&old, "a").await.unwrap().unwrap();
    kit.force_delete("a").await;
    let late = Message::complete_with("late");
    let refused = kit.commit(&mut stale, late, None).await;
    assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
    assert!(kit.stored("a").await.is_some());
    kit.submit("a").await;
    assert_eq!(kit.state("a").await.code(), StateKind::Runnable);
    let claimed = kit.claim(&new, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.code(), StateKind::Runnable);
    assert_eq!(kit.stored("a").await.unwrap(), claimed.state);
}
