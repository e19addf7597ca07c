//! The server beside the library: requests a second, latency, streams and memory.
//!
//! The server is the program `windlass serve` in a process of its own; the clients are in this one. Both share the
//! processors, and the library, which runs in this process alone, has them for itself.

pub(crate) mod server;
pub(crate) mod wire;

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use tokio::task::JoinSet;
use windlass::{Client, NewTask};

use crate::{
    report::{Goal, Report},
    support::{self, Setting, Times},
};
use server::Server;
use wire::{Wire, request};

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
/// How many tasks one request submits, of an array and of lines.
const SEVERAL: usize = 100;
/// How many streams follow the changes.
const STREAMS: usize = 1000;
/// The share of the library's submits that a server reaches, in percent, and its latency at half load.
const SHARE: f64 = 50.0;
const LATEST: f64 = 10.0;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    let folder = setting.folder();
    support::runtime().block_on(async {
        rates(setting, report, &folder.path().join("rates.db")).await;
        half_load(setting, report, &folder.path().join("half.db")).await;
        streams(setting, report, &folder.path().join("streams.db")).await;
        large(setting, report, &folder.path().join("large.db")).await;
    });
}

fn body() -> String {
    r#"{"kind":"bench","props":{"to":"someone@example.com","subject":"hello"}}"#.to_owned()
}

fn task() -> NewTask {
    let props = serde_json::json!({"to": "someone@example.com", "subject": "hello"});
    NewTask::new("bench").props(&props)
}

/// What was done in a while, and how long each call took.
struct Load {
    calls: f64,
    times: Times,
    /// Processor time of the server for each call, in microseconds.
    micros: f64,
}

/// Calls the library with so many callers, for a while.
async fn library(client: &Client, callers: usize, time: Duration) -> Load {
    let all = (0..callers).map(|_| {
        let client = client.clone();
        async move {
            let (end, mut times) = (Instant::now() + time, Vec::new());
            while Instant::now() < end {
                let begun = Instant::now();
                client.submit(task()).await.unwrap();
                times.push(begun.elapsed());
            }
            times
        }
    });
    let (used, begun) = (support::used(std::process::id()), Instant::now());
    let times = spawned(all).await;
    load(
        times,
        begun.elapsed(),
        support::used(std::process::id()) - used,
    )
}

/// Sends a request again and again over so many connections, for a while.
async fn http(server: &Server, ask: &Ask, connections: usize, time: Duration) -> Load {
    let wires = (0..connections).map(|_| Wire::to(&server.address));
    let wires = join_all(wires).await;
    let (used, begun) = (server.used(), Instant::now());
    let all = wires.into_iter().enumerate().map(|(n, mut wire)| {
        let request = request(server.token(n), ask.line, ask.kind, &ask.body);
        async move {
            let (end, mut times) = (Instant::now() + time, Vec::new());
            while Instant::now() < end {
                let begun = Instant::now();
                wire.call(&request).await;
                times.push(begun.elapsed());
            }
            times
        }
    });
    let times = spawned(all).await;
    load(times, begun.elapsed(), server.used() - used)
}

async fn spawned(
    all: impl Iterator<Item = impl Future<Output = Vec<Duration>> + Send + 'static>,
) -> Vec<Duration> {
    let all: JoinSet<_> = all.collect();
    all.join_all().await.into_iter().flatten().collect()
}

fn load(all: Vec<Duration>, time: Duration, used: Duration) -> Load {
    let mut times = Times::new();
    all.iter().for_each(|one| times.add(*one));
    Load {
        calls: all.len() as f64 / time.as_secs_f64(),
        micros: used.as_secs_f64() * 1e6 / all.len().max(1) as f64,
        times,
    }
}

/// A request, and how many tasks it is about.
struct Ask {
    what: &'static str,
    line: &'static str,
    kind: &'static str,
    body: String,
    tasks: usize,
}

