//! Following the changes of a store.

use super::*;
use crate::{Message, NewTask, Runner, TaskContext, store::Store};

async fn fail(_: TaskContext) -> Message {
    Message::fail("no")
}

async fn complete(_: TaskContext) -> Message {
    Message::complete()
}

/// Waits until the counts are as wanted.
async fn until(activity: &Activity, is_there: impl Fn(&Window) -> bool) -> Window {
    loop {
        let summary = activity.summary();
        if let Some(window) = summary.window("1h").filter(|window| is_there(window)) {
            return window.clone();
        }
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_node_does_is_counted_by_kind() {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    let activity = client.activity().await.unwrap();
    let runner = Runner::builder(&store)
        .handler("mail", complete)
        .handler("pay", fail)
        .start()
        .await
        .unwrap();
    for n in 0..30 {
        let kind = if n % 3 == 0 { "pay" } else { "mail" };
        client.submit(NewTask::new(kind)).await.unwrap();
    }
    let window = until(&activity, |window| {
        let named = window.kinds.iter().filter(|of| of.kind.is_some());
        named.map(|of| of.started).sum::<u64>() == 30 && window.completed + window.failed == 30
    })
    .await;
    let first = &window.kinds[0];
    assert_eq!(first.kind.as_ref().unwrap().as_str(), "pay");
    assert_eq!((first.failed_attempts, first.failed), (10, 10));
    assert_eq!((window.completed, window.lateness.measured), (20, 30));
    runner.shutdown().await;
}

/// A backlog from before the start had no lateness.
#[tokio::test(start_paused = true)]
async fn a_backlog_has_a_lateness() {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    for _ in 0..50 {
        client.submit(NewTask::new("mail")).await.unwrap();
    }
    let activity = client.activity().await.unwrap();
    // The backlog is read before the node claims it.
    while activity.counted.lock().0.remembered() < 50 {
        tokio::task::yield_now().await;
    }
    let runner = Runner::builder(&store).handler("mail", complete);
    let runner = runner.start().await.unwrap();
    let window = until(&activity, |window| window.completed == 50).await;
    assert_eq!(window.lateness.measured, 50);
    runner.shutdown().await;
}

/// The feed of the process is opened for the counts, and closed after them.
#[tokio::test(start_paused = true)]
async fn the_counts_end_with_their_owner() {
    let store = Store::open("memory:").await.unwrap();
    let client = Client::new(&store);
    let activity = client.activity().await.unwrap();
    let counted = Arc::downgrade(&activity.counted);
    client.submit(NewTask::new("k")).await.unwrap();
    drop(activity);
    while counted.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}
