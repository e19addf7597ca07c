//! Submits a second, and how fast claimed tasks come to their end, compared with raw inserts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use windlass::{Client, NewTask, Runner, store::Store};

use crate::{
    raw::Raw,
    report::Report,
    support::{self, Meter, Rate, Setting, tell_rates},
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
    let mut rates: Vec<(String, Vec<Rate>)> = [
        &format!("raw inserts of {PROPS} B"),
        "submits, one by one by 256 callers",
        "submits, 1,000 a call",
        "tasks claimed, run and completed, 1,000 slots",
        "tasks claimed, run and completed, 64 slots",
    ]
    .map(|what| (what.to_owned(), Vec::new()))
    .into();
    for round in 0..rounds {
        // All of them begin with an empty file each time.
        let file = |name| folder.path().join(format!("{name}-{round}.db"));
        let mut raw = Raw::new(&file("raw"), 1, 1, PROPS);
        rates[0].1.push(raw.inserts(time));
        runtime.block_on(async {
            let store = support::open(&file("one")).await;
            rates[1].1.push(one_by_one(&store, time).await);
            let store = support::open(&file("many")).await;
            rates[2].1.push(many(&store, time).await);
            for (at, slots, name) in [(3, 1000, "many-slots"), (4, 64, "few-slots")] {
                let store = support::open(&file(name)).await;
                rates[at].1.push(claims(&store, tasks, slots).await);
            }
        });
    }
    tell_rates(report, &rates, |_| None);
}

fn task(n: usize) -> NewTask {
    let (mut props, number) = ("x".repeat(PROPS - 2), n.to_string());
    props.replace_range(..number.len(), &number);
    NewTask::new("work").id(support::id(n)).props(&props)
}

async fn one_by_one(store: &Store, time: Duration) -> Rate {
    let (begun, meter) = (Instant::now(), Meter::start());
    let next = Arc::new(AtomicUsize::new(0));
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
    meter.rate(next.load(Ordering::Relaxed) as u64)
}

async fn many(store: &Store, time: Duration) -> Rate {
    let (begun, meter) = (Instant::now(), Meter::start());
    let next = Arc::new(AtomicUsize::new(100_000_000));
    let callers = (0..2).map(|_| {
        let (client, next) = (Client::new(store), next.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while begun.elapsed() < time {
                let from = next.fetch_add(MANY, Ordering::Relaxed);
                let tasks = (from..from + MANY).map(|n| task(n).build().unwrap());
                for answer in client.submit_many(tasks).await {
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
    meter.rate(done)
}

/// From the start of a node to the end of the last task that it found.
async fn claims(store: &Store, tasks: usize, slots: u32) -> Rate {
    support::fill(store, tasks, task).await;
    let (handler, last) = support::completes(tasks);
    let meter = Meter::start();
    let runner = Runner::builder(store)
        .slots(slots)
        .handler("work", handler)
        .start()
        .await
        .unwrap();
    last.notified().await;
    runner.drain().await;
    let rate = meter.rate(tasks as u64);
    runner.shutdown().await;
    rate
}
