//! Submits a second, and how fast claimed tasks come to their end, beside raw inserts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use windlass::{Client, Message, NewTask, Runner, TaskContext, store::Store};

use crate::{
    raw::Raw,
    report::Report,
    support::{self, Setting},
};

/// How many submit at the same time, one task at a time each.
const CALLERS: usize = 256;
/// How many tasks a call of `submit_many` brings.
const MANY: usize = 1000;
/// Bytes of the props.
const PROPS: usize = 300;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let runtime = support::runtime();
    let folder = setting.folder();
    let rounds = setting.pick(5, 2);
    let time = setting.pick(Duration::from_secs(3), Duration::from_millis(700));
    let tasks = setting.pick(50_000, 10_000);
    let mut raw = Raw::new(&folder.path().join("raw.db"), 1, 1, PROPS);
    let mut rates: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        rates[0].push(raw.inserts(time));
        runtime.block_on(async {
            let file = |name| folder.path().join(format!("{name}-{round}.db"));
            let store = support::open(&file("submits")).await;
            rates[1].push(one_by_one(&store, time).await);
            rates[2].push(many(&store, time).await);
            let store = support::open(&file("claims")).await;
            rates[3].push(claims(&store, tasks).await);
        });
    }
    report.median(format!("raw inserts of {PROPS} B"), &rates[0], "/s", None);
    let what = [
        "submits, one by one by 256 callers",
        "submits, 1,000 a call",
        "tasks claimed, run and completed",
    ];
    for (what, of) in what.into_iter().zip(&rates[1..]) {
        report.median(what, of, "/s", None);
        let ratios: Vec<f64> = of
            .iter()
            .zip(&rates[0])
            .map(|(ours, raw)| 100.0 * ours / raw)
            .collect();
        report.median(format!("  of raw: {what}"), &ratios, "%", None);
    }
}

fn task(n: usize) -> NewTask {
    let props = format!("{n:0width$}", width = PROPS - 2);
    NewTask::new("work").id(support::id(n)).props(&props)
}

async fn one_by_one(store: &Store, time: Duration) -> f64 {
    let (begun, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let callers = (0..CALLERS).map(|_| {
        let (client, next) = (Client::new(store), next.clone());
        tokio::spawn(async move {
            while begun.elapsed() < time {
                let n = next.fetch_add(1, Ordering::Relaxed);
                client.submit(task(n)).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    next.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

async fn many(store: &Store, time: Duration) -> f64 {
    let (begun, next) = (Instant::now(), Arc::new(AtomicUsize::new(100_000_000)));
    let callers = (0..2).map(|_| {
        let (client, next) = (Client::new(store), next.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while begun.elapsed() < time {
                let from = next.fetch_add(MANY, Ordering::Relaxed);
                let tasks = (from..from + MANY).map(|n| task(n).build().unwrap());
                for answer in client.submit_many(tasks.collect()).await {
                    answer.unwrap();
                    done += 1;
                }
            }
            done
        })
    });
    let mut done = 0;
    for caller in callers.collect::<Vec<_>>() {
        done += caller.await.unwrap();
    }
    f64::from(done) / begun.elapsed().as_secs_f64()
}

/// From the start of a node to the end of the last task that it found.
async fn claims(store: &Store, tasks: usize) -> f64 {
    support::fill(store, tasks, task).await;
    let (left, last) = (Arc::new(AtomicUsize::new(tasks)), Arc::new(Notify::new()));
    let handler = {
        let (left, last) = (left.clone(), last.clone());
        move |_: TaskContext| {
            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                last.notify_one();
            }
            async { Message::complete() }
        }
    };
    let begun = Instant::now();
    let runner = Runner::builder(store)
        .slots(1000)
        .handler("work", handler)
        .start()
        .await
        .unwrap();
    last.notified().await;
    runner.drain().await;
    let rate = tasks as f64 / begun.elapsed().as_secs_f64();
    runner.shutdown().await;
    rate
}
