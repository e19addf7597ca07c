//! What the counts and the statistics take, by how many tasks there are.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use windlass::{Client, NewTask};

use crate::{
    parked,
    report::{Goal, Report},
    support::{self, Setting},
};

/// How often each call is made.
const ROUNDS: usize = 21;
/// The median on SQLite, in milliseconds.
const GOAL: f64 = 5.0;
/// How many kinds the tasks have.
const KINDS: usize = 10;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    let tasks = setting.pick(&[10_000, 100_000, 1_000_000][..], &[1_000][..]);
    measure(report, (tasks, Some(GOAL)), |name| {
        folder.path().join(format!("{name}.db"))
    });
}

#[cfg(feature = "etcd")]
pub(crate) fn on_etcd(setting: &Setting, report: &mut Report) {
    let cluster = crate::cluster::Cluster::start(setting, 1);
    let tasks = setting.pick(&[10_000, 100_000][..], &[1_000][..]);
    measure(report, (tasks, None), |name| {
        PathBuf::from(cluster.url(name))
    });
}

fn measure(
    report: &mut Report,
    (sizes, goal): (&[usize], Option<f64>),
    place: impl Fn(&str) -> PathBuf,
) {
    for tasks in sizes.iter().copied() {
        let place = place(&format!("counts-{tasks}"));
        support::runtime().block_on(one(&place, (tasks, goal), report));
    }
}

/// Half of the tasks sleep, the others could run; no node lives.
fn task(n: usize) -> NewTask {
    match n % 2 {
        0 => parked::sleeper(n),
        _ => NewTask::new(format!("work-{}", n % KINDS)).id(support::id(n)),
    }
}

async fn one(place: &Path, (tasks, goal): (usize, Option<f64>), report: &mut Report) {
    let store = support::open(place).await;
    support::fill(&store, tasks, task).await;
    let client = Client::new(&store);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let counts = client.counts().await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(counts.iter().map(|c| c.tasks).sum::<u64>(), tasks as u64);
    }
    let what = format!("{tasks} tasks: counts by kind and state");
    report.median(&what, &times, "ms", goal.map(Goal::Most));
    let available = why(&client, (tasks, goal), report).await;
    assert_eq!(available, tasks as u64 / 2);
}

/// Measures what `windlass why` and an autoscaler read. Returns how many tasks are available.
pub(crate) async fn why(
    client: &Client,
    (tasks, goal): (usize, Option<f64>),
    report: &mut Report,
) -> u64 {
    let (mut times, mut available) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let stats = client.stats().await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        available = stats.kinds.iter().map(|of| of.available).sum();
    }
    let what = format!("{tasks} tasks: what is available, and why it is not run");
    report.median(&what, &times, "ms", goal.map(Goal::Most));
    available
}
