//! A runner: engine, machine, handler and store.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
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

/// The same on SQLite: each transition is its own transaction.
pub(crate) fn transitions_on_sqlite(count: u64, dir: &Path) {
    runtime().block_on(async {
        transitions(count, store::on_sqlite(dir).await).await;
    });
}

async fn transitions(count: u64, store: Store) {
    let (done, last) = (AtomicU64::new(0), Arc::new(Notify::new()));
    let notified = last.clone();
    let handler = move |_: TaskContext| {
        let n = done.fetch_add(1, Ordering::Relaxed);
        if n == count {
            notified.notify_one();
        }
        async move {
            match n < count {
                true => Message::checkpoint().with_data(&data(n)),
                false => Message::complete(),
            }
        }
    };
    let task = NewTask::new("hot").id("a");
    Client::new(&store).submit(task).await.unwrap();
    let runner = Runner::builder(&store)
        .slots(1)
        .handler("hot", handler)
        .start()
        .await
        .unwrap();
    last.notified().await;
    runner.shutdown().await;
}

/// Tasks that complete at once, on 100 slots: claimed, run and ended. Their submits count too.
pub(crate) fn tasks_in_memory(count: u64, _: &Path) {
    runtime().block_on(async {
        tasks(count, Store::open("memory:").await.unwrap()).await;
    });
}

/// The same on SQLite.
pub(crate) fn tasks_on_sqlite(count: u64, dir: &Path) {
    runtime().block_on(async {
        tasks(count, store::on_sqlite(dir).await).await;
    });
}

/// The same in memory, with a recorder of metrics as that of `windlass worker --serve`: the groups of commits on SQLite differ by
/// more than metrics cost.
pub(crate) fn recorded_tasks_in_memory(count: u64, dir: &Path) {
    metrics_exporter_prometheus::PrometheusBuilder::new()
        .set_buckets(&[0.001, 0.01, 0.1, 1.0, 10.0])
        .unwrap()
        .install_recorder()
        .unwrap();
    windlass::telemetry::describe();
    tasks_in_memory(count, dir);
}

async fn tasks(count: u64, store: Store) {
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
        .slots(100)
        // They cost the same for any number of tasks, and this is what one task costs.
        .gauges_every(Duration::MAX)
        .handler("work", handler)
        .start()
        .await
        .unwrap();
    last.notified().await;
    runner.drain().await;
    runner.shutdown().await;
}
