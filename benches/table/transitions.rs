//! Durable transitions a second, with 1,000 tasks in flight, compared with the rate at which SQLite
//! alone takes updates of rows of the same size, in turns.
//!
//! Two populations: the 1,000 tasks are alone in the file (every page that is written holds many of
//! them), or they are spread among 100,000 (every task is on its own page). The raw file has as
//! many rows, and the same ones of them are updated.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::{runtime::Runtime, sync::watch, time::sleep};
use windlass::{
    ActionKind, Effects, Json, Message, NewTask, Runner, StateKind, TaskContext, TaskState, runner,
    statemachine::machine::{Step, Write},
    store::{Claim, Commit, Lease, NodeSpec, NodeStatus, Store},
};

use crate::{
    raw::{GROUP, Raw},
    report::{Goal, Report},
    support::{self, Meter, Rate, Setting, tell_rates},
};

pub(crate) const IN_FLIGHT: usize = 1000;
/// How many tasks are in flight, when they are few.
pub(crate) const FEW: [usize; 3] = [1, 10, 100];
/// Bytes of the data that a checkpoint brings.
const DATA: usize = 300;

/// What the handlers do.
pub(crate) const CHECKPOINT: u8 = 0;
pub(crate) const RUN: u8 = 1;
pub(crate) const WITHIN: u8 = 2;

pub(crate) fn run(setting: &Setting, report: &mut Report) {
    for among in [IN_FLIGHT, 100_000] {
        population(setting, report, among);
    }
}

fn population(setting: &Setting, report: &mut Report, among: usize) {
    let runtime = support::runtime();
    let (folder, rounds) = (setting.folder(), setting.pick(5, 2));
    let time = setting.pick(Duration::from_secs(3), Duration::from_millis(700));
    let file = folder.path().join("runner.db");
    let mut node = runtime.block_on(Node::start(&file, among, IN_FLIGHT));
    let mut held = runtime.block_on(Held::new(&folder.path().join("held.db"), among, IN_FLIGHT));
    runtime.block_on(node.rate(time, CHECKPOINT));
    let size = stored(&file);
    let mut raw = Raw::new(&folder.path().join("raw.db"), among, IN_FLIGHT, size);

    let count = match among {
        IN_FLIGHT => "alone",
        _ => "among 100,000",
    };
    let mut rates: Vec<(String, Vec<Rate>)> = [
        &format!("raw updates of {size} B"),
        "handlers return Checkpoint",
        "handlers return Run",
        "checkpoint() in a handler",
        "coordinator.commit alone",
    ]
    .map(|what| (format!("{what}, 1,000 {count}"), Vec::new()))
    .into();
    for _ in 0..rounds {
        rates[0].1.push(raw.updates(time, GROUP));
        node.turn(&runtime, time, &mut rates);
        rates[4].1.push(held.rate(&runtime, time));
    }
    runtime.block_on(node.runner.shutdown());
    let goal = |at| (at == 1 || at == 2).then_some(Goal::Least(60.0));
    tell_rates(report, &rates, goal);
}

/// The average size of the stored states.
fn stored(file: &Path) -> usize {
    let conn = Connection::open(file).unwrap();
    let sql = "SELECT CAST(avg(length(s.state)) AS INTEGER)
             FROM windlass_states s JOIN windlass_tasks t USING (n) WHERE t.kind = 'hot'";
    let size: i64 = conn.query_row(sql, (), |row| row.get(0)).unwrap();
    size as usize
}

