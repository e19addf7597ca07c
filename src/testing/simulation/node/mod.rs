//! [`Node`]: the node of a simulation. It feeds the machines of production and carries out their
//! effects one after the other: each step is complete before the next one begins.

mod effects;
mod timers;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use windlass_statemachine::{
    Kind, Machine, Task, TaskId,
    machine::{Config, Input, StopReason, Timer},
};

use super::{
    Error,
    world::{Moment, World},
};
use crate::{
    KindConfig,
    handler::{Ask, RunData, Shared, Signals, StatefulHandler, Waiting},
    runner::{
        config::PARK_AFTER,
        due::{DueIndex, Released},
        spawn::Ended,
    },
    store::{Claim, Claimed, Coordinator, Event, EventStream, Lease, TaskView},
    testing::abort::AbortOnDrop,
};

/// The handler of a kind, and its configuration.
#[derive(Clone)]
pub(super) struct KindEntry {
    pub(super) handler: Arc<dyn StatefulHandler>,
    pub(super) config: KindConfig,
    /// What the handlers of the simulation share.
    pub(super) shared: Shared,
}

type SlotId = u64;

/// The number of handlers that run at once: the default of a node.
const SLOTS: usize = 100;
/// How many runs in a row may change nothing while no virtual time passes: a handler that polls something in memory ends
/// before.
const IDLE_RUNS: u32 = 10_000;
/// How long a node defers a task that it has released to other nodes.
const RELEASED: Duration = Duration::from_secs(1);

/// A message of a running handler.
enum FromHandler {
    Ended(SlotId, u64, Ended),
    Ask(SlotId, Ask),
}

struct Run {
    number: u64,
    signals: Signals,
    data: Arc<RunData>,
    /// Whether the handler has not returned within the patience of the simulation.
    waiting: bool,
    abort: AbortOnDrop,
}

struct Slot {
    claim: Claim,
    task: Arc<Task>,
    order: u64,
    /// A limit of the task is full: its handler must not start.
    over_limit: bool,
    machine: Machine,
    run: Option<Run>,
    wake: Option<jiff::Timestamp>,
    /// When a handler runs again that has changed nothing for [`IDLE_RUNS`], as time since the node started.
    resume: Option<Duration>,
    /// When the grace of the handler ends, as time since the node started.
    grace: Option<Duration>,
    next_ticket: u64,
    asks: VecDeque<(u64, oneshot::Sender<Result<(), String>>)>,
    /// The last lines of a run that has ended, and the number of the last one.
    log: (Waiting, u64),
}

pub(super) struct Node {
    kinds: Arc<HashMap<Kind, KindEntry>>,
    lease: Lease,
    events: EventStream,
    due: DueIndex,
    slots: BTreeMap<SlotId, Slot>,
    by_task: HashMap<TaskId, SlotId>,
    /// Tasks that were released while runnable.
    released: HashMap<TaskId, Released>,
    next_slot: SlotId,
    next_run: u64,
    /// The start of the time that passes for the machines.
    started: Instant,
    lease_until: watch::Sender<Instant>,
    tx: mpsc::UnboundedSender<FromHandler>,
    rx: mpsc::UnboundedReceiver<FromHandler>,
}

impl Node {
    pub(super) async fn join(
        world: &mut World,
        kinds: Arc<HashMap<Kind, KindEntry>>,
    ) -> Result<Self, Error> {
        let lease = world.join().await?;
        let events = world
            .store
            .watch(&lease, Some(kinds.keys().cloned().collect()));
        let events = events.await?;
        let (tx, rx) = mpsc::unbounded_channel();
        Ok(Self {
            kinds,
            lease,
            events,
            due: DueIndex::default(),
            slots: BTreeMap::new(),
            by_task: HashMap::new(),
            released: HashMap::new(),
            next_slot: 0,
            next_run: 0,
            started: Instant::now(),
            lease_until: watch::channel(Instant::now()).0,
            tx,
            rx,
        })
    }

