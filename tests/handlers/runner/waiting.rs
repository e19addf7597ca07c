//! Waiting for many tasks: how often the store is asked.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;
use windlass::{
    Command, Message, NewTask, StateKind, TaskContext, store::Filter, testing::Operation,
};

use super::support::{World, secs};

/// A node with a handler that runs until a stop, and one that ends at once.
async fn world() -> (World, Arc<Notify>, windlass::Runner) {
    let world = World::new().await;
    let ends = Arc::new(Notify::new());
    let end = ends.clone();
    let node = world
        .node("n")
        .handler("slow", move |_: TaskContext| {
            let ends = ends.clone();
            async move {
                ends.notified().await;
                Message::complete()
            }
        })
        .handler("quick", |_: TaskContext| async { Message::complete() })
        .start()
        .await
        .unwrap();
    (world, end, node)
}

/// Works through many quick tasks while something is waited for, and returns how often the store was
/// read in the meantime.
async fn reads_meanwhile(world: &World, wait: impl Future) -> u64 {
    let mut wait = std::pin::pin!(wait);
    let work = async {
        for n in 0..300 {
            let quick = NewTask::new("quick").id(format!("q{n}"));
            world.client.submit(quick).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Without its own look at the registry, which would count.
        tokio::time::sleep(secs(1)).await;
    };
    let before = world.faults.calls(Operation::Read);
    tokio::select! {
        _ = &mut wait => panic!("the slow task runs"),
        () = work => {}
    }
    world.faults.calls(Operation::Read) - before
}

#[tokio::test(start_paused = true)]
async fn only_the_task_that_is_waited_for_makes_a_wait_look_again() {
    let (world, end, _node) = world().await;
    let all = Filter::default();
    let of_states =
        Filter::new().states([StateKind::Runnable, StateKind::Fault, StateKind::Sleeping]);
    for idle in [true, false] {
        world.running("slow").await;
        let reads = match idle {
            true => reads_meanwhile(&world, world.client.wait_idle(&all)).await,
            false => reads_meanwhile(&world, world.client.wait_none(&of_states)).await,
        };
        // The changes are followed, and one task is looked for.
        assert!(reads <= 3, "{reads} reads while 300 tasks ended");
        let counts = world.client.counts().await.unwrap();
        let done = counts
            .iter()
            .filter(|c| c.state == Some(StateKind::Completed));
        assert!(done.map(|c| c.tasks).sum::<u64>() >= 300, "{counts:?}");
        for n in 0..300 {
            let quick = format!("q{n}");
            world.client.force_delete(&quick).await.unwrap();
        }
        let ended = async {
            end.notify_one();
            match idle {
                true => world.client.wait_idle(&all).await,
                false => world.client.wait_none(&of_states).await,
            }
        };
        ended.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn parked_tasks_are_idle_and_match() {
    let (world, _end, _node) = world().await;
    let later = world.now() + jiff::SignedDuration::from_hours(1);
    let parked = NewTask::new("quick").start_at(later);
    let id = world.client.submit(parked).await.unwrap().into_id();
    world.client.wait_idle(&Filter::default()).await.unwrap();
    let asleep = Filter::new().states([StateKind::Sleeping]);
    let before = world.faults.calls(Operation::Read);
    world.client.wait_none(&asleep).await.unwrap();
    // It looks again now and then should a change be missed: every five seconds.
    let reads = world.faults.calls(Operation::Read) - before;
    assert!((2..=3600 / 5 + 3).contains(&reads), "{reads} reads");
    assert_eq!(world.code(&id).await, StateKind::Completed);
}

/// Regression: `worker --until-idle` ended beside tasks that had just been resumed.
#[tokio::test(start_paused = true)]
async fn a_paused_task_with_a_command_that_waits_is_busy() {
    let world = World::new().await;
    let all = Filter::default();
    let is_busy = async || {
        let idle = world.client.wait_idle(&all);
        tokio::time::timeout(secs(30), idle).await.is_err()
    };
    // No node takes the tasks.
    let paused = NewTask::new("none").id("a").paused();
    world.client.submit(paused).await.unwrap();
    assert!(!is_busy().await, "it is paused");
    world.client.command("a", Command::Run).await.unwrap();
    assert!(is_busy().await, "it is about to be resumed");
    world.client.delete("a").await.unwrap();
    assert!(!is_busy().await);
}

/// Regression: `wait --idle` ended while a task was due, waited for its next attempt, or had waited for tasks that had all
/// ended.
#[tokio::test(start_paused = true)]
async fn a_task_that_a_node_would_claim_or_that_is_tried_again_is_busy() {
    let world = World::new().await;
    let all = Filter::default();
    let is_busy = async || {
        let idle = world.client.wait_idle(&all);
        tokio::time::timeout(secs(30), idle).await.is_err()
    };
    // No node takes the tasks.
    let due = world.now() + jiff::SignedDuration::from_mins(1);
    let sleeper = NewTask::new("none").id("due").start_at(due);
    world.client.submit(sleeper).await.unwrap();
    assert!(!is_busy().await, "it sleeps until later");
    tokio::time::sleep(secs(90)).await;
    assert!(is_busy().await, "it is due");
    world.client.delete("due").await.unwrap();
    let over = NewTask::new("none").id("over").after(["missing"]);
    world.client.submit(over).await.unwrap();
    assert!(is_busy().await, "its wait is over");
    world.client.delete("over").await.unwrap();
    assert!(!is_busy().await);
    let fails = async |_: TaskContext| -> Result<Message, windlass::BoxError> { Err("no".into()) };
    let node = world
        .node("n")
        .handler("fails", fails)
        .start()
        .await
        .unwrap();
    // The first failure is followed by ten minutes of sleep.
    let retries = windlass::Retry::strikes();
    let id = world
        .client
        .submit(NewTask::new("fails").retry(retries))
        .await;
    let id = id.unwrap().into_id();
    let parked = async {
        loop {
            let record = world.client.get(&id).await.unwrap();
            let code = record.state.unwrap().code();
            if code == StateKind::Sleeping && record.node.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(secs(30), parked)
        .await
        .expect("a failed attempt");
    assert!(is_busy().await, "it waits for its next attempt");
    node.shutdown().await;
}

/// Regression: the sleeping tasks were read once for each kind that had waiting tasks.
#[tokio::test(start_paused = true)]
async fn the_counts_read_waiting_tasks_once_however_many_kinds_have_some() {
    let world = World::new().await;
    world
        .client
        .submit(NewTask::new("k0").id("live"))
        .await
        .unwrap();
    let mut reads = Vec::new();
    for kinds in [0..3, 3..60] {
        let tasks = kinds.map(|n| NewTask::new(format!("k{n}")).after(["live"]));
        for submitted in world.client.submit_many(tasks).await {
            submitted.unwrap();
        }
        let before = world.faults.calls(Operation::Read);
        let stats = world.client.stats().await.unwrap();
        assert!(stats.kinds.iter().all(|of| of.waiting == 1));
        reads.push(world.faults.calls(Operation::Read) - before);
    }
    assert_eq!(reads[0], reads[1]);
}

/// Ten thousand waits would read the nodes ten thousand times.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_sleeping_task_reads_the_task_and_no_nodes() {
    let world = World::new().await;
    let later = world.now() + jiff::SignedDuration::from_hours(1);
    let task = NewTask::new("quick").id("t").start_at(later);
    let task = world.client.submit(task).await.unwrap();
    // Opens the feed of changes, which counts as a read. The feed stays open for a moment.
    let first = tokio::time::timeout(secs(4), task.done()).await;
    assert!(first.is_err(), "it sleeps");
    let before = world.faults.calls(Operation::Read);
    let waited = tokio::time::timeout(secs(9), task.done()).await;
    assert!(waited.is_err(), "it sleeps");
    // The first read. The next one is half a minute later: nothing but a change of the task can end the wait.
    assert_eq!(world.faults.calls(Operation::Read) - before, 1);
}
