//! Claims whose task differs from what the node knew.

use std::time::Duration;

use windlass::{
    Message, NewTask, Runner, TaskContext,
    store::{Lease, NodeCommand, NodeCommandId},
    testing::{Fault, Operation},
};

use super::support::{World, secs};

async fn completes(_: TaskContext) -> Message {
    Message::complete()
}

async fn listed(world: &World, node: &Runner) {
    world.listed(node).await;
}

/// Returns the answer of the node to a command.
async fn outcome_of(world: &World, order: NodeCommandId) -> String {
    let look = || async { world.client.node_outcome(order).await.unwrap() };
    world
        .until("it answers", || async { look().await.is_some() })
        .await;
    look().await.unwrap()
}

/// A task is deleted and submitted again as another kind while the node's watch is behind.
#[tokio::test(start_paused = true)]
async fn a_claim_of_a_task_that_the_node_does_not_run_is_released() {
    let labelled = NewTask::new("a").label("zone", "x");
    let other_kind = NewTask::new("b").label("zone", "x");
    for then in [other_kind, NewTask::new("a")] {
        let world = World::new().await;
        let one = world
            .node("one")
            .handler("a", completes)
            .select("zone", "x");
        let one = one.start().await.unwrap();
        listed(&world, &one).await;
        let soon = world.now() + Duration::from_millis(100);
        let first = labelled.clone().id("x").start_at(soon);
        let id = world.client.submit(first).await.unwrap().into_id();
        world
            .until("the node knows it", || async {
                one.snapshot().await.unwrap().parked == 1
            })
            .await;
        world.faults.break_watches();
        world.client.force_delete(&id).await.unwrap();
        world.client.submit(then.id("x")).await.unwrap();
        world
            .until("it was claimed", || async {
                world.faults.calls(Operation::Claim) == 1
            })
            .await;
        let two = world.node("two").handler("a", completes);
        let two = two.handler("b", completes).start().await.unwrap();
        let done = tokio::time::timeout(secs(60), world.client.wait(&id)).await;
        assert!(done.expect("it is stuck").unwrap().is_completed());
        let last = world.client.get(&id).await.unwrap().state.unwrap();
        assert_eq!(last.claims, 2, "one of them to release it");
        assert_eq!(world.faults.calls(Operation::Claim), 2);
        two.shutdown().await;
    }
}

/// Regression: the claim took the task that was submitted in place of the known one, and its answer was lost.
/// The watch reported the end of the known task, and not the claim, since it was the node's own.
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_of_a_task_that_took_the_id_of_another_is_made_again() {
    // The moment at which the node claims, by microseconds.
    for micros in (98_000..102_000).step_by(250) {
        let world = World::new().await;
        let node = world.node("n").handler("a", completes);
        let node = node.start().await.unwrap();
        listed(&world, &node).await;
        let began = tokio::time::Instant::now();
        let first = NewTask::new("a").id("x");
        let first = first.start_at(world.now() + Duration::from_millis(100));
        let id = world.client.submit(first).await.unwrap().into_id();
        world.faults.fail(Operation::Claim, Fault::After, 1);
        tokio::time::sleep_until(began + Duration::from_micros(micros)).await;
        let _ = world.client.force_delete(&id).await;
        let next = world.client.submit(NewTask::new("a").id("x")).await;
        let id = next.unwrap().into_id();
        let done = tokio::time::timeout(secs(60), world.client.wait(&id)).await;
        let done = done.unwrap_or_else(|_| panic!("it is stuck, after {micros} us"));
        assert!(done.unwrap().is_completed());
    }
}

/// Regression: a node that was frozen or drained while the answer to a claim was lost did not repeat the claim: the task stood
/// still until the node was unfrozen.
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_is_repeated_by_a_node_that_is_frozen_or_drains() {
    for command in [NodeCommand::Freeze, NodeCommand::Drain] {
        let world = World::new().await;
        let obeys = |task: TaskContext| async move { task.stop_requested().await.message() };
        let node = world.node("n").handler("k", obeys).start().await.unwrap();
        listed(&world, &node).await;
        world.faults.fail(Operation::Claim, Fault::After, 1);
        let id = world.running("k").await;
        let sent = world.client.command_node(node.node(), command.clone());
        let sent = sent.await.unwrap();
        if command == NodeCommand::Drain {
            assert_eq!(outcome_of(&world, sent).await, "drained");
            assert!(world.client.get(&id).await.unwrap().node.is_none());
        } else {
            assert_eq!(outcome_of(&world, sent).await, "frozen");
            world
                .until("it runs", || async {
                    node.snapshot().await.unwrap().tasks.len() == 1
                })
                .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_released_when_the_node_does_not_run_it() {
    let world = World::new().await;
    let one = world.node("one").handler("a", completes);
    let one = one.start().await.unwrap();
    listed(&world, &one).await;
    let lease = Lease::new(
        one.snapshot().await.unwrap().lease.unwrap(),
        one.node().clone(),
        secs(15),
    );
    let id = world
        .client
        .submit(NewTask::new("b"))
        .await
        .unwrap()
        .into_id();
    let coordinator = world.store.coordinator();
    let claimed = coordinator.claim(&lease, vec![id.clone()]).await;
    assert!(claimed[0].as_ref().unwrap().is_some());
    world.faults.break_watches();
    let two = world.node("two").handler("b", completes);
    let _two = two.start().await.unwrap();
    let done = tokio::time::timeout(secs(60), world.client.wait(&id)).await;
    assert!(done.expect("it is stuck").unwrap().is_completed());
}

/// The answer to the claim comes late: a node command stops a task before the node knows that it
/// has it.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_stopped_while_it_is_claimed_is_released() {
    let world = World::new().await;
    let obeys = |task: TaskContext| async move { task.stop_requested().await.message() };
    let node = world.node("n").handler("k", obeys).start().await.unwrap();
    listed(&world, &node).await;
    world.faults.fail(Operation::Claim, Fault::Late(secs(2)), 1);
    let id = world.running("k").await;
    assert!(node.snapshot().await.unwrap().tasks.is_empty());
    let stop = NodeCommand::StopTask { task: id.clone() };
    let sent = world.client.command_node(node.node(), stop.clone()).await;
    let released = outcome_of(&world, sent.unwrap()).await;
    assert_eq!(released, "released");
    assert!(world.client.get(&id).await.unwrap().node.is_none());

    // Stopping a task that the node does not have gets that outcome.
    let lost = Fault::LostLate(secs(2));
    world.faults.fail(Operation::Claim, lost, 1);
    let other = world.running("k").await;
    let stop = NodeCommand::StopTask {
        task: other.clone(),
    };
    let sent = world.client.command_node(node.node(), stop).await;
    world.client.force_delete(&other).await.unwrap();
    let answer = outcome_of(&world, sent.unwrap()).await;
    assert_eq!(answer, "the task is not on this node");
}
