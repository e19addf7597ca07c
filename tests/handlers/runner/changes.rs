//! Nodes whose slots, kinds and labels change while they run.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use windlass::{
    Command, KindConfig, Message, NewTask, StateKind, Stop, StopReason, TaskContext, TaskId,
    runner::ChangeError,
    store::NodeRecord,
    testing::{Fault, Operation},
};

use super::support::{RunEnds, World, secs};

async fn obeys(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

async fn completes(_: TaskContext) -> Message {
    Message::complete()
}

impl World {
    async fn submitted(&self, task: NewTask) -> TaskId {
        self.client.submit(task).await.unwrap().into_id()
    }

    async fn record(&self, node: &str) -> NodeRecord {
        let nodes = self.client.nodes().await.unwrap();
        let mut nodes = nodes.into_iter();
        nodes.find(|n| n.spec.name.as_str() == node).unwrap()
    }

    /// Waits until the record of the node is so, for less than a second.
    async fn reports(&self, node: &str, is: impl Fn(&NodeRecord) -> bool) {
        let before = self.now();
        self.until("the record follows", async || is(&self.record(node).await))
            .await;
        let took = self.now().duration_since(before).as_millis();
        assert!(took < 1000, "{took} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_slots_is_not_claimed_and_what_runs_of_it_goes_on() {
    let world = World::new().await;
    let node = world.node("n").handler("k", obeys).handler("l", completes);
    let node = node.start().await.unwrap();
    let runs = world.running("k").await;
    node.set_capacity("k", 0).await.unwrap();
    let zero = |n: &NodeRecord| n.spec.slots_of.get("k") == Some(&0);
    world.reports("n", zero).await;
    let waits = world.submitted(NewTask::new("k")).await;
    let other = world.submitted(NewTask::new("l")).await;
    world.client.wait(&other).await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&waits).await.unwrap().node.is_none());
    assert!(world.client.get(&runs).await.unwrap().node.is_some());
    let killed = world.command(&waits, Command::Kill).await;
    assert_eq!(world.code(&waits).await, StateKind::Killed, "{killed:?}");

    let next = world.submitted(NewTask::new("k")).await;
    node.set_capacity("k", 2).await.unwrap();
    world.claimed(&next).await;
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn fewer_slots_stop_no_handler_and_more_are_used_at_once() {
    let world = World::new().await;
    let node = world.node("n").slots(2).handler("k", obeys);
    let node = node.start().await.unwrap();
    let (a, b) = (world.running("k").await, world.running("k").await);
    node.set_slots(1).await.unwrap();
    world.reports("n", |n| n.spec.slots == 1).await;
    let third = world.submitted(NewTask::new("k")).await;
    world.command(&a, Command::Kill).await;
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&third).await.unwrap().node.is_none());
    assert!(world.client.get(&b).await.unwrap().node.is_some());
    node.set_slots(2).await.unwrap();
    world.claimed(&third).await;
    node.shutdown().await;
}

/// The others do not leave a task to a node that has no slots for its kind.
#[tokio::test(start_paused = true)]
async fn other_nodes_do_not_wait_for_a_node_without_slots_for_the_kind() {
    let world = World::new().await;
    let first = world.node("first").handler("k", completes);
    let first = first.start().await.unwrap();
    let second = world.node("second").handler("k", completes);
    let second = second.start().await.unwrap();
    first.set_capacity("k", 0).await.unwrap();
    // The nodes check each other every few seconds.
    tokio::time::sleep(secs(5)).await;
    for _ in 0..20 {
        let before = world.now();
        let id = world.submitted(NewTask::new("k")).await;
        world.client.wait(&id).await.unwrap();
        let took = world.now().duration_since(before).as_millis();
        assert!(took < 50, "left to the other node for {took} ms");
    }
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_added_kind_runs_the_tasks_that_waited_for_it() {
    let world = World::new().await;
    let node = world.node("n").handler("k", obeys).start().await.unwrap();
    let stays = world.running("k").await;
    let waits = world.submitted(NewTask::new("new")).await;
    world.listed(&node).await;
    let config = KindConfig::default().slots(3);
    node.add_handler("new", config.clone(), completes)
        .await
        .unwrap();
    world
        .reports("n", |n| {
            let kind = "new".parse().unwrap();
            n.spec.runs(&kind) && n.spec.slots_of.get(&kind) == Some(&3)
        })
        .await;
    world.client.wait(&waits).await.unwrap();
    let record = world.client.get(&stays).await.unwrap();
    assert_eq!(record.state.unwrap().claims, 1, "the other kind goes on");
    let twice = node.add_handler("new", config, completes).await;
    assert!(matches!(twice, Err(ChangeError::Invalid(_))), "{twice:?}");
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_kind_is_handed_over_within_its_grace() {
    let world = World::new().await;
    let ends = RunEnds::default();
    let of_k = ends.clone();
    let config = KindConfig::default().stop_grace(secs(20));
    let node = world
        .node("n")
        .handler_with("k", config, move |task| of_k.clone().hold(task))
        .handler("l", obeys)
        .start()
        .await
        .unwrap();
    let (k, l) = (world.running("k").await, world.running("l").await);
    let before = world.now();
    node.remove_kind("k").await.unwrap();
    let took = world.now().duration_since(before).as_secs();
    assert!((19..=21).contains(&took), "{took} s");
    let end = &ends.all()[0];
    assert!(
        matches!(end.stop, Some(Stop::Node(StopReason::Drain))),
        "{:?}",
        end.stop
    );
    world.rest(&k, StateKind::Runnable).await;
    let unknown = "k".parse().unwrap();
    world.reports("n", |n| !n.spec.runs(&unknown)).await;
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&k).await.unwrap().node.is_none());
    let record = world.client.get(&l).await.unwrap();
    assert_eq!(record.state.unwrap().claims, 1, "the other kind goes on");

    let second = world.node("second").handler("k", completes);
    let second = second.start().await.unwrap();
    let done = world.client.wait(&k).await.unwrap();
    assert_eq!(done.state.attempts, 0, "no attempt is lost");
    second.shutdown().await;
    node.shutdown().await;
}

