//! Durable transitions a second, with 1,000 tasks in flight, beside the rate at which SQLite alone
//! takes updates of rows of the same size, in turns.
//!
//! Two populations: the 1,000 tasks are alone in the file (every page that is written holds many
//! of them), or they are spread among 100,000 (every task is on a page of its own). The raw file
//! has as many rows, and the same ones of them are updated.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::{runtime::Runtime, sync::watch, time::sleep};
use windlass::{
    ActionKind, Effects, Json, Message, NewTask, Runner, StateKind, TaskContext, TaskState,
    statemachine::machine::{Step, Write},
    store::{Claim, Commit, Lease, NodeSpec, NodeStatus, Store},
};

use crate::{
    raw::Raw,
    report::{Goal, Report},
    support::{self, Meter, Rate, Setting, tell_rates},
};

pub(crate) const IN_FLIGHT: usize = 1000;
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
    let mut node = runtime.block_on(Node::start(&file, among));
    let mut held = runtime.block_on(Held::new(&folder.path().join("held.db"), among));
    runtime.block_on(node.rate(time, CHECKPOINT));
    let size = Connection::open(&file)
        .unwrap()
        .query_row(
            "SELECT CAST(avg(length(s.state)) AS INTEGER)
             FROM states s JOIN tasks t USING (n) WHERE t.kind = 'hot'",
            (),
            |row| row.get::<_, i64>(0),
        )
        .unwrap();
    let mut raw = Raw::new(
        &folder.path().join("raw.db"),
        among,
        IN_FLIGHT,
        size as usize,
    );

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
        rates[0].1.push(raw.updates(time));
        for mode in [CHECKPOINT, RUN, WITHIN] {
            let rate = runtime.block_on(node.rate(time, mode));
            rates[1 + usize::from(mode)].1.push(rate);
        }
        rates[4].1.push(held.rate(&runtime, time));
    }
    runtime.block_on(node.runner.shutdown());
    let goal = |at| (at == 1 || at == 2).then_some(Goal::Least(60.0));
    tell_rates(report, &rates, goal);
}

async fn fill(store: &Store, among: usize) {
    let every = among / IN_FLIGHT;
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
}

impl Node {
    pub(crate) async fn start(file: &std::path::Path, among: usize) -> Self {
        let store = support::open(file).await;
        fill(&store, among).await;
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
        let runner = Runner::builder(&store)
            .slots(IN_FLIGHT as u32)
            .handler("hot", handler)
            .start()
            .await
            .unwrap();
        let node = Self {
            runner,
            shared,
            gate,
        };
        node.rest().await;
        node
    }

    async fn rest(&self) {
        while self.shared.waiting.load(Ordering::SeqCst) < IN_FLIGHT as u64 {
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
            RUN => return Message::run(),
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
    pub(crate) async fn new(file: &std::path::Path, among: usize) -> Self {
        let store = support::open(file).await;
        fill(&store, among).await;
        let mut spec = NodeSpec::new("held".parse().unwrap());
        spec.slots = 1;
        let coordinator = store.coordinator();
        let lease = coordinator
            .join(&spec, Duration::from_secs(3600))
            .await
            .unwrap();
        let every = among / IN_FLIGHT;
        let ids = (0..IN_FLIGHT).map(|n| support::id(n * every).parse().unwrap());
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
    Commit {
        claim: claim.clone(),
        write: Write {
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
    }
}
