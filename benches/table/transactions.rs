//! Ten submits as one transaction, compared with the same ten one after the other and as one batch; and
//! from the commit of a row of the inbox to the start of the handler.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::Mutex;
use windlass::{
    Client, Message, NewTask, Runner, TaskContext,
    store::{Store, sqlite::inbox},
};

use crate::{
    report::{Goal, Report},
    support::{self, Setting, Times},
};

/// How many submits each way has.
const SUBMITS: usize = 10;
const PROPS: usize = 300;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    let runtime = support::runtime();
    let rounds = setting.pick(300, 30);
    runtime.block_on(async {
        let store = support::open(&folder.path().join("transactions.db")).await;
        three_ways(&store, "SQLite", rounds, report).await;
        from_the_inbox(&folder.path().join("inbox.db"), setting, report).await;
    });
    #[cfg(feature = "etcd")]
    {
        let cluster = crate::cluster::Cluster::start(setting, 1);
        let url = cluster.url("transactions");
        runtime.block_on(async {
            let store = support::open(Path::new(&url)).await;
            three_ways(&store, "etcd", rounds, report).await;
        });
    }
}

fn tasks(next: &mut usize) -> Vec<NewTask> {
    let from = *next;
    *next += SUBMITS;
    let props = "x".repeat(PROPS);
    let task = |n| NewTask::new("work").id(support::id(n)).props(&props);
    (from..*next).map(task).collect()
}

/// One caller, in turns: each way waits for its answers.
async fn three_ways(store: &Store, name: &str, rounds: usize, report: &mut Report) {
    let client = Client::new(store);
    let mut took: [Vec<f64>; 3] = Default::default();
    let mut next = 0;
    for _ in 0..rounds {
        let begun = Instant::now();
        for task in tasks(&mut next) {
            client.submit(task).await.unwrap();
        }
        took[0].push(millis(begun));
        let begun = Instant::now();
        let transaction = tasks(&mut next)
            .into_iter()
            .fold(client.transaction(), |all, task| all.submit(task));
        transaction.commit().await.unwrap();
        took[1].push(millis(begun));
        let begun = Instant::now();
        for answer in client.submit_many(tasks(&mut next)).await {
            answer.unwrap();
        }
        took[2].push(millis(begun));
    }
    let [single, transaction, batch] = took.map(median);
    report.one(
        format!("{name}, 10 submits, one after the other"),
        single,
        "ms",
        None,
    );
    report.one(
        format!("{name}, a transaction of 10 submits"),
        transaction,
        "ms",
        None,
    );
    let times = single / transaction;
    report.one(
        "  times as fast as one after the other",
        times,
        "x",
        Some(Goal::Least(3.0)),
    );
    report.one(format!("{name}, a batch of 10 submits"), batch, "ms", None);
    report.one(
        "  the transaction beside the batch",
        transaction / batch,
        "x",
        None,
    );
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Another connection commits a row; the node of this process runs the task.
async fn from_the_inbox(file: &Path, setting: &Setting, report: &mut Report) {
    let store = support::open(file).await;
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |_: TaskContext| {
        let _ = started.send(Instant::now());
        async { Message::complete() }
    };
    let runner = Runner::builder(&store)
        .handler("work", handler)
        .start()
        .await
        .unwrap();
    let conn = Connection::open(file).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    let conn = Arc::new(Mutex::new(conn));
    let mut times = Times::new();
    for n in 0..setting.pick(1_000, 100) {
        let mut conn = conn.clone().lock_owned().await;
        let committed = tokio::task::spawn_blocking(move || {
            let transaction = conn.transaction().unwrap();
            inbox::submit(&transaction, NewTask::new("work").id(support::id(n))).unwrap();
            transaction.commit().unwrap();
            Instant::now()
        });
        let committed = committed.await.unwrap();
        let start = starts.recv().await.unwrap();
        times.add(start.saturating_duration_since(committed));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    times.tell(
        report,
        "commit of a row of the inbox to the start of the handler",
        None,
    );
    runner.shutdown().await;
}
