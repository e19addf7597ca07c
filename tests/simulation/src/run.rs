//! [`Plan`]: one run of everything at once, from a seed.

mod clients;
mod memory;
mod nodes;
mod remote;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU8, Ordering},
    },
    thread,
    time::Duration,
};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use windlass_robustness::{
    invariants,
    witness::{Line, Lines, Said},
    world::World,
};

use self::{
    memory::Memory,
    remote::{Desks, Ledger},
};
use crate::{
    etcd::Servers,
    faults::{self, Fault, What},
    network::{Condition, Network},
    process::{Process, START},
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
    /// How many of the last lines of the trace are kept.
    pub trace: usize,
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
        Self {
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
            trace: 0,
        }
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
    desks: Desks,
    ledger: Ledger,
    lines: Lines,
    phase: Arc<AtomicU8>,
    end: Arc<Mutex<Option<Result<World, String>>>>,
}

impl Shared {
    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase() == phase as u8
    }
}

/// What a process of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Node,
    Server,
    Worker,
}

impl Role {
    fn of(plan: &Plan, number: usize) -> Self {
        match number.saturating_sub(plan.nodes) {
            0 => Self::Node,
            at if at <= SERVERS => Self::Server,
            _ => Self::Worker,
        }
    }
}

/// A node of a run, a server or a remote worker: its process while there is one.
struct Node {
    number: usize,
    role: Role,
    process: Option<Process>,
    journal: Arc<windlass_robustness::witness::Journal>,
    stop: Arc<Notify>,
    ahead: Arc<AtomicI64>,
    is_paused: bool,
    /// When it is started again.
    starts_at: Option<Duration>,
    /// Whether it was asked to shut down.
    is_asked: bool,
}

struct Driver {
    shared: Shared,
    servers: Arc<Servers>,
    trace: Trace,
    rng: Rng,
    now: Duration,
    carrier: Process,
    clients: Process,
    nodes: Vec<Node>,
    pids: u32,
    /// Until when the feed of the clients may be late.
    disturbed_until: Duration,
    /// What ends, and when.
    ends: Vec<(Duration, What)>,
}

fn play(plan: &Plan) -> Report {
    fastrand::seed(plan.seed);
    windlass::testing::set_repeatable(true);
    let _log = (plan.trace > 0).then(|| crate::log::record(plan.trace));
    let trace = crate::log::trace(plan.trace);
    match Driver::start(plan, trace.clone()) {
        Ok(driver) => driver.drive(),
        Err(error) => Report::failed(&format!("the run did not start: {error}")),
    }
}

fn micros(of: Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX)
}

impl Driver {
    fn start(plan: &Plan, trace: Trace) -> std::io::Result<Self> {
        let servers = Arc::new(Servers::new(MEMBERS));
        let (network, carry) = Network::new(servers.clone(), plan.seed, trace.clone());
        let shared = Shared {
            plan: Arc::new(plan.clone()),
            network,
            memory: (plan.ground == Ground::Memory).then(Memory::new),
            trace: trace.clone(),
            desks: Desks::new(plan.seed),
            ledger: Ledger::default(),
            lines: Lines::default(),
            phase: Arc::new(AtomicU8::new(Phase::Disturbed as u8)),
            end: Arc::default(),
        };
        let zero = Duration::ZERO;
        let carrier = Process::start("network", 1, zero, Arc::default(), |_| carry)?;
        let clients = {
            let shared = shared.clone();
            Process::start("clients", 2, zero, Arc::default(), |clock| async move {
                clients::main(shared, clock).await;
            })?
        };
        let mut driver = Self {
            shared,
            servers,
            trace,
            rng: Rng::with_seed(plan.seed ^ 0x5eed),
            now: zero,
            carrier,
            clients,
            nodes: Vec::new(),
            pids: 2,
            disturbed_until: CALM,
            ends: Vec::new(),
        };
        let wall = START.as_microsecond();
        driver.witness(2, Said::Clock { wall });
        let remote = if plan.remote { SERVERS + WORKERS } else { 0 };
        for number in 1..=plan.nodes + remote {
            let mut node = Node {
                number,
                role: Role::of(plan, number),
                process: None,
                journal: Arc::new(windlass_robustness::witness::Journal::kept(
                    &driver.shared.lines,
                )),
                stop: Arc::default(),
                ahead: Arc::default(),
                is_paused: false,
                starts_at: None,
                is_asked: false,
            };
            driver.launch(&mut node)?;
            driver.nodes.push(node);
        }
        Ok(driver)
    }

    fn witness(&self, pid: u32, said: Said) {
        let at = micros(self.now);
        let lines = &self.shared.lines;
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(Line { at, pid, said });
    }

