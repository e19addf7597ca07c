//! What a task costs a process that waits for other tasks: the waits share one feed of the store.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::task::JoinSet;
use windlass::{Client, NewTask, Runner};

use crate::{
    parked,
    report::{Goal, Report},
    support::{self, Setting},
};

/// How many waits a process has.
const WAITS: [usize; 4] = [0, 100, 1_000, 10_000];
/// The processor time of a task with any number of waits, compared with none.
const GOAL: f64 = 1.3;

/// Returns the processor time that this process has used.
fn used() -> Duration {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    Duration::new(now.tv_sec() as u64, now.tv_nsec() as u32)
}

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    measure(setting, report, |name| {
        folder.path().join(format!("{name}.db"))
    });
}

#[cfg(feature = "etcd")]
pub(crate) fn on_etcd(setting: &Setting, report: &mut Report) {
    let cluster = crate::cluster::Cluster::start(setting, 1);
    measure(setting, report, |name| PathBuf::from(cluster.url(name)));
}

fn measure(setting: &Setting, report: &mut Report, place: impl Fn(&str) -> PathBuf) {
    let tasks = setting.pick(4_000, 400);
    let rounds = setting.pick(5, 1);
    let mut costs = vec![Vec::new(); WAITS.len()];
    // In turns, so that a slow moment of the machine meets each of them.
    for round in 0..rounds {
        for (cost, waits) in costs.iter_mut().zip(WAITS) {
            let place = place(&format!("waiters-{round}-{waits}"));
            let took = support::runtime().block_on(one(&place, waits, tasks));
            cost.push(took.as_secs_f64() * 1e6 / tasks as f64);
        }
    }
    let without = costs[0].clone();
    for (cost, waits) in costs.iter().zip(WAITS) {
        let what = format!("processor time of a no-op task beside {waits} waits");
        report.median(&what, cost, "µs", None);
        if waits > 0 {
            let ratios: Vec<f64> = cost.iter().zip(&without).map(|(a, b)| a / b).collect();
            let goal = Some(Goal::Most(GOAL));
            report.median(format!("{what}, beside none"), &ratios, "times", goal);
        }
    }
}

/// Runs no-op tasks one after the other in a process that waits for sleeping ones.
async fn one(place: &Path, waits: usize, tasks: usize) -> Duration {
    let store = support::open(place).await;
    let client = Client::new(&store);
    support::fill(&store, waits, parked::sleeper).await;
    let mut waiting = JoinSet::new();
    for n in 0..waits {
        let client = client.clone();
        waiting.spawn(async move { client.wait(support::id(n)).await.map(drop) });
    }
    let (handler, last) = support::completes(tasks);
    let runner = Runner::builder(&store)
        .handler("no-op", handler)
        .start()
        .await
        .unwrap();
    // Until every wait has subscribed and read its task.
    settle().await;
    let before = used();
    for n in 0..tasks {
        let task = NewTask::new("no-op").id(format!("no-op-{n}"));
        client.submit(task).await.unwrap();
    }
    last.notified().await;
    let took = used().saturating_sub(before);
    waiting.shutdown().await;
    runner.shutdown().await;
    took
}

/// Returns when this process has used little processor time for a moment.
async fn settle() {
    loop {
        let before = used();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if used().saturating_sub(before) < Duration::from_millis(25) {
            return;
        }
    }
}