/// A list with the present kinds does not name the task, although the node still has it.
#[tokio::test(start_paused = true)]
async fn a_task_of_a_removed_kind_keeps_its_claim_until_it_is_released() {
    let world = World::new().await;
    let checkpoints = Arc::new(AtomicU32::new(0));
    let counted = checkpoints.clone();
    let node = world.node("n").handler("k", move |task: TaskContext| {
        let counted = counted.clone();
        async move {
            task.stop_requested().await;
            for n in 0..5 {
                tokio::time::sleep(secs(1)).await;
                task.checkpoint(&n).await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
            }
            Message::complete()
        }
    });
    let node = node.start().await.unwrap();
    let id = world.running("k").await;
    node.remove_kind("k").await.unwrap();
    assert_eq!(checkpoints.load(Ordering::SeqCst), 5);
    assert_eq!(world.code(&id).await, StateKind::Completed);
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn labels_that_change_choose_other_tasks() {
    let world = World::new().await;
    let node = world.node("n").select("team", "a").handler("k", obeys);
    let node = node.start().await.unwrap();
    let of_a = NewTask::new("k").label("team", "a");
    let of_b = NewTask::new("k").label("team", "b");
    let runs = world.submitted(of_a.clone()).await;
    world.claimed(&runs).await;
    let b = world.submitted(of_b).await;
    node.set_labels([("team".to_owned(), "b".to_owned())].into())
        .await
        .unwrap();
    world
        .reports("n", |n| n.spec.labels.get("team").is_some_and(|t| t == "b"))
        .await;
    world.claimed(&b).await;
    let late = world.submitted(of_a).await;
    tokio::time::sleep(secs(60)).await;
    assert!(world.client.get(&late).await.unwrap().node.is_none());
    assert!(world.client.get(&runs).await.unwrap().node.is_some());
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_reported_when_the_store_answers_again_and_after_a_lost_lease() {
    let world = World::new().await;
    let node = world.node("n").handler("k", completes);
    let node = node.start().await.unwrap();
    world.faults.fail(Operation::Describe, Fault::Before, 2);
    node.set_slots(7).await.unwrap();
    world
        .until("it is reported", async || {
            world.record("n").await.spec.slots == 7
        })
        .await;
    let lease = world.record("n").await.lease;
    world.faults.lose_lease(lease);
    world
        .until("it joins again", async || {
            let nodes = world.client.nodes().await.unwrap();
            nodes.iter().any(|n| n.lease != lease && n.spec.slots == 7)
        })
        .await;
    node.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn changes_that_make_no_sense_are_refused_with_the_reason() {
    let world = World::new().await;
    let node = world.node("n").handler("k", obeys).start().await.unwrap();
    let before = world.record("n").await.spec;
    let reason = |refused: Result<(), ChangeError>| refused.unwrap_err().to_string();
    for (refused, says) in [
        (node.set_slots(1_000_001).await, "from 0 to 1000000"),
        (node.set_capacity("k", u32::MAX).await, "from 0 to 1000000"),
        (node.set_capacity("x", 1).await, "no handler for 'x'"),
        (node.set_capacity("schedule", 1).await, "by default"),
        (node.remove_kind("x").await, "no handler of its own"),
        (node.remove_kind("schedule").await, "by default"),
    ] {
        let reason = reason(refused);
        assert!(reason.contains(says), "{reason}");
    }
    assert_eq!(world.record("n").await.spec, before);
    node.remove_kind("k").await.unwrap();
    world
        .reports("n", |n| !n.spec.runs(&"k".parse().unwrap()))
        .await;
    node.shutdown().await;
}