    fn launch(&mut self, node: &mut Node) -> std::io::Result<()> {
        self.pids += 1;
        let pid = self.pids;
        let name = match node.role {
            Role::Node => nodes::name(node.number),
            role => format!("{role:?} {}", node.number),
        };
        if node.role == Role::Node {
            let launched = nodes::node_name(node.number);
            self.witness(
                pid,
                Said::Launched {
                    node: launched.clone(),
                },
            );
            self.witness(
                pid,
                Said::Serves {
                    node: launched,
                    kinds: Vec::new(),
                    side: None,
                },
            );
        }
        node.journal = Arc::new(windlass_robustness::witness::Journal::kept(
            &self.shared.lines,
        ));
        node.stop = Arc::default();
        let (shared, journal, stop) =
            (self.shared.clone(), node.journal.clone(), node.stop.clone());
        let (number, role) = (node.number, node.role);
        let main = move |clock| nodes::main(shared, (number, role), journal, stop, clock);
        self.trace.say(|| format!("{name} starts as {pid}"));
        let process = Process::start(name, pid, self.now, node.ahead.clone(), main)?;
        node.process = Some(process);
        (node.starts_at, node.is_asked, node.is_paused) = (None, false, false);
        Ok(())
    }

    fn drive(mut self) -> Report {
        let mut faults = self.shared.plan.faults.clone();
        faults.reverse();
        let mut healed = false;
        while !self.shared.is_in(Phase::Over) && self.now < LONGEST {
            self.now += TURN;
            self.trace.set_time(micros(self.now));
            self.servers.advance(self.now);
            if let Some(memory) = &self.shared.memory {
                memory.set_time(micros(self.now));
            }
            if self.shared.is_in(Phase::Disturbed) {
                while let Some(fault) = faults.pop_if(|fault| fault.at <= self.now) {
                    self.begin(fault);
                }
                self.end_what_is_over();
            } else if !healed {
                healed = true;
                self.heal();
            }
            self.look_after_nodes();
            self.run_processes();
        }
        self.report()
    }

    fn run_processes(&mut self) {
        let now = self.now;
        let mut turns: Vec<usize> = (0..self.nodes.len() + 2).collect();
        self.rng.shuffle(&mut turns);
        for turn in turns {
            match turn {
                0 => self.carrier.run_to(now),
                1 => self.clients.run_to(now),
                node => {
                    let node = &mut self.nodes[node - 2];
                    if let Some(process) = &mut node.process
                        && !node.is_paused
                    {
                        process.run_to(now);
                    }
                }
            }
        }
    }

    /// Starts nodes whose time has come, and those that ended by themselves; ends those that were asked.
    fn look_after_nodes(&mut self) {
        let is_ending = self.shared.phase() >= Phase::Ending as u8;
        let mut nodes = std::mem::take(&mut self.nodes);
        // Workers leave by a server, so servers end last.
        let is_worker = |node: &Node| node.role == Role::Worker && node.process.is_some();
        let have_workers = nodes.iter().any(is_worker);
        for node in &mut nodes {
            let is_needed = node.role == Role::Server && have_workers;
            if is_ending && !node.is_asked && !is_needed {
                node.is_asked = true;
                node.starts_at = None;
                node.stop.notify_one();
            }
            if node.process.as_ref().is_some_and(Process::is_over) {
                node.process = None;
                if !is_ending && node.starts_at.is_none() {
                    node.starts_at = Some(self.now + Duration::from_millis(500));
                }
            }
            let is_due = node.starts_at.is_some_and(|at| at <= self.now);
            if node.process.is_none() && is_due && self.launch(node).is_err() {
                // There is no runtime; the next turn tries again.
                node.starts_at = Some(self.now);
            }
        }
        let all_over = nodes.iter().all(|node| node.process.is_none());
        self.nodes = nodes;
        if self.shared.is_in(Phase::Ending) && all_over {
            self.shared.enter(Phase::Reading);
        }
    }

    fn kill(&mut self, at: usize, restart: Duration) {
        let node = &mut self.nodes[at];
        if let Some(process) = node.process.take() {
            let pid = process.pid;
            node.journal.close();
            process.kill();
            node.is_paused = false;
            match node.role {
                Role::Node => {}
                Role::Server => self.shared.desks.close(node.number),
                Role::Worker => self.shared.ledger.killed(pid),
            }
            self.trace.say(|| format!("process {pid} is killed"));
            self.witness(pid, Said::Killed);
        }
        self.nodes[at].starts_at = Some(self.now + restart);
    }

    fn lines_of(&self, process: Option<usize>, to: Option<usize>, condition: Condition) {
        let processes = match process {
            Some(process) => process..=process,
            None => 0..=self.nodes.len(),
        };
        for process in processes {
            for member in (0..MEMBERS).filter(|at| to.is_none_or(|to| to == *at)) {
                self.shared.network.set(process, member, condition);
            }
        }
    }

