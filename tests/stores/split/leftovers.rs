//! A leftover in the state store is never used as the state of a later task.

use windlass::{Message, store::IfExists};

use super::support::*;

#[tokio::test]
async fn a_state_of_an_earlier_task_is_not_read() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.leave_behind("a").await;
    kit.submit("a").await;
    assert_eq!(kit.state("a").await.data, None);
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(
        (claimed.state.data.clone(), claimed.state.code()),
        (None, windlass::StateKind::Runnable)
    );
    assert_eq!(kit.stored("a").await.unwrap().fence, claimed.claim.fence);
    let checkpoint = Message::checkpoint().with_data(&1);
    kit.commit(&mut claimed, checkpoint, None).await.unwrap();
    assert_eq!(kit.state("a").await.data.unwrap().as_str(), "1");
}

/// The first claims are lost one after the other before they can remove it.
#[tokio::test]
async fn a_crashed_first_claim_does_not_make_it_ours() {
    let kit = Kit::new().await;
    kit.leave_behind("a").await;
    kit.submit("a").await;
    for n in 0..3 {
        let node = kit.node(&format!("n{n}")).await;
        let claimed = kit.inner.coordinator().claim(&node, vec![id("a")]).await;
        assert!(claimed[0].as_ref().unwrap().is_some());
        assert_eq!(kit.state("a").await.data, None);
        kit.store.coordinator().leave(&node).await.unwrap();
    }
    let node = kit.node("last").await;
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!(claimed.state.data, None);
    assert_eq!(claimed.state.code(), windlass::StateKind::Runnable);
}

/// A late write of a replaced task's owner is refused as soon as the new task is claimed.
#[tokio::test]
async fn a_late_write_of_a_replaced_task_is_refused() {
    let kit = Kit::new().await;
    let (old, new) = (kit.node("old").await, kit.node("new").await);
    kit.submit("a").await;
    let mut stale = kit.claim(&old, "a").await.unwrap().unwrap();
    stale.state.incarnation = 3;
    kit.force_delete("a").await;
    kit.submit("a").await;
    let mut owner = kit.claim(&new, "a").await.unwrap().unwrap();
    let late = Message::complete_with("late");
    kit.commit(&mut stale, late, None).await.unwrap_err();
    assert_eq!(kit.stored("a").await.unwrap(), owner.state);
    kit.commit(&mut owner, Message::complete(), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_goes_takes_its_state_along() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    for name in ["deleted", "purged", "pruned", "kept"] {
        kit.submit(name).await;
        let mut claimed = kit.claim(&node, name).await.unwrap().unwrap();
        let message = match name {
            "purged" => Message::kill(),
            "kept" => Message::pause(),
            _ => Message::complete(),
        };
        let message = message.with_data(&1);
        kit.commit(&mut claimed, message, None).await.unwrap();
    }
    let registry = kit.store.registry();
    registry
        .delete(vec![id("deleted")])
        .await
        .remove(0)
        .unwrap();
    let soon = kit.store.clock().now() + jiff::SignedDuration::from_secs(1);
    let purged = registry
        .purge(&windlass::store::Purge::new(
            [windlass::StateKind::Killed],
            soon,
        ))
        .await;
    assert_eq!(purged.unwrap(), 1);
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let millisecond = std::time::Duration::from_millis(1);
    let pruned = kit.store.coordinator().maintain(Some(millisecond)).await;
    assert_eq!(pruned.unwrap(), 1);
    for name in ["deleted", "purged", "pruned"] {
        assert_eq!(kit.stored(name).await, None, "{name}");
    }
    assert!(kit.stored("kept").await.is_some());
}

/// The state of a replaced task is not returned, although only the first claim removes it.
#[tokio::test]
async fn a_replacement_does_not_show_the_old_data() {
    let kit = Kit::new().await;
    let node = kit.node("n").await;
    kit.submit("a").await;
    let mut claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    let message = Message::complete_with("old").with_data(&1);
    kit.commit(&mut claimed, message, None).await.unwrap();
    let task = claimed.task.as_ref().clone();
    let if_exists = IfExists::ReplaceFinished;
    let submit = windlass::store::Submit { task, if_exists };
    kit.store
        .registry()
        .submit(vec![submit])
        .await
        .remove(0)
        .unwrap();
    assert_eq!(kit.state("a").await.data, None);
    let claimed = kit.claim(&node, "a").await.unwrap().unwrap();
    assert_eq!((claimed.state.data, claimed.state.claims), (None, 1));
}
