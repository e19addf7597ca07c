//! Remote workers of `windlass serve`: tasks a second beside the library, idle workers, and stops.
//!
//! The server is a process of its own. The workers are connections of this process: their handlers do nothing, and what
//! they send is made of what they were sent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Deserialize;
use tokio::{sync::oneshot, task::JoinSet};
use windlass::{Client, Command, Message, NewTask, Runner, TaskContext};

use crate::{
    http::{
        server::Server,
        wire::{Wire, request},
    },
    report::{Goal, Report},
    support::{self, Setting, Times},
};

const JSON: &str = "application/json";
/// How many workers are idle at once.
const IDLE: usize = 1000;
/// How many workers share the tasks, and the slots of each.
const WORKERS: usize = 8;
const SLOTS: usize = 500;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    support::runtime().block_on(async {
        rates(
            setting,
            report,
            &folder.path().join("library.db"),
            &folder.path().join("workers.db"),
        )
        .await;
        idle(setting, report, &folder.path().join("idle.db")).await;
        stops(setting, report, &folder.path().join("stops.db")).await;
    });
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    claims: Vec<Run>,
    #[serde(default)]
    stop: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Run {
    id: String,
    fence: u64,
    run: u64,
}

/// A worker with its connection.
struct Worker {
    wire: Wire,
    token: String,
    name: String,
    seq: u64,
}

impl Worker {
    async fn new(server: &Server, n: usize, slots: usize) -> Self {
        let mut worker = Self {
            wire: Wire::to(&server.address).await,
            token: server.work.clone(),
            name: format!("w{n}"),
            seq: 0,
        };
        let body = format!(
            r#"{{"name":"{}","secret":"the secret of a worker","kinds":{{"bench":{{"slots":{slots}}}}}}}"#,
            worker.name
        );
        let sent = request(&worker.token, "POST /v1/workers", JSON, &body);
        worker.wire.call(&sent).await;
        worker
    }

    async fn post(&mut self, what: &str, body: &str) -> Answer {
        let line = format!("POST /v1/workers/{}/{what}", self.name);
        let sent = request(&self.token, &line, JSON, body);
        serde_json::from_slice(&self.wire.body(&sent).await).unwrap()
    }

    async fn exchange(&mut self, held: &[Run], wait_ms: u64) -> Answer {
        self.seq += 1;
        let held: Vec<String> = held
            .iter()
            .map(|run| {
                format!(
                    r#"{{"id":"{}","fence":{},"run":{}}}"#,
                    run.id, run.fence, run.run
                )
            })
            .collect();
        let body = format!(
            r#"{{"secret":"the secret of a worker","seq":{},"settled":{},"held":[{}],"wait_ms":{wait_ms}}}"#,
            self.seq,
            self.seq - 1,
            held.join(",")
        );
        self.post("exchange", &body).await
    }

    /// Completes runs, and returns those that come with the answer.
    async fn complete(&mut self, runs: &[Run]) -> Vec<Run> {
        self.seq += 1;
        let items: Vec<String> = runs
            .iter()
            .map(|run| {
                format!(
                    r#"{{"id":"{}","fence":{},"run":{},"n":1,"return":{{"message":"complete"}}}}"#,
                    run.id, run.fence, run.run
                )
            })
            .collect();
        let body = format!(
            r#"{{"secret":"the secret of a worker","seq":{},"settled":{},"claims_wanted":true,"items":[{}]}}"#,
            self.seq,
            self.seq - 1,
            items.join(",")
        );
        self.post("report", &body).await.claims
    }
}

