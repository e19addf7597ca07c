//! What a first page and the counts take, by how many tasks there are.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use windlass::{
    Client,
    store::{Filter, Order, Query},
};

use crate::{
    parked,
    report::{Goal, Report},
    support::{self, Setting},
};

/// How often each call is made.
const ROUNDS: usize = 21;
/// The median of a first page and of the counts on SQLite, in milliseconds.
const GOAL: f64 = 5.0;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    let tasks = setting.pick(&[10_000, 100_000, 1_000_000][..], &[1_000][..]);
    let goal = Some(GOAL);
    measure(report, (tasks, goal), |name| {
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
        let place = place(&format!("lists-{tasks}"));
        support::runtime().block_on(one(&place, (tasks, goal), report));
    }
}

async fn one(place: &Path, (tasks, goal): (usize, Option<f64>), report: &mut Report) {
    let store = support::open(place).await;
    support::fill(&store, tasks, parked::sleeper).await;
    let client = Client::new(&store);
    for order in [Order::Submitted, Order::Due] {
        let query = Query::new(Filter::default()).order(order).without_props();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let page = client.page(&query, None).await.unwrap();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            assert_eq!(page.tasks.len(), 100);
        }
        let what = format!("{tasks} tasks: the first page of a list by {order}");
        report.median(&what, &times, "ms", goal.map(Goal::Most));
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let counts = client.counts().await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(counts[0].tasks, tasks as u64);
    }
    let what = format!("{tasks} tasks: counts");
    report.median(&what, &times, "ms", goal.map(Goal::Most));
}
