//! A runner: engine, machine, handler and store.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;
use windlass::{Client, Message, NewTask, Runner, Store, TaskContext};

use crate::{data, runtime, store};

/// One task, whose handler returns Checkpoint with data until it has done so `count` times.
pub(crate) fn transitions_in_memory(count: u64, _: &Path) {
    runtime().block_on(async {
        transitions(count, Store::open("memory:").await.unwrap()).await;
    });
}

/// The same on SQLite: each transition is a transaction of its own.
pub(crate) fn transitions_on_sqlite(count: u64, dir: &Path) {
    runtime().block_on(async {
        transitions(count, store::on_sqlite(dir).await).await;
    });
}

async fn transitions(count: u64, store: Store) {
    let done = Arc::new(AtomicU64::new(0));
    let handler = move |_: TaskContext| {
        let n = done.fetch_add(1, Ordering::Relaxed);
        async move {
            if n < count {
                Message::checkpoint().with_data(&data(n))
            } else {
                Message::complete()
            }
        }
    };
    let client = Client::new(&store);
    client.submit(NewTask::new("hot").id("a")).await.unwrap();
    let runner = Runner::builder(&store)
        .slots(1)
        .handler("hot", handler)
        .start()
        .await
        .unwrap();
    client.wait("a").await.unwrap();
    runner.shutdown().await;
}

/// Tasks that complete at once, on 10 slots: claimed, run and ended.
pub(crate) fn tasks_in_memory(count: u64, _: &Path) {
    runtime().block_on(async {
        let store = Store::open("memory:").await.unwrap();
        let tasks = (0..count).map(|n| {
            let task = NewTask::new("work").id(format!("task-{n}"));
            task.props(&data(n)).build().unwrap()
        });
        for result in store.registry().submit(tasks.collect()).await {
            result.unwrap();
        }
        let (left, last) = (AtomicU64::new(count), Arc::new(Notify::new()));
        let notified = last.clone();
        let handler = move |_: TaskContext| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                notified.notify_one();
            }
            async { Message::complete() }
        };
        let runner = Runner::builder(&store)
            .slots(10)
            .handler("work", handler)
            .start()
            .await
            .unwrap();
        last.notified().await;
        runner.shutdown().await;
    });
}
