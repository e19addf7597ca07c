//! Nodes that stop, freeze, drain, share the work and prune.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use windlass::{
    BoxError, KindConfig, Message, NewTask, StateKind, TaskContext,
    store::{ChangeKind, NodeCommand},
    testing::Operation,
};

use super::support::{World, secs};

async fn obeys(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_releases_every_task_and_costs_no_attempt() {
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
            Ok::<_, BoxError>(Message::complete_with(task.attempt()))
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
        world.client.force_delete(&id).await.unwrap();
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

/// A store prunes some at a time. Regression: a node that pruned one step an hour fell behind for
/// ever if more tasks end in an hour than one step deletes.
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

/// The node panicked: the time of the next gauges was beyond the end of time.
#[tokio::test(start_paused = true)]
async fn a_node_that_sets_no_gauges_runs_tasks() {
    let world = World::new().await;
    let _node = world
        .node("n")
        .gauges_every(std::time::Duration::MAX)
        .handler("work", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    let id = world.client.submit(NewTask::new("work")).await.unwrap();
    assert!(
        world
            .client
            .wait(&id.into_id())
            .await
            .unwrap()
            .is_completed()
    );
}
