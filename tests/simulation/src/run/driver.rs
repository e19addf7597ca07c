//! [`Driver`]: runs the processes of a run turn by turn, and starts them again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU8},
    },
    time::Duration,
};

use fastrand::Rng;
use tokio::sync::Notify;
use windlass_robustness::{
    invariants,
    witness::{Journal, Line, Lines, Said},
};

use super::{
    CALM, Ground, LONGEST, MEMBERS, Phase, Plan, Report, SERVERS, Shared, TURN, WORKERS,
    bounds::Bounds,
    calm::Calm,
    clients,
    goes_back::Back,
    idle::Idle,
    memory::Memory,
    micros, nodes,
    remote::{Ledger, WorkerServers},
};
use crate::{
    etcd::Servers,
    faults::{Fault, What},
    locked,
    network::Network,
    process::{Process, START},
    trace::Trace,
};

/// What a process of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Node,
    Server,
    Worker,
}

impl Role {
    pub(super) fn of(plan: &Plan, number: usize) -> Self {
        match number.saturating_sub(plan.nodes) {
            0 => Self::Node,
            at if at <= SERVERS => Self::Server,
            _ => Self::Worker,
        }
    }
}

/// A node of a run, a server or a remote worker: its process while there is one.
pub(super) struct Node {
    pub(super) number: usize,
    pub(super) role: Role,
    pub(super) process: Option<Process>,
    pub(super) journal: Arc<Journal>,
    pub(super) stop: Arc<Notify>,
    pub(super) ahead: Arc<AtomicI64>,
    pub(super) is_paused: bool,
    /// When it is started again.
    pub(super) starts_at: Option<Duration>,
    /// Whether it was asked to shut down.
    pub(super) is_asked: bool,
}

pub(super) struct Driver {
    pub(super) shared: Shared,
    pub(super) servers: Arc<Servers>,
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    pub(super) now: Duration,
    pub(super) carrier: Process,
    pub(super) clients: Process,
    pub(super) nodes: Vec<Node>,
    pub(super) pids: u32,
    /// Until when the feed of the clients may be late.
    pub(super) disturbed_until: Duration,
    /// What ends, and when.
    pub(super) ends: Vec<(Duration, What)>,
    pub(super) bounds: Bounds,
    pub(super) back: Back,
    /// When other programs wrote beside the namespace, and the last revision of that.
    pub(super) written_beside: Option<(Duration, i64)>,
}

impl Driver {
    pub(super) fn start(plan: &Plan, trace: Trace) -> std::io::Result<Self> {
        let servers = Arc::new(Servers::new(MEMBERS));
        let (network, carry) = Network::new(servers.clone(), plan.seed, trace.clone());
        let shared = Shared {
            plan: Arc::new(plan.clone()),
            network,
            memory: (plan.ground == Ground::Memory).then(Memory::new),
            trace: trace.clone(),
            worker_servers: WorkerServers::new(plan.seed),
            ledger: Ledger::default(),
            lines: Lines::default(),
            phase: Arc::new(AtomicU8::new(Phase::Disturbed as u8)),
            calm: Calm::default(),
            idle: Idle::default(),
            endings: Arc::default(),
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
            bounds: Bounds::default(),
            back: Back::default(),
            written_beside: None,
        };
        let wall = START.as_microsecond();
        driver.witness(2, Said::Clock { wall });
        let remote = if plan.remote { SERVERS + WORKERS } else { 0 };
        for number in 1..=plan.nodes + remote {
            let mut node = Node {
                number,
                role: Role::of(plan, number),
                process: None,
                journal: Arc::new(Journal::kept(&driver.shared.lines)),
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

    pub(super) fn witness(&self, pid: u32, said: Said) {
        let at = micros(self.now);
        self.shared.lines().push(Line { at, pid, said });
    }

    fn launch(&mut self, node: &mut Node) -> std::io::Result<()> {
        self.pids += 1;
        let pid = self.pids;
        let (number, role) = (node.number, node.role);
        let name = match role {
            Role::Node => nodes::name(number),
            role => format!("{role:?} {number}"),
        };
        if role == Role::Node {
            let (node, kinds) = (nodes::node_name(node.number), Vec::new());
            let side = nodes::terms(&self.shared.plan, number).side;
            self.witness(pid, Said::Launched { node: node.clone() });
            self.witness(pid, Said::Serves { node, kinds, side });
        }
        node.journal = Arc::new(Journal::kept(&self.shared.lines));
        node.stop = Arc::default();
        let (shared, journal, stop) =
            (self.shared.clone(), node.journal.clone(), node.stop.clone());
        let main = move |clock| nodes::main(shared, (number, role), journal, stop, clock);
        self.trace.say(|| format!("{name} starts as {pid}"));
        let process = Process::start(name, pid, self.now, node.ahead.clone(), main)?;
        node.process = Some(process);
        (node.starts_at, node.is_asked, node.is_paused) = (None, false, false);
        self.bounds.ended(node.number);
        self.shared.calm.disturb(Some(node.number));
        self.says_clock(node);
        Ok(())
    }

    pub(super) fn drive(mut self) -> Report {
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
                for (node, lasts) in self.renewing() {
                    let (at, what) = (self.now, What::Pause(node));
                    self.begin(Fault { at, lasts, what });
                }
                self.end_what_is_over();
            } else if !healed {
                healed = true;
                self.heal();
            }
            self.look_after_nodes();
            self.look_at_calm();
            self.run_processes();
            if self.shared.plan.ground == Ground::Etcd {
                self.look_at_bounds();
                self.be_idle();
            }
            if let Some(report) = self.go_back() {
                return self.end(report);
            }
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
                // Nobody asks an etcd that has gone back for what it has lost.
                1 if self.is_back() => {}
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
                if let Some(process) = node.process.take()
                    && !is_ending
                    && !node.is_asked
                    && !self.is_back()
                {
                    self.ended_by_itself(&process.name, process.pid);
                }
                if !is_ending && node.starts_at.is_none() {
                    node.starts_at = Some(self.now + Duration::from_millis(500));
                }
            }
            let is_due = node.starts_at.is_some_and(|at| at <= self.now) && !self.is_back();
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

    fn report(mut self) -> Report {
        let end = locked(&self.shared.end).take();
        let mut report = Report {
            requests: self.shared.network.requests(),
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
                let bounds = std::mem::take(&mut self.bounds.wrong);
                if !violations.is_empty() {
                    Some(invariants::report(&world, &violations))
                } else if !wrong.is_empty() {
                    Some(format!("remote workers: {}", wrong.join("; ")))
                } else {
                    (!bounds.is_empty()).then(|| bounds.join("; "))
                }
            }
        };
        self.end(report)
    }

    /// Ends all processes, and then adds the trace: they may say something.
    fn end(self, mut report: Report) -> Report {
        for node in self.nodes {
            node.journal.close();
            if let Some(process) = node.process {
                process.kill();
            }
        }
        self.clients.kill();
        self.carrier.kill();
        report.trace = self.trace.lines();
        report
    }
}
