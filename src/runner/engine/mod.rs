//! The engine: the one loop that awaits inputs, feeds the machines and carries out their effects.
//!
//! It decides nothing about a task (the machine does), and it waits only for its inputs, the answers to
//! its writes and its next timer. Claims and the watch run in tasks of their own, which send their
//! results back. So a slow store delays only the tasks that need it.
//!
//! Its parts make decisions for a given time, and are tested on their own:
//!
//! | part | what |
//! |---|---|
//! | [`capacity`] | slots in use, of the node and of each kind |
//! | [`claiming`] | the claims that are under way |
//! | [`deferral`] | which tasks are deferred to other nodes, and for how long |
//! | [`group_returns`] | whether to wait for handlers that return together |
//! | [`gauges`] | the gauges of this node |
//! | [`outbox`] | the writes that are under way |
//! | [`progress`] | when the progress of a running handler is written |
//! | [`mode`] | normal, frozen, draining or stopping, and the status that follows |
//! | [`table`], [`slot`] | the claimed tasks of this node |
//! | [`timers`] | the timers of the slots |
//! | [`watching`] | the watch, and the list that it begins with |

mod balancing;
mod capacity;
mod changing;
mod claim_pass;
mod claiming;
mod control;
mod deferral;
mod effects;
mod events;
mod failures;
mod gauges;
mod group_returns;
mod lease;
mod logging;
mod mode;
mod outbox;
mod progress;
mod reported;
mod runs;
mod slot;
mod slot_log;
mod table;
mod timers;
mod unstored;
mod watching;

use std::{
    future::poll_fn,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, sleep},
};
use tracing::debug;
use windlass_statemachine::{NodeName, machine, task::Labels};

use self::{
    capacity::Capacity,
    changing::Removal,
    claiming::Claiming,
    deferral::Deferral,
    gauges::Gauges,
    group_returns::GroupReturns,
    mode::{Mode, NodeMode, Report},
    outbox::Outbox,
    table::SlotTable,
    timers::Timers,
    watching::Watch,
};
use super::{
    config::NodeConfig,
    due::{DueIndex, Moment},
    input::{EngineInput, LeaseEvent},
    kinds::Kinds,
    lease::Wanted,
    node_faults::NodeFaults,
    snapshot::Unstored,
    store_answers::Answers,
};
use crate::{
    balancer::{Balancer, Peer},
    clock::Clock,
    store::{Coordinator, Error, Lease, NodeCommandId, Store},
    telemetry::NodeMetrics,
};

/// The parts of an engine.
pub(super) struct Dependencies {
    pub(super) coordinator: Arc<dyn Coordinator>,
    /// The store of the node, for the clients of handlers.
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) node: NodeName,
    pub(super) config: NodeConfig,
    pub(super) kinds: Kinds,
    pub(super) selector: Labels,
    pub(super) balancer: Arc<dyn Balancer>,
    pub(super) until: watch::Receiver<Instant>,
    pub(super) wanted: watch::Sender<Wanted>,
    /// Why the node has stopped on its own.
    pub(super) failure: Arc<OnceLock<Error>>,
    /// The results that the store has not accepted.
    pub(super) unstored: watch::Sender<Unstored>,
    /// Notified when the other nodes have to be read again.
    pub(super) peers_changed: Arc<Notify>,
    pub(super) tx: mpsc::UnboundedSender<EngineInput>,
    pub(super) rx: mpsc::UnboundedReceiver<EngineInput>,
}

pub(super) struct Engine {
    deps: Dependencies,
    mode: NodeMode,
    lease: Option<Lease>,
    /// Notified when every handler of the lost lease has ended.
    lost: Option<oneshot::Sender<()>>,
    watch: Watch,
    /// The tasks that can be claimed, and when.
    due: DueIndex,
    claiming: Claiming,
    slots: SlotTable,
    timers: Timers,
    capacity: Capacity,
    /// Handlers that were removed, and may still run.
    removals: Vec<Removal>,
    deferral: Deferral,
    next_balance: Instant,
    /// Whether the balancer is called when the other nodes are read the next time: their claims are then
    /// up to date.
    balances: bool,
    /// The node commands that wait for that call.
    balance_orders: Vec<NodeCommandId>,
    /// The kinds that this machine cannot run at present.
    node_faults: NodeFaults,
    metrics: NodeMetrics,
    gauges: Gauges,
    outbox: Outbox,
    group_returns: GroupReturns,
    /// Empty between two inputs; kept for its memory.
    effects: Vec<machine::Effect>,
    /// Signals for the handler that is being started; otherwise empty.
    waiting: Vec<machine::Signal>,
}

