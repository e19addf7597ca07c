//! Tasks behind limits, compared with as many without: their rate, what a start reads, and what a line
//! costs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;
use windlass::{Limit, Message, NewTask, Runner, TaskContext};

use crate::{
    report::Report,
    support::{self, Meter, Rate, Setting},
};

/// How many run at once: as many as the node has slots, a hundred, and three.
const MOST: [Option<u32>; 3] = [None, Some(100), Some(3)];

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    let place = |name: &str| folder.path().join(format!("{name}.db"));
    let tasks = setting.pick(10_000, 500);
    measure(setting, report, tasks, (&place, &|| None));
}

#[cfg(feature = "etcd")]
pub(crate) fn on_etcd(setting: &Setting, report: &mut Report) {
    let cluster = crate::cluster::Cluster::start(setting, 1);
    let place = |name: &str| PathBuf::from(cluster.url(name));
    let calls = || Some(cluster.count("grpc_server_started_total"));
    measure(setting, report, setting.pick(3_000, 300), (&place, &calls));
}

type Place<'a> = (
    &'a dyn Fn(&str) -> PathBuf,
    // How many calls the servers have had; `None` for a store without servers.
    &'a dyn Fn() -> Option<u64>,
);

fn measure(setting: &Setting, report: &mut Report, tasks: usize, (place, calls): Place<'_>) {
    for most in MOST {
        let what = match most {
            None => format!("{tasks} tasks without a limit"),
            Some(most) => format!("{tasks} tasks, {most} at once"),
        };
        let (mut rates, mut micros, mut each) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..setting.pick(3, 1) {
            let store = place(&format!("limit-{}-{round}", most.unwrap_or(0)));
            let (rate, called) = support::runtime().block_on(rate(&store, tasks, most, calls));
            rates.push(rate.per_second);
            micros.push(rate.micros);
            each.extend(called.map(|called| called as f64 / tasks as f64));
        }
        report.median(&*what, &rates, "/s", None);
        report.median("  processor time each", &micros, "us", None);
        if !each.is_empty() {
            report.median("  calls of the server each", &each, "", None);
        }
    }
    let time = Duration::from_secs(setting.pick(30, 3));
    let idle = support::runtime().block_on(idle(&place("limit-idle"), tasks, time, calls));
    let what = format!("a line of {tasks} behind a task that runs: processor time");
    report.one(what, idle.0, "% of a core", None);
    if let Some(called) = idle.1 {
        let what = "  calls of the server, with keep-alives";
        report.one(what, called / time.as_secs_f64(), "/s", None);
    }
}

fn task(n: usize, most: Option<u32>) -> NewTask {
    let task = NewTask::new("step").id(support::id(n));
    match most {
        None => task,
        Some(most) => task.limit(Limit::at_once("key", most).unwrap()),
    }
}

async fn rate(
    place: &Path,
    tasks: usize,
    most: Option<u32>,
    calls: &dyn Fn() -> Option<u64>,
) -> (Rate, Option<u64>) {
    let store = support::open(place).await;
    support::fill(&store, tasks, |n| task(n, most)).await;
    let (handler, last) = support::completes(tasks);
    let (before, meter) = (calls(), Meter::start());
    let runner = Runner::builder(&store)
        .slots(1000)
        .handler("step", handler)
        .start()
        .await
        .unwrap();
    last.notified().await;
    runner.drain().await;
    let rate = meter.rate(tasks as u64);
    let called = calls().zip(before).map(|(after, before)| after - before);
    runner.shutdown().await;
    (rate, called)
}

/// A node with one task that runs and a line behind it: the part of a core that it uses, and the calls of the servers.
async fn idle(
    place: &Path,
    tasks: usize,
    time: Duration,
    calls: &dyn Fn() -> Option<u64>,
) -> (f64, Option<f64>) {
    let store = support::open(place).await;
    support::fill(&store, tasks, |n| task(n, Some(1))).await;
    let begun = Arc::new(Notify::new());
    let begins = begun.clone();
    let handler = move |task: TaskContext| {
        begins.notify_one();
        async move {
            task.stop_requested().await;
            Message::release()
        }
    };
    let runner = Runner::builder(&store)
        .slots(1000)
        .handler("step", handler)
        .start()
        .await
        .unwrap();
    begun.notified().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, used) = (calls(), support::used(std::process::id()));
    tokio::time::sleep(time).await;
    let used = support::used(std::process::id()) - used;
    let called = calls()
        .zip(before)
        .map(|(after, before)| (after - before) as f64);
    runner.shutdown().await;
    (100.0 * used.as_secs_f64() / time.as_secs_f64(), called)
}