async fn rates(
    setting: &Setting,
    report: &mut Report,
    library: &std::path::Path,
    file: &std::path::Path,
) {
    let tasks = setting.pick(100_000, 2_000);
    let task = |n| NewTask::new("bench").id(support::id(n));
    let store = support::open(library).await;
    support::fill(&store, tasks, task).await;
    let begun = Instant::now();
    let noop = |_: TaskContext| async { Message::complete() };
    let runner = Runner::builder(&store)
        .handler("bench", noop)
        .slots(1000)
        .start()
        .await
        .unwrap();
    let client = Client::new(&store);
    while ended(&client).await < tasks as u64 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let alone = tasks as f64 / begun.elapsed().as_secs_f64();
    runner.shutdown().await;
    report.one("no-op tasks of a node in one process", alone, "/s", None);

    let store = support::open(file).await;
    support::fill(&store, tasks, task).await;
    drop(store);
    let server = Server::of(file);
    let mut workers = Vec::new();
    for n in 0..WORKERS {
        workers.push(Worker::new(&server, n, SLOTS).await);
    }
    let (used, begun, done) = (server.used(), Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut all = JoinSet::new();
    for mut worker in workers {
        let done = done.clone();
        all.spawn(async move {
            let mut runs = worker.exchange(&[], 0).await.claims;
            while done.load(Ordering::SeqCst) < tasks {
                if runs.is_empty() {
                    runs = worker.exchange(&[], 200).await.claims;
                    continue;
                }
                let ended = runs.len();
                runs = worker.complete(&runs).await;
                done.fetch_add(ended, Ordering::SeqCst);
            }
        });
    }
    all.join_all().await;
    let time = begun.elapsed();
    let rate = tasks as f64 / time.as_secs_f64();
    report.one(
        "no-op tasks of remote workers, one server",
        rate,
        "/s",
        Some(Goal::Least(20_000.0)),
    );
    report.one(
        "  share of the node in one process",
        100.0 * rate / alone,
        "%",
        None,
    );
    let each = (server.used() - used).as_secs_f64() * 1e6 / tasks as f64;
    report.one("  processor time of the server each", each, "us", None);
}

async fn ended(client: &Client) -> u64 {
    let counts = client.counts().await.unwrap();
    let ended = counts
        .iter()
        .filter(|count| count.state.is_some_and(|state| state.is_terminal()));
    ended.map(|count| count.tasks).sum()
}

/// Measures the processor time and the memory of workers that wait.
async fn idle(setting: &Setting, report: &mut Report, file: &std::path::Path) {
    let time = setting.pick(Duration::from_secs(25), Duration::from_secs(2));
    drop(support::open(file).await);
    let server = Server::of(file);
    let warm = Worker::new(&server, IDLE, 1).await;
    let before = server.resident();
    let mut all = JoinSet::new();
    for n in 0..IDLE {
        let mut worker = Worker::new(&server, n, 10).await;
        all.spawn(async move {
            loop {
                worker.exchange(&[], 11_250).await;
            }
        });
    }
    // The first exchanges are over.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (used, begun) = (server.used(), Instant::now());
    tokio::time::sleep(time).await;
    let share = 100.0 * (server.used() - used).as_secs_f64() / begun.elapsed().as_secs_f64();
    report.one(
        "1,000 idle workers: processor time",
        share,
        "%",
        Some(Goal::Most(2.0)),
    );
    let each = (server.resident() - before) / IDLE as f64 / 1000.0;
    report.one(
        "  memory each, with the connection",
        each,
        "kB",
        Some(Goal::Most(20.0)),
    );
    drop((warm, all));
}

/// Measures the time from a command to its arrival at a worker.
async fn stops(setting: &Setting, report: &mut Report, file: &std::path::Path) {
    let count = setting.pick(500, 30);
    let store = support::open(file).await;
    let client = Client::new(&store);
    let server = Server::of(file);
    let mut worker = Worker::new(&server, 0, 1).await;
    let mut times = Times::new();
    let sent = Arc::new(AtomicU64::new(0));
    for n in 0..count {
        let task = NewTask::new("bench").id(format!("t{n}"));
        client.submit(task).await.unwrap();
        let mut runs = Vec::new();
        while runs.is_empty() {
            runs = worker.exchange(&[], 1000).await.claims;
        }
        let (open, opened) = oneshot::channel::<()>();
        let (by, at) = (client.clone(), sent.clone());
        let commanding = tokio::spawn(async move {
            let _ = opened.await;
            // The exchange is open by then.
            tokio::time::sleep(Duration::from_millis(10)).await;
            at.store(support::monotonic(), Ordering::SeqCst);
            by.command(format!("t{n}").as_str(), Command::Pause)
                .await
                .unwrap();
        });
        let _ = open.send(());
        while worker.exchange(&runs, 5000).await.stop.is_empty() {}
        let took = support::monotonic() - sent.load(Ordering::SeqCst);
        times.add(Duration::from_nanos(took));
        commanding.await.unwrap();
        worker.complete(&runs).await;
    }
    let what = "from the call of a command to its arrival at a worker";
    report.one(
        format!("{what}: p50"),
        times.ms(0.5),
        "ms",
        Some(Goal::Most(5.0)),
    );
    report.one(
        format!("{what}: p99"),
        times.ms(0.99),
        "ms",
        Some(Goal::Most(30.0)),
    );
}
