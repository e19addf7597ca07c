//! Tasks that are deleted and submitted again under the same id while a node has the first one.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass::{
    Command, Message, NewTask, Runner, TaskContext, TaskId,
    testing::{Fault, Operation},
};

use super::support::{World, secs};

/// What the handlers did: the submit order of the task, and what happened to it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(u64, String)>>>);

impl Log {
    fn add(&self, order: u64, what: impl Into<String>) {
        self.0.lock().unwrap().push((order, what.into()));
    }

    fn has(&self, order: u64, what: &str) -> bool {
        let log = self.0.lock().unwrap();
        log.iter().any(|(of, did)| *of == order && did == what)
    }

    fn of(&self, order: u64) -> Vec<String> {
        let log = self.0.lock().unwrap();
        let of = log.iter().filter(|(of, _)| *of == order);
        of.map(|(_, did)| did.clone()).collect()
    }
}

/// Records its drop, because an aborted handler cannot.
struct OnDrop(Log, u64);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add(self.1, "ended");
    }
}

/// Runs until it is stopped.
async fn obeys(log: Log, task: TaskContext) -> Message {
    let order = task.order();
    log.add(order, "started");
    let _ended = OnDrop(log.clone(), order);
    task.stop_requested().await.message()
}

async fn node(world: &World, log: &Log) -> Runner {
    let log = log.clone();
    let node = world
        .node("n")
        .handler("k", move |task| obeys(log.clone(), task));
    let node = node.start().await.unwrap();
    world.listed(&node).await;
    node
}

async fn order(world: &World, id: &TaskId) -> u64 {
    world.client.get(id).await.unwrap().order
}

async fn runs(world: &World, log: &Log, order: u64) {
    world
        .until(&format!("{order} runs"), || async {
            log.has(order, "started")
        })
        .await;
}

/// Deletes the task and submits another one with its id at once: no watch looks in between.
async fn replace(world: &World, id: &TaskId, kind: &str) -> u64 {
    world.client.force_delete(id).await.unwrap();
    let again = NewTask::new(kind).id(id.as_str());
    world.client.submit(again).await.unwrap();
    order(world, id).await
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_task_that_is_deleted_and_submitted_again_is_stopped_and_the_new_one_runs()
{
    let (world, log) = (World::new().await, Log::default());
    let _node = node(&world, &log).await;
    let id = world.running("k").await;
    let first = order(&world, &id).await;
    runs(&world, &log, first).await;
    let second = replace(&world, &id, "k").await;
    let begun = world.now();
    runs(&world, &log, second).await;
    let took = world.now().duration_since(begun);
    assert!(took < jiff::SignedDuration::from_secs(1), "{took}");
    let log = log.0.lock().unwrap();
    let of: Vec<_> = log.iter().map(|(of, did)| (*of, did.as_str())).collect();
    let ends = of.iter().position(|did| *did == (first, "ended"));
    let starts = of.iter().position(|did| *did == (second, "started"));
    assert!(
        ends.is_some() && ends < starts,
        "one after the other: {of:?}"
    );
}

/// The second task is of a kind that the node has no handler for.
#[tokio::test(start_paused = true)]
async fn the_handler_is_stopped_when_the_next_task_of_its_id_is_not_for_this_node() {
    let (world, log) = (World::new().await, Log::default());
    let node = node(&world, &log).await;
    let id = world.running("k").await;
    let first = order(&world, &id).await;
    runs(&world, &log, first).await;
    replace(&world, &id, "other").await;
    world
        .until("it ends", || async { log.has(first, "ended") })
        .await;
    world
        .until("the slot is free", || async {
            node.snapshot().await.unwrap().tasks.is_empty()
        })
        .await;
}

/// Changes while the watch was broken are only in the next list.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_and_submitted_again_under_a_broken_watch_is_stopped_and_run() {
    let (world, log) = (World::new().await, Log::default());
    let _node = node(&world, &log).await;
    let id = world.running("k").await;
    let first = order(&world, &id).await;
    runs(&world, &log, first).await;
    world.faults.break_watches();
    let second = replace(&world, &id, "k").await;
    runs(&world, &log, second).await;
    assert!(log.has(first, "ended"));
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_task_that_is_missing_in_a_list_is_stopped() {
    let (world, log) = (World::new().await, Log::default());
    let _node = node(&world, &log).await;
    let (kept, deleted) = (world.running("k").await, world.running("k").await);
    let orders = (order(&world, &kept).await, order(&world, &deleted).await);
    runs(&world, &log, orders.0).await;
    runs(&world, &log, orders.1).await;
    world.faults.break_watches();
    // One turn for the watch to end before the deletion.
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.client.force_delete(&deleted).await.unwrap();
    world
        .until("it ends", || async { log.has(orders.1, "ended") })
        .await;
    assert_eq!(log.of(orders.0), ["started"]);
}

/// The claim succeeds and its answer is late; in the meantime its task is replaced.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_its_task_was_replaced_starts_nothing() {
    for broken in [false, true] {
        let (world, log) = (World::new().await, Log::default());
        let _node = node(&world, &log).await;
        world.faults.fail(Operation::Claim, Fault::Late(secs(3)), 1);
        let id = world.running("k").await;
        let first = order(&world, &id).await;
        if broken {
            world.faults.break_watches();
        }
        let second = replace(&world, &id, "k").await;
        runs(&world, &log, second).await;
        assert!(log.of(first).is_empty(), "{:?}", log.of(first));
    }
}

