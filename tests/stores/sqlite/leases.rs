//! Leases end by the monotonic clock of the machine.

use std::time::Duration;

use futures::StreamExt;
use windlass::{
    Message,
    store::{ChangeKind, Coordinator, Error, Event, NodeStatus, Registry, Shown, Standing},
};

use super::support::*;

/// Ends the time of every lease.
fn expire_leases(file: &File) {
    let ended = file
        .raw()
        .execute("UPDATE windlass_leases SET expires = 0", ());
    assert!(ended.unwrap() > 0);
}

#[tokio::test]
async fn a_zombie_is_fenced() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    submit(&a, "t").await;
    let zombie = join(&a, "a").await;
    let held = claim(&a, &zombie, "t").await;
    expire_leases(&file);

    let late = commit(&a, &held, Message::complete()).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
    let late = a.renew(&zombie, &NodeStatus::default()).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
    let late = try_claim(&a, &zombie, "t").await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");

    // Its name is free again, and the next claim of its task reports the loss.
    join(&a, "a").await;
    let other = join(&b, "b").await;
    let taken = claim(&b, &other, "t").await;
    assert!(taken.abandoned && taken.claim.fence > held.claim.fence);
    assert!(
        taken
            .state
            .errors
            .last()
            .unwrap()
            .error
            .contains("node a was lost")
    );
    let late = commit(&a, &held, Message::complete()).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
    commit(&b, &taken, Message::complete()).await.unwrap();
}

/// Regression: a task whose lease was lost looked as late as its run was long.
#[tokio::test]
async fn a_task_of_a_lost_lease_waits_since_the_loss() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    let lost = join(&store, "a").await;
    let held = claim(&store, &lost, "t").await;
    let began = held.state.ready().unwrap();
    tokio::time::sleep(Duration::from_millis(3)).await;
    expire_leases(&file);
    // The next write ends the lease.
    submit(&store, "other").await;
    let record = store.get(&id("t")).await.unwrap();
    let standing = Standing::of(&record, began);
    assert_eq!(standing.shown, Shown::Queued);
    assert!(standing.since > Some(began), "{standing:?}, since {began}");
    assert_eq!(record.state.unwrap().version, held.state.version);
}

#[tokio::test]
async fn another_node_learns_of_the_loss_without_a_write() {
    let file = file();
    let b = file.open().await;
    let other = join(&b, "b").await;
    let a = file.open().await;
    submit(&a, "t").await;
    // Long enough for the next lines on a busy machine. No process writes until it ends.
    let dead = join_for(&a, "a", Duration::from_secs(3)).await;
    let held = claim(&a, &dead, "t").await;
    let mut watch = b.watch(&other, None).await.unwrap();
    until(&mut watch, |e| matches!(e, Event::Listed)).await;
    let mut own = a.watch(&dead, None).await.unwrap();
    // The process of the dead node ended without a leave; only its stream is still open.
    until(
        &mut watch,
        |e| matches!(e, Event::Task(view) if view.claimed_by.is_none()),
    )
    .await;
    let history = b.history(&id("t"), 10).await.unwrap();
    let fence = held.claim.fence;
    assert_eq!(history.last().unwrap().what, ChangeKind::Lost { fence });
    let rest = async { while own.next().await.is_some() {} };
    let ended = tokio::time::timeout(Duration::from_secs(20), rest).await;
    assert!(
        ended.is_ok(),
        "the stream of a lease that has ended goes on"
    );
    let late = a.watch(&dead, None).await.err();
    assert!(matches!(late, Some(Error::Fenced(_))), "{late:?}");
}

#[tokio::test]
async fn after_a_restart_of_the_machine_all_leases_have_ended() {
    let file = file();
    let store = file.open().await;
    submit(&store, "t").await;
    let before = join(&store, "a").await;
    let held = claim(&store, &before, "t").await;
    file.raw()
        .execute("UPDATE windlass_leases SET boot = 'the one before'", ())
        .unwrap();
    assert!(store.nodes().await.unwrap().is_empty());
    let late = commit(&store, &held, Message::complete()).await;
    assert!(matches!(late, Err(Error::Fenced(_))), "{late:?}");
    let lease = join(&store, "a").await;
    assert!(claim(&store, &lease, "t").await.abandoned);
}

#[tokio::test]
async fn two_nodes_do_not_have_one_name() {
    let file = file();
    let (a, b) = (file.open().await, file.open().await);
    let lease = join(&a, "a").await;
    let taken = b.join(&node("a"), Duration::from_secs(60)).await;
    assert!(matches!(
        taken,
        Err(Error::AlreadyExists { what: "node", .. })
    ));
    a.leave(&lease).await.unwrap();
    join(&b, "a").await;
}

#[tokio::test]
async fn a_lease_may_last_for_ever() {
    let file = file();
    let store = file.open().await;
    let lease = join_for(&store, "a", Duration::MAX).await;
    store.renew(&lease, &NodeStatus::default()).await.unwrap();
    assert!(store.nodes().await.unwrap()[0].lease_left_ms > 1 << 60);
}
