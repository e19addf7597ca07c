//! What is logged: failed attempts, waits that nothing ends, handlers that run without effect.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use windlass::{Command, Message, NewTask, Retry, StateKind, TaskContext};

use super::{
    failures::waited,
    support::{World, secs},
};
use crate::logged::Logged;

/// Regression: without a registered handler the client waited silently.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_kind_that_no_node_handles_is_logged_once() {
    let log = Logged::begin();
    let world = World::new().await;
    let task = NewTask::new("forgotten").id("t");
    let task = world.client.submit(task).await.unwrap();
    let waited = tokio::time::timeout(secs(60), task.done()).await;
    assert!(waited.is_err(), "it has not ended");
    let lines = log.lines_with("waits for a task whose kind no live node handles");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("task=t kind=forgotten"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_sleeping_task_is_logged_after_its_due_time() {
    let log = Logged::begin();
    let world = World::new().await;
    let task = NewTask::new("forgotten").id("t").start_in(secs(3));
    let task = world.client.submit(task).await.unwrap();
    // It is looked at 5 s after its due time, not a long time after the wait began.
    let waited = tokio::time::timeout(secs(9), task.done()).await;
    assert!(waited.is_err(), "it has not ended");
    let lines = log.lines_with("waits for a task whose kind no live node handles");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn the_log_reports_a_failed_attempt_when_it_is_durable_and_once() {
    let (world, log) = (World::new().await, Logged::begin());
    let _node = world
        .node("n")
        .handler("flaky", |task: TaskContext| async move {
            match task.attempt() {
                1 => Message::error("two\nlines"),
                _ => Message::complete(),
            }
        })
        .start()
        .await
        .unwrap();
    let task = NewTask::new("flaky").id("t").retry(Retry::strikes());
    let (_, state) = waited(&world.client, task).await;
    assert_eq!(state.code(), StateKind::Completed);
    let lines = log.lines_with("failed");
    let [line] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    let report = "attempt 1 failed: two lines; next in 10 min (7 left) task=t kind=flaky node=n";
    assert!(line.contains(" WARN ") && line.ends_with(report), "{line}");
}

/// More runs than a handler that is slowed down makes.
const MANY: u64 = 5_000;

#[tokio::test(start_paused = true)]
async fn a_handler_that_runs_again_and_again_without_effect_is_slowed_down_and_reported() {
    let (world, log) = (World::new().await, Logged::begin());
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    let _node = world
        .node("n")
        .handler("loops", move |_: TaskContext| {
            let n = count.fetch_add(1, Ordering::Relaxed);
            async move {
                match n {
                    ..MANY => Message::run(),
                    _ => Message::complete(),
                }
            }
        })
        .handler("steps", |task: TaskContext| async move {
            match task.data::<u64>().unwrap().unwrap_or(0) {
                MANY => Message::complete(),
                n => Message::run().with_data(&(n + 1)),
            }
        })
        .start()
        .await
        .unwrap();
    let begun = world.now();
    let (_, state) = waited(&world.client, NewTask::new("steps")).await;
    assert_eq!(state.code(), StateKind::Completed);
    let took = world.now().duration_since(begun);
    assert!(took < jiff::SignedDuration::from_secs(1), "{took}");
    assert_eq!(log.lines_with("again and again").len(), 0);

    let id = world
        .client
        .submit(NewTask::new("loops"))
        .await
        .unwrap()
        .into_id();
    tokio::time::sleep(secs(60)).await;
    // A hundred at once, seven more within the first 1.3 s, then one a second.
    let made = runs.load(Ordering::Relaxed);
    assert!((150..=168).contains(&made), "{made} runs");
    assert_eq!(log.lines_with("again and again").len(), 1);
    // A command does not wait for the next run.
    let before = world.now();
    world.client.command(&id, Command::Kill).await.unwrap();
    assert_eq!(
        world.client.wait(&id).await.unwrap().code(),
        StateKind::Killed
    );
    let took = world.now().duration_since(before);
    assert!(took < jiff::SignedDuration::from_millis(500), "{took}");
}