    /// Does all work that needs no waiting for a handler or for time.
    pub(super) async fn work(&mut self, world: &mut World) {
        loop {
            self.read_events(world).await;
            let mut idle = !self.claim(world).await;
            while let Ok(input) = self.rx.try_recv() {
                idle = false;
                self.input(world, input).await;
            }
            for slot in self.due_wakes(world) {
                idle = false;
                self.feed(world, slot, Input::Timer(Timer::Wake)).await;
            }
            for slot in self.due_graces() {
                idle = false;
                self.feed(world, slot, Input::Timer(Timer::Grace)).await;
            }
            if idle || world.is_crashed() || world.is_over_limit() {
                return;
            }
        }
    }

    /// Returns whether a handler runs that does not count as waiting for a command.
    pub(super) fn runs(&self) -> bool {
        let mut runs = self.slots.values().filter_map(|slot| slot.run.as_ref());
        runs.any(|run| !run.waiting)
    }

    /// Returns whether a handler or a timer is waited for that does not follow the virtual time.
    pub(super) fn is_busy(&self) -> bool {
        let mut slots = self.slots.values();
        self.runs() || slots.any(|slot| slot.grace.or(slot.resume).is_some())
    }

    /// Returns whether the handler of this task runs.
    pub(super) fn is_waiting(&self, task: &TaskId) -> bool {
        let slot = self.by_task.get(task).and_then(|id| self.slots.get(id));
        slot.is_some_and(|slot| slot.run.is_some())
    }

    /// Waits for a message of a handler. Handlers that are silent for the patience count as waiting.
    pub(super) async fn wait(&mut self, world: &mut World, patience: Duration) {
        let passed = self.started.elapsed();
        let timers = |slot: &Slot| slot.grace.into_iter().chain(slot.resume);
        let grace = self.slots.values().flat_map(timers).min();
        let wait = grace.map_or(patience, |at| at.saturating_sub(passed).min(patience));
        match timeout(wait, self.rx.recv()).await {
            Ok(Some(input)) => self.input(world, input).await,
            // This node holds a sender, so the channel never closes.
            Ok(None) => {}
            Err(_) if grace.is_some() => {}
            Err(_) => {
                for run in self.slots.values_mut().filter_map(|slot| slot.run.as_mut()) {
                    run.waiting = true;
                }
            }
        }
    }

