//! What a page of a list and the counts take, by how many tasks there are.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use windlass::{
    Client, NewTask, TaskStatus,
    store::{Cursor, Filter, Order, Query, Store},
};

use crate::{
    parked,
    report::{Goal, Report},
    support::{self, Setting},
};

/// How often each call is made.
const ROUNDS: usize = 21;
/// How often it is made where it reads every task of a million.
const FEW_ROUNDS: usize = 3;

/// Returns how often a call is made: seldom where no goal is set for many tasks.
fn rounds(tasks: usize, goal: Option<f64>) -> usize {
    match goal {
        None if tasks > 100_000 => FEW_ROUNDS,
        _ => ROUNDS,
    }
}
/// How many ended tasks there are in addition to the others.
const ENDED: usize = 10_000;
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
    let tasks = setting.pick(&[10_000, 100_000, 1_000_000][..], &[1_000][..]);
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
        let at = place(&format!("lists-{tasks}"));
        support::runtime().block_on(one(&at, (tasks, goal), report));
        let at = place(&format!("lists-of-own-ids-{tasks}"));
        support::runtime().block_on(of_own_ids(&at, (tasks, goal), report));
    }
}

async fn one(place: &Path, (tasks, goal): (usize, Option<f64>), report: &mut Report) {
    let store = support::open(place).await;
    end_some(&store).await;
    support::fill(&store, tasks, sleeper).await;
    read(&Client::new(&store), "", (tasks, goal), report).await;
    #[cfg(feature = "etcd")]
    if let Some(indexed) = support::open_indexed(place).await {
        let what = ", with an index in memory";
        read(&Client::new(&indexed), what, (tasks, Some(GOAL)), report).await;
    }
}

/// Measures the lists and the counts.
async fn read(
    client: &Client,
    how: &str,
    (tasks, goal): (usize, Option<f64>),
    report: &mut Report,
) {
    let all = || Query::new(Filter::default()).without_props();
    for order in [Order::Id, Order::Submitted, Order::Due, Order::Ended] {
        let query = all().order(order);
        let of = format!("a list by {order}{how}");
        pages(client, &query, None, (&of, tasks, goal), report).await;
    }
    let newest = all().order(client.order_of_newest());
    let mut cursor = None;
    for _ in 0..10 {
        cursor = client.page(&newest, cursor.as_ref()).await.unwrap().next;
    }
    let of = format!("the newest tasks, the eleventh page{how}");
    pages(client, &newest, cursor, (&of, tasks, goal), report).await;

    let mut times = Vec::new();
    for _ in 0..rounds(tasks, goal) {
        let begun = Instant::now();
        let counts = client.counts().await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        let all: u64 = counts.iter().map(|count| count.tasks).sum();
        assert_eq!(all, (tasks + ENDED) as u64);
    }
    let what = format!("{tasks} tasks: counts{how}");
    report.median(&what, &times, "ms", goal.map(Goal::Most));
}

/// Ids that say nothing of the time: where the last one is has to be found.
async fn of_own_ids(place: &Path, (tasks, goal): (usize, Option<f64>), report: &mut Report) {
    let store = support::open(place).await;
    support::fill(&store, tasks, parked::sleeper).await;
    let client = Client::new(&store);
    let query = Query::new(Filter::default())
        .without_props()
        .order(Order::Id);
    let of = "a list by id, of own ids";
    pages(&client, &query, None, (of, tasks, goal), report).await;
}

/// A task with a default id that sleeps for long.
fn sleeper(n: usize) -> NewTask {
    let days = 30 + n as u64 % 300;
    NewTask::new("parked").start_at(parked::later(Duration::from_secs(days * 24 * 3600)))
}

/// Measures a page of 100 tasks.
async fn pages(
    client: &Client,
    query: &Query,
    cursor: Option<Cursor>,
    (of, tasks, goal): (&str, usize, Option<f64>),
    report: &mut Report,
) {
    let mut times = Vec::new();
    for _ in 0..rounds(tasks, goal) {
        let begun = Instant::now();
        let page = client.page(query, cursor.as_ref()).await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(page.tasks.len(), 100);
    }
    let what = format!("{tasks} tasks: a page of {of}");
    report.median(&what, &times, "ms", goal.map(Goal::Most));
}

/// Brings ended tasks, which end one after the other.
async fn end_some(store: &Store) {
    support::fill(store, ENDED, sleeper).await;
    let transfer = store.transfer().unwrap();
    let ids = transfer.ids().await.unwrap();
    for ids in ids.chunks(1000) {
        let mut exported: Vec<_> = Vec::new();
        for (n, one) in transfer.export(ids).await.into_iter().enumerate() {
            let mut one = one.unwrap();
            one.state.status = TaskStatus::Killed;
            one.state.since = one.submitted_at + Duration::from_millis(n as u64);
            exported.push(one);
        }
        for deleted in store.registry().delete(ids.to_vec()).await {
            deleted.unwrap();
        }
        for imported in transfer.import(exported).await {
            imported.unwrap();
        }
    }
}