    fn begin(&mut self, fault: Fault) {
        let Fault { lasts, what, .. } = fault;
        self.trace.say(|| format!("fault: {what:?} for {lasts:?}"));
        if let Some(memory) = &self.shared.memory {
            memory.disturb(&mut self.rng, &what);
        }
        match &what {
            What::Kill(node) => self.kill(*node - 1, lasts),
            What::KillAll => (0..self.nodes.len()).for_each(|at| self.kill(at, lasts)),
            What::Pause(node) => {
                let node = &mut self.nodes[*node - 1];
                // A worker that stands still beyond its lease may overlap with the next one for a moment.
                if let Some(process) = &node.process
                    && !node.is_paused
                    && node.role != Role::Worker
                {
                    node.is_paused = true;
                    let pid = process.pid;
                    self.witness(pid, Said::Stopped);
                }
            }
            What::Stop(node) => {
                let node = &mut self.nodes[*node - 1];
                node.is_asked = true;
                node.stop.notify_one();
                node.starts_at = Some(self.now + lasts);
            }
            What::Lines(process, to, condition) => self.lines_of(*process, *to, *condition),
            What::Break(process) => self.shared.network.break_all(*process),
            What::Down(member) => {
                self.shaken("a member is down");
                self.shared.network.set_down(*member, true);
            }
            What::NoLeader => {
                self.shaken("there is no leader");
                self.servers.set_leader(false);
            }
            What::Full => self.servers.set_full(true),
            // The feed of the clients has to see every change: it is never compacted away under it.
            What::Compact(_) if self.now < self.disturbed_until => {}
            What::Compact(kept) => self.servers.compact_but(*kept),
            What::Clock(node, ahead) => {
                let clock = &self.nodes[*node - 1].ahead;
                clock.store(*ahead, Ordering::Relaxed);
            }
        }
        if what.is_of_clients() {
            self.disturbed_until = self.disturbed_until.max(self.now + lasts + CALM);
        }
        self.ends.push((self.now + lasts, what));
    }

    fn shaken(&self, how: &str) {
        let how = how.to_owned();
        self.witness(1, Said::Shaken { how });
    }

    fn end_what_is_over(&mut self) {
        let now = self.now;
        let over: Vec<What> = {
            let (over, going): (Vec<_>, Vec<_>) =
                self.ends.drain(..).partition(|(at, _)| *at <= now);
            self.ends = going;
            over.into_iter().map(|(_, what)| what).collect()
        };
        for what in over {
            match what {
                What::Pause(node) => self.wake(node - 1),
                What::Lines(process, to, _) => {
                    self.lines_of(process, to, Condition::default());
                    if let Some(memory) = &self.shared.memory {
                        memory.heal(process);
                    }
                }
                What::Down(member) => self.shared.network.set_down(member, false),
                What::NoLeader => self.servers.set_leader(true),
                What::Full => self.servers.set_full(false),
                What::Clock(node, _) => self.nodes[node - 1].ahead.store(0, Ordering::Relaxed),
                What::Kill(_) | What::KillAll | What::Stop(_) => {}
                What::Break(_) | What::Compact(_) => {}
            }
        }
    }

    fn wake(&mut self, at: usize) {
        let now = self.now;
        let node = &mut self.nodes[at];
        if let Some(process) = &mut node.process
            && node.is_paused
        {
            node.is_paused = false;
            let pid = process.pid;
            process.wake(now - TURN);
            self.witness(pid, Said::Continued);
        }
    }

    /// Ends every fault.
    fn heal(&mut self) {
        self.trace.say(|| "all faults end".to_owned());
        self.ends.clear();
        self.shared.network.heal();
        if let Some(memory) = &self.shared.memory {
            memory.heal(None);
        }
        self.servers.set_leader(true);
        self.servers.set_full(false);
        for at in 0..self.nodes.len() {
            self.wake(at);
            let node = &mut self.nodes[at];
            node.ahead.store(0, Ordering::Relaxed);
            if node.process.is_none() || node.is_asked {
                node.starts_at = Some(self.now);
            }
        }
    }

    fn report(self) -> Report {
        let (network, trace) = (self.shared.network.clone(), self.trace.clone());
        let end = self.shared.end.lock();
        let end = end.unwrap_or_else(PoisonError::into_inner).take();
        let mut report = Report {
            requests: network.requests(),
            took: self.now,
            ..Report::default()
        };
        report.failure = match end {
            None => Some(format!(
                "the run was not over after {LONGEST:?}, in phase {}",
                self.shared.phase()
            )),
            Some(Err(error)) => Some(error),
            Some(Ok(world)) => {
                report.tasks = world.subjects.len();
                let histories = world.subjects.values().map(|of| of.history.len());
                report.changes = histories.sum();
                let violations = invariants::check_all(&world);
                let (runs, wrong) = self.shared.ledger.close();
                report.remote_runs = runs;
                match (violations.is_empty(), wrong.is_empty()) {
                    (true, true) => None,
                    (false, _) => Some(invariants::report(&world, &violations)),
                    (true, false) => Some(format!("remote workers: {}", wrong.join("; "))),
                }
            }
        };
        // The processes end before the trace is read: they may say something.
        for node in self.nodes {
            node.journal.close();
            if let Some(process) = node.process {
                process.kill();
            }
        }
        self.clients.kill();
        self.carrier.kill();
        report.trace = trace.lines();
        report
    }
}