    /// Drops the node with its handlers.
    pub(super) async fn die(mut self, patience: Duration) -> Lease {
        for run in self.slots.values().filter_map(|slot| slot.run.as_ref()) {
            run.abort.0.abort();
        }
        let mut running = self
            .slots
            .values()
            .filter(|slot| slot.run.is_some())
            .count();
        // The next node starts when the futures of this one are dropped. A handler that blocks its thread
        // is not waited for.
        while running > 0 {
            match timeout(patience, self.rx.recv()).await {
                Ok(Some(FromHandler::Ended(..))) => running -= 1,
                Ok(Some(FromHandler::Ask(..))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        self.lease
    }

    async fn read_events(&mut self, world: &mut World) {
        // Without `unconstrained` the budget of this task could make a ready stream look empty.
        while let Some(Some(events)) = tokio::task::unconstrained(self.events.next()).now_or_never()
        {
            for event in events {
                self.event(world, event).await;
            }
        }
    }

    async fn event(&mut self, world: &mut World, event: Event) {
        match event {
            Event::Task(view) => self.view(view, world.moment()),
            Event::Gone { id, order, fence } => {
                if self.due.order(&id).is_some_and(|known| known <= order) {
                    self.due.remove(&id);
                }
                if let Some(&slot) = self.by_task.get(&id)
                    && fence.is_none()
                    && self.slots.get(&slot).is_some_and(|s| s.order == order)
                {
                    self.feed(world, slot, Input::Fenced(StopReason::Deleted))
                        .await;
                }
            }
            Event::Commands {
                id,
                order,
                commands,
            } => {
                let slot = self.by_task.get(&id).copied();
                let slot = slot.filter(|s| self.slots.get(s).is_some_and(|s| s.order == order));
                for command in commands {
                    if let Some(slot) = slot {
                        self.feed(world, slot, Input::Command(command)).await;
                    }
                }
            }
            Event::Reset | Event::Listed | Event::Node(_) | Event::Peers => {}
        }
    }

    fn view(&mut self, view: TaskView, now: Moment) {
        if self.by_task.contains_key(&view.id) {
            return;
        }
        let entry = self.kinds.get(&view.kind);
        let reads = entry.is_some_and(|entry| view.data_version <= entry.config.writes_version());
        if view.claimed_by.is_some() || !reads {
            self.due.remove(&view.id);
            return;
        }
        match self.released.remove(&view.id) {
            Some(released) => released.enter(view, &mut self.due, now),
            None => self.due.upsert(view, now),
        }
    }

    /// Claims due tasks. Returns whether there was one.
    async fn claim(&mut self, world: &mut World) -> bool {
        self.due.advance(world.moment());
        let mut claimed_any = false;
        loop {
            let mut by_kind: HashMap<&Kind, u32> = HashMap::new();
            for slot in self.slots.values() {
                *by_kind.entry(&slot.task.kind).or_default() += 1;
            }
            let (active, kinds) = (self.slots.len(), &self.kinds);
            let taken = self.due.take(|kind, _| {
                let limit = kinds.get(kind).and_then(|entry| entry.config.max_slots());
                let of_kind = by_kind.get(kind).copied().unwrap_or(0);
                active < SLOTS && limit.is_none_or(|limit| of_kind < limit)
            });
            let Some(view) = taken else {
                return claimed_any;
            };
            claimed_any = true;
            self.due.claims(&view);
            let answers = world.store.claim(&self.lease, vec![view.id]).await;
            for claimed in answers.into_iter().flatten().flatten() {
                self.begin(world, claimed).await;
            }
            if world.is_crashed() {
                return true;
            }
        }
    }

    async fn begin(&mut self, world: &mut World, claimed: Claimed) {
        let Some(entry) = self.kinds.get(&claimed.task.kind) else {
            return;
        };
        let limits = world.store.limits();
        let config = Config {
            idle_runs: IDLE_RUNS,
            ..entry.config.machine(&claimed.task, limits, PARK_AFTER)
        };
        let id = self.next_slot;
        self.next_slot += 1;
        self.by_task.insert(claimed.task.id.clone(), id);
        let slot = Slot {
            machine: Machine::new(config, claimed.state, claimed.abandoned)
                .on_node(self.lease.node.clone()),
            claim: claimed.claim,
            task: claimed.task,
            order: claimed.order,
            over_limit: claimed.over_limit,
            run: None,
            wake: None,
            resume: None,
            grace: None,
            next_ticket: 0,
            asks: VecDeque::new(),
            log: Default::default(),
        };
        self.slots.insert(id, slot);
        for command in claimed.commands {
            self.feed(world, id, Input::Command(command)).await;
        }
        self.feed(world, id, Input::Begin).await;
    }

    async fn input(&mut self, world: &mut World, input: FromHandler) {
        match input {
            FromHandler::Ended(id, number, ended) => self.ended(world, id, number, ended).await,
            FromHandler::Ask(id, ask) => {
                let Some(slot) = self.slots.get_mut(&id) else {
                    return;
                };
                let ticket = slot.next_ticket;
                slot.next_ticket += 1;
                slot.asks.push_back((ticket, ask.answer));
                self.feed_progress(world, id).await;
                self.feed(world, id, ask.what.input(ticket)).await;
            }
        }
    }

    async fn ended(&mut self, world: &mut World, id: SlotId, number: u64, ended: Ended) {
        let run = self.slots.get(&id).and_then(|slot| slot.run.as_ref());
        if run.is_none_or(|run| run.number != number) {
            return;
        }
        self.feed_progress(world, id).await;
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let run = slot.run.take();
        if let Some(run) = &run {
            if let Some(missing) = run.data.lacks() {
                world.missing = Some((slot.task.kind.clone(), missing.clone()));
            }
            // A write under way has none of them: it takes all that there are.
            slot.log = run.data.end_log();
        }
        if slot.machine.is_done() {
            return self.remove(id);
        }
        let took = run.map_or(0, |run| run.data.received.took());
        self.feed(world, id, Input::Took(took)).await;
        let input = match ended {
            Ended::Returned(message) => Input::Returned(message),
            Ended::Aborted => Input::Aborted,
        };
        self.feed(world, id, input).await;
    }
}
