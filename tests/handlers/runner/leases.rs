//! Leases: joined late, renewed late, lost, and waited for.

use std::{pin::pin, time::Duration};

use futures::StreamExt;
use tokio::time::Instant;
use windlass::{
    Message, NewTask, StateKind, Stop, StopReason, TaskContext,
    runner::StartError,
    store::Error,
    testing::{Fault, Operation},
};

use super::support::{RunEnds, World, secs};

#[tokio::test(start_paused = true)]
async fn handlers_are_stopped_before_the_lease_can_have_ended() {
    let world = World::new().await;
    let ends = RunEnds::default();
    let guards = ends.clone();
    let ttl = secs(15);
    let node = world
        .node("n")
        .lease_ttl(ttl)
        .handler("k", move |task| guards.clone().hold(task))
        .start()
        .await
        .unwrap();
    let id = world.running("k").await;
    let renewals = world.faults.calls(Operation::Renew);
    world
        .until("a renewal", || async {
            world.faults.calls(Operation::Renew) > renewals
        })
        .await;
    // From the last renewal that succeeded on, the store answers none.
    let renewed = Instant::now();
    world.faults.fail(Operation::Renew, Fault::Before, 100_000);
    world
        .until("the handler is gone", || async { !ends.all().is_empty() })
        .await;
    let after = ends.all()[0].at - renewed;
    assert!(
        after.as_millis() < 12_100,
        "with a margin before {ttl:?}: {after:?}"
    );
    // The store is well again: the node comes back on its own and continues with the task.
    world.faults.heal();
    world
        .until("it runs again", || async {
            world.client.get(&id).await.unwrap().state.unwrap().claims == 2
        })
        .await;
    assert!(!node.is_stopped());
    let ends = ends.all();
    assert_eq!(ends.len(), 1, "the second run goes on: {ends:?}");
    assert_eq!(ends[0].stop, Some(Stop::Node(StopReason::LeaseLost)));
}

/// Regression: the last try of a renewal came up to a sixth of the lease before its end.
#[tokio::test(start_paused = true)]
async fn an_outage_that_ends_shortly_before_the_lease_costs_nothing() {
    // The pauses between the tries are random.
    for round in 0..20 {
        let world = World::new().await;
        let ends = RunEnds::default();
        let guards = ends.clone();
        let node = world.node("n").lease_ttl(secs(15));
        let node = node.handler("k", move |task| guards.clone().hold(task));
        let node = node.start().await.unwrap();
        let id = world.running("k").await;
        let mut deadlines = pin!(node.lease_deadlines());
        deadlines.next().await;
        let deadline = Instant::from_std(deadlines.next().await.unwrap());
        world.faults.fail(Operation::Renew, Fault::Before, 100_000);
        tokio::time::sleep_until(deadline - Duration::from_millis(100)).await;
        world.faults.heal();
        tokio::time::sleep(secs(30)).await;
        assert!(ends.all().is_empty(), "round {round}: its handler ended");
        let state = world.client.get(&id).await.unwrap().state.unwrap();
        assert_eq!((state.claims, state.attempts), (1, 0), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_store_wait_waits_for_an_absent_store() {
    let world = World::new().await;
    let handler = |_: TaskContext| async { Message::complete() };
    let node = |name: &str| world.node(name).lease_ttl(secs(15)).handler("k", handler);
    // It fails at once without `wait_for_store`.
    world.faults.fail(Operation::Join, Fault::Before, 1);
    let refused = node("n").start().await.unwrap_err();
    assert!(matches!(
        refused,
        StartError::Store(Error::Unavailable { .. })
    ));
    world.faults.fail(Operation::Join, Fault::Before, 100);
    let refused = node("n").wait_for_store(secs(5)).start().await;
    assert!(matches!(refused, Err(StartError::Store(_))));
    world.faults.heal();

    // The answer to a successful join is lost: the node already has the name.
    world.faults.fail(Operation::Join, Fault::After, 1);
    let patient = node("n").wait_for_store(secs(60)).wait_for_name(secs(20));
    let running = patient.start().await.unwrap();
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Completed).await;
    running.shutdown().await;
}

/// The answer to a join took so long that the lease would count as lost when it begins.
#[tokio::test(start_paused = true)]
async fn a_join_that_was_answered_late_is_renewed_before_it_is_used() {
    let world = World::new().await;
    let late = Fault::Late(secs(13));
    world.faults.fail(Operation::Join, late, 1);
    let node = world.node("n").lease_ttl(secs(15));
    let node = node.handler("k", |_: TaskContext| async { Message::complete() });
    let node = node.start().await.unwrap();
    let began = world.now();
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Completed).await;
    assert!(world.now().duration_since(began).as_secs() < 1);
    assert_eq!(world.faults.calls(Operation::Join), 1);
    node.shutdown().await;

    // Longer than the lease: that one is over, and the next is taken.
    world.faults.fail(Operation::Join, Fault::Late(secs(20)), 1);
    let node = world.node("m").lease_ttl(secs(15)).wait_for_store(secs(60));
    let node = node.handler("k", |_: TaskContext| async { Message::complete() });
    let node = node.start().await.unwrap();
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world.rest(&id, StateKind::Completed).await;
    assert_eq!(world.faults.calls(Operation::Join), 3);
    node.shutdown().await;
}

/// Regression: the engine had stopped the handlers while the lease was still renewed, so no node
/// could claim the tasks.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_seen_after_its_time_counts_as_lost_for_all() {
    let world = World::new().await;
    let obeys = |task: TaskContext| async move { task.stop_requested().await.message() };
    let node = world.node("n").lease_ttl(secs(15)).handler("k", obeys);
    let node = node.start().await.unwrap();
    let id = world.running("k").await;
    let before = node.snapshot().await.unwrap().lease.unwrap();
    let renewals = world.faults.calls(Operation::Renew);
    // It is under way when the process stands still for longer than what is left of the lease.
    world.faults.fail(Operation::Renew, Fault::Late(secs(6)), 1);
    world
        .until("it is being renewed", || async {
            world.faults.calls(Operation::Renew) > renewals
        })
        .await;
    tokio::time::advance(secs(9)).await;
    let stood_still = Instant::now();
    world
        .until("it has a new lease and the task", || async {
            let lease = node.snapshot().await.and_then(|now| now.lease);
            let state = world.client.get(&id).await.unwrap().state.unwrap();
            lease.is_some_and(|lease| lease != before) && state.claims == 2
        })
        .await;
    assert!(stood_still.elapsed() < secs(30));
}