/// As [`run`], with few tasks in flight, alone in their file: compared with transactions of as many
/// updates, one transaction after the other.
pub(crate) fn few(setting: &Setting, report: &mut Report) {
    let runtime = support::runtime();
    let (folder, rounds) = (setting.folder(), setting.pick(5, 2));
    let time = setting.pick(Duration::from_secs(2), Duration::from_millis(500));
    for in_flight in FEW {
        let file = |name| folder.path().join(format!("{name}-{in_flight}.db"));
        let runner = file("runner");
        let mut node = runtime.block_on(Node::start(&runner, in_flight, in_flight));
        let mut held = runtime.block_on(Held::new(&file("held"), in_flight, in_flight));
        runtime.block_on(node.rate(time, CHECKPOINT));
        let mut raw = Raw::new(&file("raw"), in_flight, in_flight, stored(&runner));
        let mut rates = node.rows(&format!("raw, transactions of {in_flight} updates"));
        let handed = "raw, a task that hands each update and line of history to a thread";
        if in_flight == 1 {
            rates.push((format!("{handed}, 1 in flight"), Vec::new()));
        }
        for _ in 0..rounds {
            rates[0].1.push(raw.updates(time, in_flight));
            node.turn(&runtime, time, &mut rates);
            rates[4].1.push(held.rate(&runtime, time));
            if let Some((_, handed)) = rates.get_mut(5) {
                handed.push(raw.handed_over(&runtime, time));
            }
        }
        runtime.block_on(node.runner.shutdown());
        tell_rates(report, &rates, |_| None);
    }
}

async fn fill(store: &Store, among: usize, in_flight: usize) {
    let every = among / in_flight;
    support::fill(store, among, |n| {
        let kind = if n.is_multiple_of(every) {
            "hot"
        } else {
            "cold"
        };
        NewTask::new(kind).id(support::id(n)).props(&n)
    })
    .await;
}

fn data(n: u64) -> String {
    let mut data = "x".repeat(DATA - 2);
    let n = n.to_string();
    data.replace_range(..n.len(), &n);
    data
}

/// What the handlers look at.
struct Shared {
    open: AtomicBool,
    mode: AtomicU8,
    done: AtomicU64,
    waiting: AtomicU64,
}

/// A runner whose handlers do nothing but move on, while the gate is open.
pub(crate) struct Node {
    pub(crate) runner: Runner,
    shared: Arc<Shared>,
    gate: watch::Sender<()>,
    in_flight: usize,
}

impl Node {
    pub(crate) async fn start(file: &Path, among: usize, in_flight: usize) -> Self {
        let store = support::open(file).await;
        fill(&store, among, in_flight).await;
        Self::start_on(&store, in_flight, |builder| builder).await
    }

    /// Starts a node on a store that has this many tasks of the kind `hot`, and lets `also` add to it.
    pub(crate) async fn start_on(
        store: &Store,
        in_flight: usize,
        also: impl FnOnce(runner::Builder) -> runner::Builder,
    ) -> Self {
        let shared = Arc::new(Shared {
            open: AtomicBool::new(false),
            mode: AtomicU8::new(CHECKPOINT),
            done: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        });
        let (gate, opened) = watch::channel(());
        let handler = {
            let shared = shared.clone();
            move |task: TaskContext| move_on(task, shared.clone(), opened.clone())
        };
        let builder = Runner::builder(store)
            .slots(in_flight as u32)
            .handler("hot", handler);
        let runner = also(builder).start().await.unwrap();
        let node = Self {
            runner,
            shared,
            gate,
            in_flight,
        };
        node.rest().await;
        node
    }

    /// The rows of the rates, without figures: raw first.
    pub(crate) fn rows(&self, raw: &str) -> Vec<(String, Vec<Rate>)> {
        let what = [
            raw,
            "handlers return Checkpoint",
            "handlers return Run",
            "checkpoint() in a handler",
            "coordinator.commit alone",
        ];
        let row = |what: &str| (format!("{what}, {} in flight", self.in_flight), Vec::new());
        what.map(row).into()
    }

    /// Measures each way in which handlers move on.
    pub(crate) fn turn(
        &mut self,
        runtime: &Runtime,
        time: Duration,
        rates: &mut [(String, Vec<Rate>)],
    ) {
        for mode in [CHECKPOINT, RUN, WITHIN] {
            let rate = runtime.block_on(self.rate(time, mode));
            rates[1 + usize::from(mode)].1.push(rate);
        }
    }

