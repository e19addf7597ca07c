//! Nodes that stop, freeze, drain, die, lose their lease, and share the work.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use windlass::{
    BoxError, KindConfig, Message, NewTask, Retry, StateKind, Stop, StopReason, TaskContext,
    store::{ChangeKind, Error, NodeCommand, NodeStatus},
    testing::Operation,
};

use crate::support::{RunEnds, World, secs};

async fn obeys(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_everything_back_and_costs_no_attempt() {
    let world = World::new().await;
    let first = world
        .node("first")
        .handler("k", obeys)
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(world.client.submit(NewTask::new("k")).await.unwrap());
    }
    world
        .until("all run", || async {
            first.snapshot().await.unwrap().tasks.len() == 50
        })
        .await;
    let second = world
        .node("second")
        .handler("k", |task: TaskContext| async move {
            Ok::<_, BoxError>(Message::complete_with(&task.attempt()))
        })
        .start()
        .await
        .unwrap();
    let before = world.now();
    first.shutdown().await;
    for id in &ids {
        let done = world.client.wait(id).await.unwrap();
        assert_eq!(done.result::<u32>().unwrap(), 1, "no attempt is lost");
        assert_eq!(done.state.claims, 2);
        let changes = world.client.history(id, 100).await.unwrap();
        let claimed = changes
            .iter()
            .rfind(|c| matches!(c.what, ChangeKind::Claimed { .. }));
        let after = claimed.unwrap().at.duration_since(before);
        assert!(after.as_millis() <= 1000, "claimed again after {after}");
    }
    second.shutdown().await;
    assert!(
        world.client.nodes().await.unwrap().is_empty(),
        "both have left"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_grace_and_an_abort_does_not() {
    let world = World::new().await;
    let ignores = |_: TaskContext| async { std::future::pending::<Message>().await };
    let grace = KindConfig::default().stop_grace(secs(20));
    for (abort, at_least, at_most) in [(false, 19, 22), (true, 0, 2)] {
        let node = world
            .node("n")
            .handler_with("k", grace.clone(), ignores)
            .start()
            .await
            .unwrap();
        let id = world.running("k").await;
        let before = world.now();
        if abort {
            node.abort().await;
        } else {
            node.shutdown().await;
        }
        let took = world.now().duration_since(before).as_secs();
        assert!(
            (at_least..=at_most).contains(&took),
            "abort {abort}: {took} s"
        );
        let record = world.client.get(&id).await.unwrap();
        assert_eq!(
            (record.node, record.state.unwrap().code()),
            (None, StateKind::Runnable)
        );
        world.client.delete(&id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_node_claims_nothing_and_goes_on_with_what_it_has() {
    let world = World::new().await;
    let node = world.node("n").handler("k", obeys).start().await.unwrap();
    let has = world.running("k").await;
    let name = node.node().clone();
    let order = world
        .client
        .command_node(&name, NodeCommand::Freeze)
        .await
        .unwrap();
    world
        .until("it answers", || async {
            world.client.node_outcome(order).await.unwrap().as_deref() == Some("frozen")
        })
        .await;
    let waits = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&waits).await.unwrap().node.is_none());
    assert!(world.client.get(&has).await.unwrap().node.is_some());
    assert!(world.client.nodes().await.unwrap()[0].status.frozen);
    node.unfreeze();
    world.claimed(&waits).await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_is_empty_and_stays() {
    let world = World::new().await;
    let node = world.node("n").handler("k", obeys).start().await.unwrap();
    let id = world.running("k").await;
    let order = world
        .client
        .command_node(node.node(), NodeCommand::Drain)
        .await
        .unwrap();
    world
        .until("it answers", || async {
            world.client.node_outcome(order).await.unwrap().as_deref() == Some("drained")
        })
        .await;
    assert!(world.client.get(&id).await.unwrap().node.is_none());
    assert!(node.snapshot().await.unwrap().tasks.is_empty());
    assert_eq!(world.client.nodes().await.unwrap().len(), 1);
    node.unfreeze();
    world.claimed(&id).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_task_goes_to_another_node() {
    let world = World::new().await;
    let first = world
        .node("first")
        .handler("k", obeys)
        .start()
        .await
        .unwrap();
    let id = world.running("k").await;
    let _second = world
        .node("second")
        .handler("k", obeys)
        .start()
        .await
        .unwrap();
    let stop = NodeCommand::StopTask { task: id.clone() };
    let order = world
        .client
        .command_node(first.node(), stop.clone())
        .await
        .unwrap();
    world
        .until("it moves", || async {
            let node = world.client.get(&id).await.unwrap().node;
            node.is_some_and(|n| n.as_str() == "second")
        })
        .await;
    assert_eq!(
        world.client.node_outcome(order).await.unwrap().as_deref(),
        Some("released")
    );
    let order = world.client.command_node(first.node(), stop).await.unwrap();
    world
        .until("it says that it has not", || async {
            let answer = world.client.node_outcome(order).await.unwrap();
            answer.as_deref() == Some("the task is not on this node")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_called_off_is_answered() {
    let world = World::new().await;
    let ignores = |_: TaskContext| async { std::future::pending::<Message>().await };
    let node = world.node("n").handler("ignores", ignores);
    let node = node.handler("obeys", obeys).start().await.unwrap();
    world.running("ignores").await;
    let sent = world.client.command_node(node.node(), NodeCommand::Drain);
    let order = sent.await.unwrap();
    let drains = node.drain();
    tokio::pin!(drains);
    let so_far = tokio::time::timeout(secs(1), &mut drains).await;
    assert!(so_far.is_err(), "the handler has its grace");
    node.unfreeze();
    world.running("obeys").await;
    let returned = tokio::time::timeout(secs(60), drains).await;
    returned.expect("it waits for an empty node");
    world
        .until("it answers", || async {
            let answer = world.client.node_outcome(order).await.unwrap();
            answer.as_deref() == Some("unfrozen before it was empty")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_counts_as_an_attempt_and_another_node_goes_on_at_once() {
    let world = World::new().await;
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    // A node that claims and is never heard of again.
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
    // Somebody ends the lease behind the node's back.
    let before = node.snapshot().await.unwrap().lease.unwrap();
    let lease = windlass::store::Lease {
        id: before,
        node: node.node().clone(),
        ttl: secs(15),
    };
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

#[tokio::test(start_paused = true)]
async fn three_nodes_share_the_work_and_no_task_runs_twice() {
    let world = World::new().await;
    let runs: Arc<Mutex<Vec<(&str, String)>>> = Arc::default();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let seen = runs.clone();
        let node = world
            .node(name)
            .slots(5)
            .handler("k", move |task: TaskContext| {
                seen.lock().unwrap().push((name, task.id().to_string()));
                async {
                    tokio::time::sleep(secs(1)).await;
                    Message::complete()
                }
            })
            .start()
            .await
            .unwrap();
        nodes.push(node);
    }
    let tasks = (0..300).map(|n| NewTask::new("k").id(format!("t{n:03}")).build().unwrap());
    for answer in world.client.submit_many(tasks).await {
        answer.unwrap();
    }
    world.client.wait_idle(&Default::default()).await.unwrap();
    let runs = runs.lock().unwrap();
    assert_eq!(runs.len(), 300);
    let ids: HashSet<&String> = runs.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 300);
    for name in ["a", "b", "c"] {
        let own = runs.iter().filter(|(node, _)| *node == name).count();
        assert!((50..=150).contains(&own), "{name} ran {own} of 300 tasks");
    }
}

/// A store prunes some at a time. A node that came again only after an hour fell behind for ever
/// where more ends in an hour than one step takes.
#[tokio::test(start_paused = true)]
async fn a_node_goes_on_pruning_until_there_is_nothing_more() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .retention(Some(secs(1200)))
        .handler("k", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    let pruned = world.faults.calls(Operation::Maintain);
    let id = world
        .client
        .submit(NewTask::new("k"))
        .await
        .unwrap()
        .into_id();
    world
        .until("it is pruned", || async {
            world.client.get(&id).await.is_err()
        })
        .await;
    let first = world.faults.calls(Operation::Maintain);
    assert!(first > pruned);
    tokio::time::sleep(secs(2)).await;
    assert_eq!(world.faults.calls(Operation::Maintain), first + 1);
    // There was nothing more: it comes again after a while.
    tokio::time::sleep(secs(30)).await;
    assert_eq!(world.faults.calls(Operation::Maintain), first + 1);
}