/// Regression: the store had carried out a renewal whose answer came too late. So the lost lease was as long as a new
/// one, and the node waited for its end.
#[tokio::test(start_paused = true)]
async fn a_node_ends_the_lease_that_it_has_lost_and_joins_again_at_once() {
    let world = World::new().await;
    let ends = RunEnds::default();
    let guards = ends.clone();
    let node = world
        .node("n")
        .lease_ttl(secs(15))
        .handler("k", move |task| guards.clone().hold(task));
    let _node = node.start().await.unwrap();
    let id = world.running("k").await;
    let renewals = world.faults.calls(Operation::Renew);
    world
        .faults
        .fail(Operation::Renew, Fault::Late(secs(60)), 1);
    world
        .until("a renewal is under way", || async {
            world.faults.calls(Operation::Renew) > renewals
        })
        .await;
    // Its lease lives for 15 s from now, and counts as lost after about 7.
    let renewed = Instant::now();
    world
        .until("it runs again", || async {
            world.client.get(&id).await.unwrap().state.unwrap().claims == 2
        })
        .await;
    let after = renewed.elapsed();
    assert!(secs(5) < after && after < secs(9), "{after:?}");
    assert_eq!(world.faults.calls(Operation::Abandon), 1);
    assert_eq!(ends.all()[0].stop, Some(Stop::Node(StopReason::LeaseLost)));
    let state = world.client.get(&id).await.unwrap().state.unwrap();
    assert_eq!(state.attempts, 1, "the claim counts as lost");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_loses_its_lease_stops_its_handlers_and_comes_back() {
    let world = World::new().await;
    let ends = RunEnds::default();
    let guards = ends.clone();
    let node = world
        .node("n")
        .handler("ignores", move |task: TaskContext| {
            let guards = guards.clone();
            async move {
                assert!(task.lease_left() > Duration::ZERO);
                if guards.all().is_empty() {
                    guards.hold(task).await
                } else {
                    Message::complete()
                }
            }
        })
        .start()
        .await
        .unwrap();
    let id = world.running("ignores").await;
    // Another program ends the lease.
    let before = node.snapshot().await.unwrap().lease.unwrap();
    let lease = windlass::store::Lease::new(before, node.node().clone(), secs(15));
    world.store.coordinator().leave(&lease).await.unwrap();
    world
        .until("it has a new lease", || async {
            let now = node.snapshot().await.unwrap().lease;
            now.is_some_and(|lease| lease != before)
        })
        .await;
    let done = tokio::time::timeout(secs(60), world.client.wait(&id)).await;
    let done = done.expect("the first run goes on").unwrap();
    assert_eq!(done.state.claims, 2);
    let ends = ends.all();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0].stop, Some(Stop::Node(StopReason::LeaseLost)));
}
