//! The engine: the one loop that awaits inputs, feeds the machines and carries their effects out.
//!
//! It decides nothing about a task (the machine does) and waits for nothing but its channel and
//! its next timer: claims and writes are carried by tasks of their own, which send their answers
//! back. So a slow store delays what depends on it and nothing else.

mod balancing;
mod claims;
mod control;
mod effects;
mod events;
mod failures;
mod heard;
mod slot;
mod timers;

use std::{
    collections::{self, VecDeque},
    sync::{Arc, OnceLock},
    task::{Context, Waker},
    time::Duration,
};

use hashbrown::HashMap;
use jiff::Timestamp;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, sleep},
};
use tracing::{debug, error, warn};
use windlass_statemachine::{
    Kind, NodeName, StopReason, TaskId,
    machine::{self, Input, Timer},
    task::Labels,
};

use self::{
    heard::{Heard, Unlisted},
    slot::Slot,
    timers::{Gone, Timers, Wait},
};
use super::{
    config::{KindConfig, NodeConfig},
    due::{DueIndex, Moment},
    handle::{Control, RunningTask, Snapshot},
    input::{In, LeaseEvent, SlotId},
    lease::Wanted,
    node_faults::NodeFaults,
};
use crate::{
    balancer::{Balancer, Peer},
    clock::Clock,
    handler::StatefulHandler,
    store::{Commit, Coordinator, DataVersions, Error, Lease, NodeCommandId, NodeStatus},
};

/// A kind that this node has a handler for.
pub(super) struct KindEntry {
    pub(super) handler: Arc<dyn StatefulHandler>,
    pub(super) config: KindConfig,
}

impl KindEntry {
    pub(super) fn new(config: KindConfig, handler: impl StatefulHandler) -> Self {
        Self {
            config: config.of_handler(&handler),
            handler: Arc::new(handler),
        }
    }
}

/// What an engine is made of.
pub(super) struct Parts {
    pub(super) coordinator: Arc<dyn Coordinator>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) node: NodeName,
    pub(super) config: NodeConfig,
    pub(super) kinds: collections::HashMap<Kind, Arc<KindEntry>>,
    pub(super) default: Option<Arc<KindEntry>>,
    pub(super) data_versions: DataVersions,
    pub(super) selector: Labels,
    pub(super) balancer: Arc<dyn Balancer>,
    pub(super) until: watch::Receiver<Instant>,
    pub(super) wanted: watch::Sender<Wanted>,
    /// Why the node has stopped by itself.
    pub(super) failure: Arc<OnceLock<Error>>,
    /// Notified when the other nodes have to be read again.
    pub(super) peers_changed: Arc<Notify>,
    pub(super) tx: mpsc::UnboundedSender<In>,
    pub(super) rx: mpsc::UnboundedReceiver<In>,
}

/// A claim that is under way: what is heard of the task meanwhile waits for its answer.
#[derive(Default)]
struct PendingClaim {
    kind: Option<Kind>,
    latest: Option<Heard>,
    /// With the order of the task that each was sent to.
    commands: Vec<(u64, windlass_statemachine::QueuedCommand)>,
    /// A list has begun since the claim was sent, and has not named the task so far.
    unlisted: bool,
    /// Node commands to stop the task, which may be here already.
    stop_orders: Vec<NodeCommandId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Normal,
    Frozen,
    /// Everything is given back; the node stays.
    Draining,
    /// Everything is given back, then the node leaves.
    Stopping,
}

pub(super) struct Engine {
    parts: Parts,
    mode: Mode,
    /// When an abort waits for the store no longer.
    abort_by: Option<Instant>,
    lease: Option<Lease>,
    lease_id: watch::Sender<Option<u64>>,
    watch_epoch: u64,
    watch_task: Option<tokio::task::AbortHandle>,
    listed: bool,
    /// The claims whose tasks the current list has not named so far.
    unlisted: HashMap<SlotId, Unlisted>,
    due: DueIndex,
    slots: HashMap<SlotId, Slot>,
    by_task: HashMap<TaskId, SlotId>,
    next_slot: SlotId,
    next_run: u64,
    timers: Timers,
    /// What the machines count the time that passes from.
    started: Instant,
    pending: HashMap<TaskId, PendingClaim>,
    /// The claims that are under way, and since when.
    claims_since: HashMap<u64, Instant>,
    next_claim: u64,
    /// How long the last claims took, about.
    claim_takes: Duration,
    /// Slots in use, and those of each kind: running, being stored, or being claimed.
    active: u32,
    active_by_kind: HashMap<Kind, u32>,
    /// Handlers that run.
    running: u32,
    /// This node, as a balancer sees it.
    me: Peer,
    /// The other live nodes, as they were a few seconds ago at the most.
    others: Vec<Peer>,
    /// Tasks that are left to nodes that rank before this one, and since when.
    waited: HashMap<TaskId, Instant>,
    forget_waited_at: usize,
    next_balance: Instant,
    /// Tasks that this node has just given back and leaves to others for a moment, with their
    /// orders: the next task with the id is another one.
    ignored: HashMap<TaskId, (u64, Instant)>,
    forget_ignored_at: usize,
    /// The kinds that this machine cannot run at present.
    node_faults: NodeFaults,
    batch: Vec<(SlotId, Commit)>,
    effects: Vec<machine::Effect>,
    /// Node commands that are answered when the node is empty.
    drains: Vec<NodeCommandId>,
    last_status: NodeStatus,
    waiting_for_idle: VecDeque<oneshot::Sender<()>>,
}