/// How often the node checks the wall clock at least, because it may have jumped.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The approximate interval between two calls of the balancer.
const BALANCE_EVERY: Duration = Duration::from_secs(5);
/// How many inputs are taken at once.
const INPUTS: usize = 256;

impl Engine {
    pub(super) fn new(deps: Dependencies) -> Self {
        let me = Peer::from((*deps.wanted.borrow().spec).clone());
        let named = deps.kinds.named.iter();
        let slots_of = named.map(|(kind, entry)| (kind.clone(), entry.config.slots));
        let apart = deps.kinds.named.iter();
        let apart = apart.filter(|(_, entry)| entry.config.is_apart);
        let apart = apart.map(|(kind, _)| kind.clone());
        let default = deps.kinds.default.as_ref();
        let slots_of_default = default.and_then(|entry| entry.config.slots);
        let now = Instant::now();
        let mut metrics = NodeMetrics::new();
        metrics.begin(deps.kinds.named.keys());
        Self {
            mode: NodeMode::default(),
            lease: None,
            lost: None,
            watch: Watch::default(),
            due: DueIndex::default(),
            claiming: Claiming::default(),
            slots: SlotTable::default(),
            timers: Timers::new(now),
            capacity: Capacity::new(deps.config.slots, slots_of, slots_of_default)
                .with_apart(apart),
            removals: Vec::new(),
            deferral: Deferral::new(me, deps.balancer.clone()),
            next_balance: now + BALANCE_EVERY,
            balances: false,
            balance_orders: Vec::new(),
            node_faults: NodeFaults::default(),
            metrics,
            gauges: Gauges::new(now, deps.config.gauges_every),
            outbox: Outbox::new(deps.coordinator.clone()),
            group_returns: GroupReturns::default(),
            effects: Vec::new(),
            waiting: Vec::new(),
            deps,
        }
    }

    fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    fn moment(&self) -> Moment {
        Moment {
            clock: self.now(),
            at: Instant::now(),
        }
    }

    /// Runs until the node has stopped and every task is released, or lost with the lease.
    pub(super) async fn run(mut self) {
        let mut arrived = Arrived::default();
        loop {
            let wait = self.next_wait();
            tokio::select! {
                biased;
                () = poll_fn(|cx| self.poll_arrivals(cx, &mut arrived)) => {}
                () = sleep(wait) => {}
            }
            if self
                .group_returns
                .waits(arrived.ended(), self.slots.running())
            {
                tokio::task::yield_now().await;
                poll_fn(|cx| {
                    let _ = self.poll_arrivals(cx, &mut arrived);
                    Poll::Ready(())
                })
                .await;
            }
            self.turn(&mut arrived);
            if self.mode.current() == Mode::Stopping && self.is_empty() {
                break;
            }
        }
        self.watch.end();
        self.outbox.finish();
        self.deps.wanted.send_modify(|wanted| wanted.leave = true);
        debug!(node = %self.deps.node, "the runner has stopped");
    }