/// The claim succeeds and its answer is late; in the meantime its task is deleted.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_its_task_was_deleted_starts_nothing() {
    for broken in [false, true] {
        let (world, log) = (World::new().await, Log::default());
        let node = node(&world, &log).await;
        world.faults.fail(Operation::Claim, Fault::Late(secs(3)), 1);
        let id = world.running("k").await;
        let first = order(&world, &id).await;
        if broken {
            world.faults.break_watches();
        }
        world.client.force_delete(&id).await.unwrap();
        tokio::time::sleep(secs(5)).await;
        assert!(log.of(first).is_empty(), "{:?}", log.of(first));
        assert!(node.snapshot().await.unwrap().tasks.is_empty());
    }
}

/// A claim that is under way when the watch breaks, of a task that nothing happens to.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_a_list_runs() {
    let (world, log) = (World::new().await, Log::default());
    let _node = node(&world, &log).await;
    for late in [secs(3), Duration::from_millis(100)] {
        world.faults.fail(Operation::Claim, Fault::Late(late), 1);
        let id = world.running("k").await;
        world.faults.break_watches();
        runs(&world, &log, order(&world, &id).await).await;
        tokio::time::sleep(secs(5)).await;
        assert_eq!(log.of(order(&world, &id).await), ["started"]);
    }
}

/// The first task was released by an order and is left alone for half a minute; the second is
/// another one.
#[tokio::test(start_paused = true)]
async fn the_next_task_of_an_id_does_not_wait_as_a_released_one_does() {
    let (world, log) = (World::new().await, Log::default());
    let node = node(&world, &log).await;
    let id = world.running("k").await;
    let first = order(&world, &id).await;
    runs(&world, &log, first).await;
    let stop = windlass::store::NodeCommand::StopTask { task: id.clone() };
    let sent = world.client.command_node(node.node(), stop).await.unwrap();
    world
        .until("it is released", || async {
            world.client.node_outcome(sent).await.unwrap().is_some()
        })
        .await;
    let second = replace(&world, &id, "k").await;
    let begun = world.now();
    runs(&world, &log, second).await;
    let took = world.now().duration_since(begun);
    assert!(took < jiff::SignedDuration::from_secs(5), "{took}");
}

/// A kill that was sent to the first task while it was being claimed does not affect the second.
#[tokio::test(start_paused = true)]
async fn a_command_of_the_first_task_does_not_reach_the_next() {
    let (world, log) = (World::new().await, Log::default());
    let _node = node(&world, &log).await;
    world.faults.fail(Operation::Claim, Fault::Late(secs(3)), 1);
    let id = world.running("k").await;
    world.client.command(&id, Command::Kill).await.unwrap();
    tokio::time::sleep(secs(1)).await;
    let second = replace(&world, &id, "k").await;
    runs(&world, &log, second).await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(log.of(second), ["started"]);
}