    async fn rest(&self) {
        while self.shared.waiting.load(Ordering::SeqCst) < self.in_flight as u64 {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Opens the gate for a while; answers how many transitions a second became durable.
    pub(crate) async fn rate(&mut self, time: Duration, mode: u8) -> Rate {
        self.shared.mode.store(mode, Ordering::SeqCst);
        self.shared.waiting.store(0, Ordering::SeqCst);
        self.shared.open.store(true, Ordering::SeqCst);
        self.gate.send_replace(());
        // The first moments are the herd's.
        sleep(time / 10).await;
        let (meter, before) = (Meter::start(), self.shared.done.load(Ordering::SeqCst));
        sleep(time).await;
        let after = self.shared.done.load(Ordering::SeqCst);
        let rate = meter.rate(after - before);
        self.shared.open.store(false, Ordering::SeqCst);
        self.rest().await;
        rate
    }
}

/// A handler starts when the transition before is durable: so each start is one done.
async fn move_on(task: TaskContext, shared: Arc<Shared>, mut gate: watch::Receiver<()>) -> Message {
    loop {
        if !shared.open.load(Ordering::SeqCst) {
            gate.mark_unchanged();
            shared.waiting.fetch_add(1, Ordering::SeqCst);
            tokio::select! {
                stop = task.stop_requested() => return stop.message(),
                _ = gate.changed() => {}
            }
        }
        let n = shared.done.fetch_add(1, Ordering::Relaxed);
        match shared.mode.load(Ordering::Relaxed) {
            CHECKPOINT => return Message::checkpoint().with_data(&data(n)),
            // With another number each time: a handler that changes nothing is slowed down.
            RUN => return Message::run().with_data(&n),
            _ => {
                if task.checkpoint(&data(n)).await.is_err() {
                    return task.stop_requested().await.message();
                }
            }
        }
    }
}

/// Claims without a runner: what the store alone takes.
pub(crate) struct Held {
    store: Store,
    lease: Lease,
    claims: Vec<(Claim, TaskState)>,
}

impl Held {
    pub(crate) async fn new(file: &Path, among: usize, in_flight: usize) -> Self {
        let store = support::open(file).await;
        fill(&store, among, in_flight).await;
        let mut spec = NodeSpec::new("held".parse().unwrap());
        spec.slots = 1;
        let coordinator = store.coordinator();
        let lease = coordinator
            .join(&spec, Duration::from_secs(3600))
            .await
            .unwrap();
        let every = among / in_flight;
        let ids = (0..in_flight).map(|n| support::id(n * every).parse().unwrap());
        let claimed = coordinator.claim(&lease, ids.collect()).await;
        let claims = claimed
            .into_iter()
            .map(|c| c.unwrap().unwrap())
            .map(|c| (c.claim, c.state))
            .collect();
        Self {
            store,
            lease,
            claims,
        }
    }

    /// Four callers, each with its part of the claims: while one is answered the others wait.
    pub(crate) fn rate(&mut self, runtime: &Runtime, time: Duration) -> Rate {
        let (begun, meter) = (Instant::now(), Meter::start());
        let part = self.claims.len().div_ceil(4);
        let mut all = std::mem::take(&mut self.claims);
        let mut callers = Vec::new();
        while !all.is_empty() {
            let mut mine = all.split_off(all.len().saturating_sub(part));
            let coordinator = self.store.coordinator().clone();
            callers.push(runtime.spawn(async move {
                let mut done = 0;
                while begun.elapsed() < time {
                    let commits = mine.iter_mut().map(|(claim, state)| next(claim, state));
                    for answer in coordinator.commit(commits.collect()).await {
                        answer.unwrap();
                        done += 1;
                    }
                }
                (done, mine)
            }));
        }
        let mut done = 0;
        for caller in callers {
            let (its, claims) = runtime.block_on(caller).unwrap();
            done += its;
            self.claims.extend(claims);
        }
        let rate = meter.rate(done);
        let status = NodeStatus::default();
        runtime
            .block_on(self.store.coordinator().renew(&self.lease, &status))
            .unwrap();
        rate
    }
}

fn next(claim: &Claim, state: &mut TaskState) -> Commit {
    state.version += 1;
    state.data = Some(Json::new("data", &data(state.version)).unwrap());
    Commit::new(
        claim.clone(),
        Write {
            follows: state.version - 1,
            state: state.clone(),
            steps: vec![Step {
                message: ActionKind::Checkpoint,
                from: StateKind::Runnable,
                to: StateKind::Runnable,
                command: None,
            }],
            outcomes: Vec::new(),
            drop_claim: false,
            effects: Effects::default(),
        },
    )
}