async fn rates(setting: &Setting, report: &mut Report, file: &Path) {
    let time = setting.pick(Duration::from_secs(3), Duration::from_millis(300));
    let turns = setting.pick(3, 1);
    let store = support::open(file).await;
    let client = Client::new(&store);
    client.submit(task().id("there")).await.unwrap();
    let server = Server::of(file);
    let submit = |what, kind, body, tasks| Ask {
        what,
        line: "POST /v1/tasks",
        kind,
        body,
        tasks,
    };
    let read = |what, line| Ask {
        what,
        line,
        kind: JSON,
        body: String::new(),
        tasks: 1,
    };
    let one = submit("submits of one task", JSON, body(), 1);
    for callers in [1, 64, 1000] {
        let (mut alone, mut by_http) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            alone.push(library(&client, callers, time).await);
            by_http.push(http(&server, &one, callers, time).await);
        }
        tell(
            report,
            &format!("submits by the library, {callers} at once"),
            &alone,
            1,
        );
        let what = format!("{} by HTTP, {callers} connections", one.what);
        tell(report, &what, &by_http, 1);
        let pairs = by_http.iter().zip(&alone);
        let shares: Vec<f64> = pairs
            .map(|(http, library)| 100.0 * http.calls / library.calls)
            .collect();
        let goal = (callers == 64).then_some(Goal::Least(SHARE));
        report.median("  share of the library", &shares, "%", goal);
    }
    let array = format!("[{}]", vec![body(); SEVERAL].join(","));
    let lines = (body() + "\n").repeat(SEVERAL);
    let asks = [
        submit("submits of an array of 100", JSON, array, SEVERAL),
        submit("submits of 100 lines", LINES, lines, SEVERAL),
        read("reads of a task", "GET /v1/tasks/there"),
        read("lists of 100 tasks", "GET /v1/tasks?limit=100"),
    ];
    for ask in &asks {
        // A thousand times a hundred tasks would be a queue of seconds, and each connection has to be used within 5 s.
        let most = if ask.tasks > 1 { 64 } else { 1000 };
        for connections in [1, 64, 1000].into_iter().filter(|n| *n <= most) {
            let mut loads = Vec::new();
            for _ in 0..turns {
                loads.push(http(&server, ask, connections, time).await);
            }
            tell(
                report,
                &format!("{}, {connections} connections", ask.what),
                &loads,
                ask.tasks,
            );
        }
    }
    idle(report, &server).await;
}

fn tell(report: &mut Report, what: &str, loads: &[Load], tasks: usize) {
    let of = |read: &dyn Fn(&Load) -> f64| loads.iter().map(read).collect::<Vec<_>>();
    report.median(what, &of(&|load| load.calls), "/s", None);
    if tasks > 1 {
        report.median(
            "  tasks",
            &of(&|load| load.calls * tasks as f64),
            "/s",
            None,
        );
    }
    report.median("  p50", &of(&|load| load.times.ms(0.5)), "ms", None);
    report.median("  p99", &of(&|load| load.times.ms(0.99)), "ms", None);
    report.median(
        "  processor time each",
        &of(&|load| load.micros),
        "us",
        None,
    );
}

/// Measures the memory of connections that were used and are kept.
async fn idle(report: &mut Report, server: &Server) {
    let health = request(&server.tokens[0], "GET /v1/time", JSON, "");
    // What the first connections leave behind is there before.
    for round in 0..2 {
        let before = server.resident();
        let mut wires = join_all((0..STREAMS).map(|_| Wire::to(&server.address))).await;
        for wire in &mut wires {
            wire.call(&health).await;
        }
        if round == 1 {
            let each = (server.resident() - before) / STREAMS as f64;
            report.one("memory of an idle connection", each.max(0.0), "B", None);
        }
    }
}

async fn half_load(setting: &Setting, report: &mut Report, file: &Path) {
    const CONNECTIONS: usize = 64;
    let time = setting.pick(10.0, 1.0);
    let store = support::open(file).await;
    let server = Server::of(file);
    let ask = Ask {
        what: "submits",
        line: "POST /v1/tasks",
        kind: JSON,
        body: body(),
        tasks: 1,
    };
    let highest = http(
        &server,
        &ask,
        CONNECTIONS,
        Duration::from_secs_f64(time / 4.0),
    )
    .await;
    report.one(
        "submits by HTTP, 64 connections, highest load",
        highest.calls,
        "/s",
        None,
    );
    // A connection that is free takes the next request that is due.
    let (give, take) = async_channel(CONNECTIONS, &server).await;
    let times = Arc::new(Mutex::new(Times::new()));
    let rate = highest.calls / 2.0;
    support::paced(rate, time, |_, due| {
        let (give, take, times) = (give.clone(), take.clone(), times.clone());
        async move {
            let (mut wire, request): (Wire, Arc<[u8]>) = take.lock().await.recv().await.unwrap();
            wire.call(&request).await;
            let took = Duration::from_nanos(support::monotonic() - due);
            times.lock().unwrap().add(took);
            let _ = give.send((wire, request));
        }
    })
    .await;
    let what = "due submit to its answer, half of that load";
    times
        .lock()
        .unwrap()
        .tell(report, what, Some(Goal::Most(LATEST)));
    drop(store);
}

