//! Tasks whose node is lost.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use windlass::{
    BoxError, Message, NewTask, Retry, StateKind, TaskContext,
    store::{Error, NodeStatus},
};

use super::support::{World, secs};

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_counts_as_an_attempt_and_another_node_goes_on_at_once() {
    let world = World::new().await;
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    // A node that claims, and then never renews its lease.
    let mut spec = windlass::store::NodeSpec::new("dead".parse().unwrap());
    spec.slots = 1;
    let coordinator = world.store.coordinator();
    let lease = coordinator.join(&spec, secs(15)).await.unwrap();
    let claims = coordinator.claim(&lease, vec![id.clone()]).await;
    let first = claims[0].as_ref().unwrap().as_ref().unwrap().claim.fence;
    let _node = world
        .node("n")
        .handler("k", |task: TaskContext| async move {
            let seen = (
                task.attempt(),
                task.fence(),
                task.last_error().map(|e| e.error.clone()),
            );
            Ok::<_, BoxError>(Message::complete_with(&seen))
        })
        .start()
        .await
        .unwrap();
    let before = world.now();
    let done = world.client.wait(&id).await.unwrap();
    let took = world.now().duration_since(before).as_secs();
    assert!(
        (13..=17).contains(&took),
        "within the lease and two seconds, not {took} s"
    );
    let (attempt, fence, error): (u32, u64, Option<String>) = done.result().unwrap();
    assert_eq!(attempt, 2);
    assert!(fence > first.0);
    assert!(
        error.unwrap().contains("abandoned: node dead"),
        "the log says who lost it"
    );
    let gone = coordinator.renew(&lease, &NodeStatus::default()).await;
    assert!(matches!(gone, Err(Error::Fenced(_))), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_its_node_along_each_time_fails_in_the_end() {
    let world = World::new().await;
    let task = NewTask::new("k").retry(Retry::exponential(3, secs(1)));
    let id = world.client.submit(task).await.unwrap().into_id();
    let coordinator = world.store.coordinator();
    for n in 0..3 {
        let mut spec = windlass::store::NodeSpec::new(format!("dead-{n}").parse().unwrap());
        spec.slots = 1;
        let lease = coordinator.join(&spec, secs(5)).await.unwrap();
        assert!(
            coordinator.claim(&lease, vec![id.clone()]).await[0]
                .as_ref()
                .unwrap()
                .is_some()
        );
        tokio::time::sleep(secs(7)).await;
    }
    let ran = Arc::new(AtomicU32::new(0));
    let counted = ran.clone();
    let _node = world
        .node("n")
        .handler("k", move |_: TaskContext| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Message::complete() }
        })
        .start()
        .await
        .unwrap();
    let done = world.client.wait(&id).await.unwrap();
    assert_eq!(done.code(), StateKind::Failed);
    assert_eq!(
        ran.load(Ordering::SeqCst),
        0,
        "it is not started a fourth time"
    );
}