/// How many tasks one claim call asks for.
const CLAIM_BATCH: usize = 512;
/// How many claim calls are under way at a time.
const CLAIMS_IN_FLIGHT: usize = 4;
/// Commanded tasks are claimed beyond the limits (a kill has not to wait for a slot), up to so many.
const COMMANDED_EXTRA: u32 = 64;
/// How long an aborted handler may still block its thread before the node goes on without it.
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// How long an abort waits for the store: a moment longer than for a handler that is stuck.
const ABORT_WITHIN: Duration = STUCK_AFTER.saturating_add(Duration::from_secs(1));
/// The node looks at the wall clock at least so often, should it have jumped.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How often the balancer is asked, about.
const BALANCE_EVERY: Duration = Duration::from_secs(5);

impl Engine {
    pub(super) fn new(parts: Parts) -> Self {
        let kinds = parts.kinds.keys().cloned().collect();
        let me = Peer {
            kinds: parts.default.is_none().then_some(kinds),
            data_versions: parts.data_versions.clone(),
            labels: parts.selector.clone(),
            slots: parts.config.slots,
            ..Peer::new(parts.node.clone())
        };
        Self {
            parts,
            me,
            mode: Mode::Normal,
            abort_by: None,
            lease: None,
            lease_id: watch::channel(None).0,
            watch_epoch: 0,
            watch_task: None,
            listed: false,
            unlisted: HashMap::new(),
            due: DueIndex::default(),
            slots: HashMap::new(),
            by_task: HashMap::new(),
            next_slot: 0,
            next_run: 0,
            timers: Timers::default(),
            started: Instant::now(),
            pending: HashMap::new(),
            claims_since: HashMap::new(),
            next_claim: 0,
            claim_takes: Duration::ZERO,
            active: 0,
            active_by_kind: HashMap::new(),
            running: 0,
            others: Vec::new(),
            waited: HashMap::new(),
            forget_waited_at: claims::WAITED_AT_LEAST,
            next_balance: Instant::now() + BALANCE_EVERY,
            ignored: HashMap::new(),
            forget_ignored_at: claims::IGNORED_AT_LEAST,
            node_faults: NodeFaults::default(),
            batch: Vec::new(),
            effects: Vec::new(),
            drains: Vec::new(),
            last_status: NodeStatus::default(),
            waiting_for_idle: VecDeque::new(),
        }
    }

    fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    fn moment(&self) -> Moment {
        Moment {
            clock: self.now(),
            at: Instant::now(),
        }
    }

    /// Runs until the node has stopped: every task is given back (or lost with the lease).
    pub(super) async fn run(mut self) {
        let mut inputs = Vec::with_capacity(256);
        loop {
            let wait = self.next_wait();
            tokio::select! {
                biased;
                got = self.parts.rx.recv_many(&mut inputs, 256) => {
                    if got == 0 {
                        break;
                    }
                }
                () = sleep(wait) => {}
            }
            // A process that was stopped for longer than its lease learns of it here, before it
            // acts on anything that it has heard or that has become due.
            if self.lease.is_some() && *self.parts.until.borrow() <= Instant::now() {
                self.lease_lost();
            }
            if self.abort_by.is_some_and(|by| by <= Instant::now()) {
                self.go_without_the_store();
            }
            for input in inputs.drain(..) {
                self.input(input);
            }
            self.run_timers();
            self.end_node_faults();
            if Instant::now() >= self.next_balance {
                // Nodes that were started together should not decide together.
                self.next_balance = Instant::now() + BALANCE_EVERY.mul_f64(0.5 + fastrand::f64());
                if self.mode == Mode::Normal {
                    self.balance();
                }
            }
            self.claim_pass();
            self.flush();
            self.tell_status();
            if self.mode == Mode::Stopping && self.is_empty() {
                break;
            }
        }
        if let Some(watch) = self.watch_task.take() {
            watch.abort();
        }
        self.parts.wanted.send_modify(|wanted| wanted.leave = true);
        debug!(node = %self.parts.node, "the runner has stopped");
    }

    fn next_wait(&self) -> Duration {
        let now = self.moment();
        let next = self.timers.next_in(now).into_iter();
        let next = next.chain(self.due.next_due_in(now));
        let next = next.chain(self.node_faults.next_in(now.at)).min();
        next.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
    }