type Free = (Wire, Arc<[u8]>);
type Give = tokio::sync::mpsc::UnboundedSender<Free>;
type Take = Arc<tokio::sync::Mutex<tokio::sync::mpsc::UnboundedReceiver<Free>>>;

/// Opens connections, and returns a queue of those that are free.
async fn async_channel(connections: usize, server: &Server) -> (Give, Take) {
    let (give, take) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..connections {
        let wire = Wire::to(&server.address).await;
        let request = request(server.token(n), "POST /v1/tasks", JSON, &body());
        assert!(give.send((wire, request.into())).is_ok());
    }
    (give, Arc::new(tokio::sync::Mutex::new(take)))
}

/// Measures how long a change takes to every one of many streams, and their memory.
async fn streams(setting: &Setting, report: &mut Report, file: &Path) {
    let changes = setting.pick(50, 5);
    let store = support::open(file).await;
    let client = Client::new(&store);
    let server = Server::of(file);
    let before = server.resident();
    let mut wires = Vec::new();
    for n in 0..STREAMS {
        let mut wire = Wire::to(&server.address).await;
        let request = request(server.token(n), "GET /v1/changes", JSON, "");
        wire.send(&request).await;
        wire.until(b"text/event-stream").await;
        wires.push(wire);
    }
    let each = (server.resident() - before) / STREAMS as f64;
    report.one("memory of a stream of changes", each, "B", None);
    let (begun, times) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(Mutex::new(Times::new())),
    );
    let used = server.used();
    for n in 0..changes {
        let id = format!("change-{n}-");
        let mark: Arc<[u8]> = format!("\"{id}\"").into_bytes().into();
        begun.store(support::monotonic(), Ordering::SeqCst);
        let submitted = client.submit(task().id(&*id));
        let mut all = JoinSet::new();
        for mut wire in wires.drain(..) {
            let (mark, begun, times) = (mark.clone(), begun.clone(), times.clone());
            all.spawn(async move {
                wire.until(&mark).await;
                let took = support::monotonic() - begun.load(Ordering::SeqCst);
                times.lock().unwrap().add(Duration::from_nanos(took));
                wire
            });
        }
        submitted.await.unwrap();
        wires = all.join_all().await;
    }
    let what = "from the call of submit to the arrival at each of 1,000 streams";
    let times = times.lock().unwrap();
    times.tell(report, what, None);
    report.one(format!("{what}: max"), times.max_ms(), "ms", None);
    let each = (server.used() - used).as_secs_f64() * 1e6 / (changes * STREAMS) as f64;
    report.one("  processor time for each event", each, "us", None);
}

/// Measures first pages and counts of many tasks.
async fn large(setting: &Setting, report: &mut Report, file: &Path) {
    let tasks = setting.pick(1_000_000, 10_000);
    let store = support::open(file).await;
    support::fill(&store, tasks, |n| task().id(support::id(n))).await;
    drop(store);
    let server = Server::of(file);
    let time = setting.pick(Duration::from_secs(2), Duration::from_millis(200));
    for (what, line) in [
        ("first page of 100 by submit", "GET /v1/tasks"),
        ("first page of 100 by id", "GET /v1/tasks?order=id"),
        ("first page of 100 of a kind", "GET /v1/tasks?kind=bench"),
        ("the newest page of 100", "GET /v1/tasks?reversed=true"),
        ("counts", "GET /v1/counts"),
        ("why tasks wait", "GET /v1/why"),
        ("the numbers for an autoscaler", "GET /v1/scale?kind=bench"),
    ] {
        let ask = Ask {
            what,
            line,
            kind: JSON,
            body: String::new(),
            tasks: 1,
        };
        let load = http(&server, &ask, 1, time).await;
        load.times
            .tell(report, &format!("{tasks} tasks: {what}"), None);
    }
}
