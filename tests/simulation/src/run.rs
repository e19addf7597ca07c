//! [`Plan`]: one run of everything at once, from a seed.

mod bounds;
mod calm;
mod clients;
mod disturb;
mod driver;
mod extras;
mod goes_back;
mod idle;
mod memory;
mod mood;
mod nodes;
mod probes;
mod remote;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::Duration,
};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use windlass::{Fence, TaskId};
use windlass_robustness::{
    witness::{Line, Lines, Said},
    world::World,
};

use self::{
    calm::Calm,
    driver::Driver,
    idle::Idle,
    memory::Memory,
    remote::{Ledger, WorkerServers},
};
use crate::{
    faults::{self, Fault, What},
    locked, micros,
    network::Network,
    trace::Trace,
};

/// How long all processes run at a time. What one sends, another gets at its next turn at the earliest.
const TURN: Duration = Duration::from_millis(5);
/// Everything has to be over within this virtual time.
const LONGEST: Duration = Duration::from_secs(600);
/// How long the feed of the clients may need to resume.
const CALM: Duration = Duration::from_secs(3);
/// How many servers and remote workers a run has, if it has them.
const SERVERS: usize = 2;
const WORKERS: usize = 2;
/// How many members etcd has.
const MEMBERS: usize = 3;

/// The store of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Three members of etcd.
    Etcd,
    /// The memory store.
    Memory,
}

/// What a run does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed of every random choice.
    pub seed: u64,
    /// The store.
    pub ground: Ground,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many schedules the clients create.
    pub schedules: u32,
    /// Whether there are two servers and two remote workers.
    pub remote: bool,
    /// How many tasks the clients submit, beside those of other traffic.
    pub tasks: usize,
    /// For how long there is traffic, and faults.
    pub over: Duration,
    /// How long leases last.
    pub ttl: Duration,
    /// The time limit of a request.
    pub timeout: Duration,
    /// The faults.
    pub faults: Vec<Fault>,
    /// When what is stored is saved, and when the whole etcd goes back to that. Such a run ends with its nodes.
    pub goes_back: Option<(Duration, Duration)>,
    /// How many of the last lines of the trace are kept.
    pub trace: usize,
    /// Which further traffic there is, a bit each.
    pub extras: u32,
    /// Whether the first node takes only tasks with a label.
    pub sides: bool,
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let nodes = match rng.u32(0..8) {
            0 => 1,
            1 => 2,
            _ => rng.usize(3..=4),
        };
        let over = Duration::from_secs(rng.u64(5..=10));
        let remote = rng.bool();
        let processes = nodes + if remote { SERVERS + WORKERS } else { 0 };
        let mut plan = Self {
            seed,
            ground: match rng.u32(0..4) {
                0 => Ground::Memory,
                _ => Ground::Etcd,
            },
            nodes,
            remote,
            schedules: rng.u32(0..3),
            tasks: rng.usize(30..60),
            over,
            ttl: Duration::from_secs(rng.u64(2..=4)),
            timeout: Duration::from_millis(rng.u64(1000..5000)),
            faults: faults::draw(&mut rng, over, (processes, MEMBERS)),
            goes_back: None,
            trace: 0,
            extras: 0,
            sides: false,
        };
        plan.draw_mood(&mut rng, processes);
        plan.sides = plan.nodes > 1 && rng.bool();
        // A quarter of the other runs has each.
        if plan.goes_back.is_none() && !plan.has_wrong_clocks() {
            plan.extras = rng.u32(..) & rng.u32(..);
        }
        plan
    }

    /// Leaves out all faults but those of these numbers.
    pub fn keep_faults(&mut self, kept: &[usize]) {
        let faults = std::mem::take(&mut self.faults).into_iter().enumerate();
        let kept = faults.filter(|(number, _)| kept.contains(number));
        self.faults = kept.map(|(_, fault)| fault).collect();
    }

    /// Runs, in a thread of its own. Only the first run of a process repeats its seed: see [`isolated`](crate::isolated).
    pub fn run(&self) -> Report {
        let plan = self.clone();
        let ran = thread::Builder::new()
            .name(format!("seed {}", self.seed))
            .stack_size(16 << 20)
            .spawn(move || play(&plan));
        match ran.map(thread::JoinHandle::join) {
            Ok(Ok(report)) => report,
            Ok(Err(_)) => Report::failed("the simulation itself panicked"),
            Err(error) => Report::failed(&format!("there is no thread: {error}")),
        }
    }
}

/// What a run has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How many requests went to the members.
    pub requests: u64,
    /// How many tasks there were in the end.
    pub tasks: usize,
    /// How many changes their histories have.
    pub changes: usize,
    /// How many runs remote workers have started.
    pub remote_runs: usize,
    /// How long it took, in virtual time.
    pub took: Duration,
    /// What does not hold.
    pub failure: Option<String>,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}

impl Report {
    pub(crate) fn failed(why: &str) -> Self {
        Self {
            failure: Some(why.to_owned()),
            ..Self::default()
        }
    }
}

/// What the clients are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Phase {
    Disturbed,
    Settling,
    Ending,
    Reading,
    Over,
}

/// What the processes of a run share.
#[derive(Clone)]
struct Shared {
    plan: Arc<Plan>,
    network: Network,
    /// The memory store, in a run on it.
    memory: Option<Memory>,
    trace: Trace,
    worker_servers: WorkerServers,
    ledger: Ledger,
    lines: Lines,
    phase: Arc<AtomicU8>,
    calm: Calm,
    idle: Idle,
    /// Why processes have ended by themselves, by their ids.
    endings: Arc<Mutex<BTreeMap<u32, String>>>,
    end: Arc<Mutex<Option<Result<World, String>>>>,
}

impl Shared {
    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        locked(&self.lines)
    }

    /// Returns the handlers that run: the process, the task and the fence of each, and when it began.
    fn runs(&self) -> BTreeMap<(u32, TaskId, Fence), u64> {
        let mut runs = BTreeMap::new();
        for Line { at, pid, said } in self.lines().iter() {
            match said {
                Said::Start { task, fence, .. } => {
                    runs.insert((*pid, task.clone(), *fence), *at);
                }
                Said::End { task, fence } => {
                    runs.remove(&(*pid, task.clone(), *fence));
                }
                Said::Killed => runs.retain(|(of, ..), _| of != pid),
                _ => {}
            }
        }
        runs
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase() == phase as u8
    }
}

fn play(plan: &Plan) -> Report {
    fastrand::seed(plan.seed);
    windlass::testing::set_repeatable(true);
    let _log = (plan.trace > 0).then(|| crate::log::record(plan.trace));
    let trace = crate::log::trace(plan.trace);
    match Driver::start(plan, trace) {
        Ok(driver) => driver.drive(),
        Err(error) => Report::failed(&format!("the run did not start: {error}")),
    }
}