    fn input(&mut self, input: In) {
        match input {
            In::Lease(LeaseEvent::Gained(lease)) => self.lease_gained(lease),
            In::Lease(LeaseEvent::Lost) => self.lease_lost(),
            In::Lease(LeaseEvent::StoreGone(error)) => self.store_gone(error),
            In::Events(epoch, events, _permit) if epoch == self.watch_epoch => {
                for event in events {
                    self.event(event);
                }
            }
            In::WatchEnded(epoch, why) if epoch == self.watch_epoch => self.watch_ended(why),
            In::Events(..) | In::WatchEnded(..) => {}
            In::Claimed(lease, number, answers) => self.claimed(lease, number, answers),
            In::Committed(answers) => {
                for (slot, answer) in answers {
                    self.committed(slot, answer);
                }
            }
            In::Ended(slot, run, ended) => self.ended(slot, run, ended),
            In::Ask(slot, ask) => self.ask(slot, ask),
            In::Control(control) => self.control(control),
            In::Nodes(nodes) => {
                let me = &self.parts.node;
                let others = nodes.into_iter().filter(|n| n.spec.name != *me);
                self.others = others.map(Peer::from).collect();
            }
        }
    }

    fn lease_gained(&mut self, lease: Lease) {
        self.lease_id.send_replace(Some(lease.id));
        self.lease = Some(lease);
        self.start_watch(Duration::ZERO);
    }

    /// Every claim is gone: the handlers are stopped, and what was known of tasks is forgotten
    /// until the node has a lease and a list again.
    fn lease_lost(&mut self) {
        if self.lease.is_none() {
            return;
        }
        if !self.slots.is_empty() {
            error!(node = %self.parts.node, tasks = self.slots.len(),
                "stopped every handler: the lease is lost; whichever node has one goes on with the tasks");
        }
        self.forget_lease();
    }

    /// Stops the node: the store is gone for good, so that nothing can be stored any more.
    pub(super) fn store_gone(&mut self, error: Error) {
        if self.parts.failure.set(error).is_err() {
            return;
        }
        error!(node = %self.parts.node, tasks = self.slots.len(),
            "the store is gone: stopped every handler, the node ends");
        self.mode = Mode::Stopping;
        self.pending.clear();
        self.forget_lease();
    }

    /// An abort has waited for the store for long enough: what it has not stored by now is as it
    /// was last persisted, and free when the lease is left, or has ended.
    fn go_without_the_store(&mut self) {
        if self.lease.is_some() && !self.is_empty() {
            warn!(node = %self.parts.node, tasks = self.slots.len() + self.pending.len(),
                "the store has not taken back every task: leaving them to the end of the lease");
        }
        self.pending.clear();
        self.forget_lease();
    }

    fn forget_lease(&mut self) {
        self.lease = None;
        self.lease_id.send_replace(None);
        self.watch_epoch += 1;
        if let Some(watch) = self.watch_task.take() {
            watch.abort();
        }
        self.listed = false;
        self.unlisted.clear();
        self.due.clear();
        let slots: Vec<SlotId> = self.slots.keys().copied().collect();
        for slot in slots {
            self.feed(slot, Input::Fenced(StopReason::LeaseLost));
        }
    }

    fn run_timers(&mut self) {
        let now = self.moment();
        while let Some(gone) = self.timers.pop(now) {
            let (Gone::Wake(slot) | Gone::Over(slot, _)) = gone;
            if let Some(slot) = self.slots.get_mut(&slot) {
                slot.timers.gone(gone);
            }
            match gone {
                Gone::Wake(slot) | Gone::Over(slot, Wait::Resume) if !self.has_room_for(slot) => {
                    // Every slot is taken: the sleeper waits its turn among the ready tasks.
                    self.feed(slot, Input::Stop(StopReason::Balance));
                }
                Gone::Wake(slot) | Gone::Over(slot, Wait::Resume) => {
                    self.feed(slot, Input::Timer(Timer::Wake));
                }
                Gone::Over(slot, Wait::Grace) => self.feed(slot, Input::Timer(Timer::Grace)),
                Gone::Over(slot, Wait::Stuck) => self.stuck(slot),
            }
        }
    }

    /// Sends the writes that have come together.
    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let mut carried = Box::pin(super::commit::carry(
            self.parts.coordinator.clone(),
            batch,
            self.lease_id.subscribe(),
            self.parts.tx.clone(),
        ));
        // The first step hands them to the store, at once: a task that has just been spawned waits
        // until this one has no more inputs, and the store would be idle meanwhile. Whatever wakes
        // it before it is spawned is seen by the poll that follows the spawn.
        let mut nobody = Context::from_waker(Waker::noop());
        if carried.as_mut().poll(&mut nobody).is_pending() {
            tokio::spawn(carried);
        }
    }

    fn tell_status(&mut self) {
        let status = NodeStatus {
            frozen: self.mode == Mode::Frozen,
            draining: matches!(self.mode, Mode::Draining | Mode::Stopping),
            running: self.running,
        };
        if (status.frozen, status.draining) != (self.last_status.frozen, self.last_status.draining)
        {
            self.parts
                .wanted
                .send_modify(|wanted| wanted.status = status);
        } else if status.running != self.last_status.running {
            // Not worth a renewal of its own: it goes with the next.
            self.parts.wanted.send_if_modified(|wanted| {
                wanted.status = status;
                false
            });
        }
        self.last_status = status;
        if self.is_empty() {
            self.answer_drains("drained");
        }
    }

    /// Whether nothing is claimed, or being claimed.
    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.pending.is_empty()
    }
}