    /// Takes all answers and inputs that have arrived. Polling the outbox also sends the calls that the
    /// last turn has enqueued: first the writes, then the claims.
    fn poll_arrivals(&mut self, cx: &mut Context<'_>, arrived: &mut Arrived) -> Poll<()> {
        let lease = self.lease.as_ref().map(|lease| lease.id);
        while let Poll::Ready(mut answers) = self.outbox.poll_answers(cx, lease) {
            arrived.answers.append(&mut answers);
        }
        while let Poll::Ready(claimed) = self.outbox.poll_claims(cx) {
            arrived.inputs.push(EngineInput::Claimed(claimed));
        }
        while let Poll::Ready(answers) = self.outbox.poll_logs(cx) {
            arrived.inputs.push(EngineInput::LogWritten(answers));
        }
        let inputs = self.deps.rx.poll_recv_many(cx, &mut arrived.inputs, INPUTS);
        if inputs.is_pending() && arrived.answers.is_empty() && arrived.inputs.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn turn(&mut self, arrived: &mut Arrived) {
        // A process that was stopped for longer than its lease notices this here, before it handles an
        // input or a due task.
        if self.lease.is_some() && *self.deps.until.borrow() <= Instant::now() {
            self.lease_lost();
        }
        if self.mode.abort_is_over(Instant::now()) || self.stop_is_over() {
            self.go_without_the_store();
        }
        for (slot, answer) in arrived.answers.drain(..) {
            self.committed(slot, answer);
        }
        for input in arrived.inputs.drain(..) {
            self.input(input);
        }
        self.run_timers();
        self.end_node_faults();
        if Instant::now() >= self.next_balance {
            // Nodes that were started together should not balance at the same time.
            self.next_balance = Instant::now() + BALANCE_EVERY.mul_f64(0.5 + fastrand::f64());
            self.balances = true;
        }
        // In this order, because the store commits the claims together with the writes before them.
        self.outbox.enqueue();
        self.claim_pass();
        self.report_unstored();
        self.report_status();
        let clock = &*self.deps.clock;
        self.gauges
            .set(Instant::now(), clock, &self.capacity, &self.due);
    }

    fn next_wait(&self) -> Duration {
        let now = self.moment();
        let next = self.timers.next_in(now).into_iter();
        let next = next.chain(self.due.next_due_in(now));
        let next = next.chain(self.claiming.pause(now.at));
        let next = next.chain(self.node_faults.next_in(now.at)).min();
        next.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
    }

    fn input(&mut self, input: EngineInput) {
        match input {
            EngineInput::Lease(LeaseEvent::Gained(lease)) => self.lease_gained(lease),
            EngineInput::Lease(LeaseEvent::Lost(handlers)) => {
                self.lost = Some(handlers);
                self.lease_lost();
            }
            EngineInput::Lease(LeaseEvent::StoreGone(error)) => self.store_gone(error),
            EngineInput::Events(batch) if self.watch.is_current(batch.epoch) => {
                for event in batch.events {
                    self.event(event);
                }
            }
            EngineInput::WatchEnded(ended) if self.watch.is_current(ended.epoch) => {
                self.watch_ended(ended.why);
            }
            EngineInput::Events(_) | EngineInput::WatchEnded(_) => {}
            EngineInput::Claimed(answers) => self.claimed(answers),
            EngineInput::Ended(ended) => self.ended(ended),
            EngineInput::Ask(slot, ask) => self.ask(slot, ask),
            EngineInput::Returns(slot, stored) => self.expect(slot, stored),
            EngineInput::Progress(slot) => self.progress_changed(slot),
            EngineInput::Logged(slot) => self.has_logged(slot),
            EngineInput::LogWritten(answers) => self.log_written(answers),
            EngineInput::Control(control) => self.control(control),
            EngineInput::Nodes(nodes) => self.nodes_were_read(nodes),
        }
    }

    fn report_status(&mut self) {
        let faults = self.node_faults.report(self.deps.clock.now());
        let (running, full) = (self.slots.running(), self.capacity.full());
        if let Some((status, report)) = self.mode.status(running, full, faults) {
            // A notification renews the lease at once; without one the status is sent with the next
            // renewal.
            self.deps.wanted.send_if_modified(|wanted| {
                wanted.status = status;
                report == Report::AtOnce
            });
        }
        if self.slots.len() == 0
            && let Some(lost) = self.lost.take()
        {
            // A keeper that has joined again no longer waits for the answer.
            let _ = lost.send(());
        }
        self.answer_removals();
        if self.is_drained() {
            self.answer_drains("drained");
        }
    }

    /// Returns whether no task is claimed, or being claimed.
    fn is_empty(&self) -> bool {
        self.slots.len() + self.claiming.len() == 0
    }
}

/// Answers and inputs that have arrived since the last turn.
#[derive(Default)]
struct Arrived {
    answers: Answers,
    inputs: Vec<EngineInput>,
}

impl Arrived {
    /// Returns how many handlers have returned.
    fn ended(&self) -> usize {
        let has_ended = |input: &&EngineInput| matches!(input, EngineInput::Ended(_));
        self.inputs.iter().filter(has_ended).count()
    }
}
