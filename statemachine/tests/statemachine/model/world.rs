//! The model: what the store, the handler, the timers and the operator know of one machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{
    Command, Machine, Message, Progress, QueuedCommand, StateKind, TaskState, TaskStatus,
    machine::{Config, Effect, End, Env, Input, Signal, StopReason, Timer, Write},
};

use super::{
    adopt::{Said, Worker},
    event::Event,
};
use crate::common::{json, line, t0};

/// What runs for the task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Handler {
    None,
    Runs,
    /// It was aborted and has not ended.
    Ending,
}

pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) config: Config,
    /// Whether the claim of the task was abandoned by the one before.
    pub(super) abandoned: bool,
    /// What the remote worker knows, for a kind with named runs.
    pub(super) worker: Worker,
    /// How many outcomes a write has at most.
    pub(super) most: usize,
    pub(super) now: Timestamp,
    /// How much time has passed, whatever the clock says.
    pub(super) elapsed: Duration,
    pub(super) stop_grace: Duration,
    /// Since when the handler knows of each command that waits, and of the stop.
    pub(super) delivered: BTreeMap<u64, Duration>,
    pub(super) stop_delivered: Option<Duration>,
    /// What the store has.
    pub(super) durable: TaskState,
    pub(super) write: Option<Write>,
    pub(super) handler: Handler,
    /// Whether the handler last returned an error that no retry fixes.
    pub(super) failed_for_good: bool,
    /// Whether an attempt under this claim has failed or gone to sleep, for a task with a claim for each attempt.
    pub(super) attempted: bool,
    /// What the handler has returned last.
    pub(super) returned: Option<Message>,
    pub(super) wake: Option<Timestamp>,
    /// When a handler that was slowed down runs again.
    pub(super) resume: Option<Duration>,
    pub(super) grace: Option<Duration>,
    /// Commands that were fed and are not settled in the store, oldest first.
    pub(super) waiting: Vec<(u64, Command)>,
    pub(super) fed: Vec<QueuedCommand>,
    /// How many commands the store has an outcome of.
    pub(super) settled: usize,
    pub(super) order: u64,
    pub(super) begun: bool,
    pub(super) stopping: bool,
    pub(super) tickets: BTreeSet<u64>,
    /// The checkpoint that the write under way carries, as far as the model knows.
    pub(super) ticket: u64,
    pub(super) refusals: u32,
    pub(super) fenced: bool,
    pub(super) done: Option<End>,
    pub(super) log: Vec<String>,
}

impl World {
    pub(super) fn new(config: Config, state: TaskState, abandoned: bool) -> Self {
        let order = state.last_command.as_ref().map_or(0, |c| c.order);
        Self {
            most: config.max_outcomes,
            stop_grace: config.stop_grace,
            machine: Machine::new(config.clone(), state.clone(), abandoned),
            config,
            abandoned,
            worker: Worker::default(),
            now: t0(),
            elapsed: Duration::ZERO,
            delivered: BTreeMap::new(),
            stop_delivered: None,
            durable: state,
            write: None,
            handler: Handler::None,
            failed_for_good: false,
            attempted: false,
            returned: None,
            wake: None,
            resume: None,
            grace: None,
            waiting: Vec::new(),
            fed: Vec::new(),
            settled: 0,
            order,
            begun: false,
            stopping: false,
            tickets: BTreeSet::new(),
            ticket: 0,
            refusals: 0,
            fenced: false,
            done: None,
            log: Vec::new(),
        }
    }

    pub(super) fn event(&mut self, event: Event) {
        match event {
            Event::Command(command) => self.command(command),
            Event::Again(index) if !self.fed.is_empty() => {
                let command = self.fed[index.index(self.fed.len())].clone();
                assert_eq!(self.feed(Input::Command(command)), 0, "it is known already");
            }
            Event::Return(message) if self.handler != Handler::None => {
                if self.worker.waits() {
                    return;
                }
                self.report(Said::Return(message.clone()));
                self.handler = Handler::None;
                self.failed_for_good = !message.is_retryable();
                self.returned = Some(message.clone());
                self.feed(Input::Returned(message));
            }
            Event::Ended if self.handler == Handler::Ending => {
                // While a checkpoint waits for its answer, the process aborts by itself, without a report.
                if !self.worker.waits() {
                    self.report(Said::Aborted);
                }
                self.handler = Handler::None;
                self.feed(Input::Aborted);
            }
            Event::Checkpoint(size) if self.handler != Handler::None => {
                if self.worker.waits() {
                    return;
                }
                self.ticket += 1;
                self.tickets.insert(self.ticket);
                let data = json(&format!("\"{}{}\"", self.ticket, "k".repeat(size)));
                self.report(Said::Checkpoint(data.clone()));
                self.feed(Input::Checkpoint {
                    ticket: self.ticket,
                    data,
                });
            }
            Event::Progress => {
                let progress = Progress::new(Some(0.5), "half");
                assert_eq!(self.feed(Input::Progress(progress)), 0);
            }
            Event::Stored if self.write.is_some() => self.stored(),
            Event::Refused if self.write.is_some() => {
                let write = self.write.take().unwrap();
                let settles = self.worker.waits() && self.handler == Handler::None;
                self.worker.refused |= settles && write.state.reported() > self.durable.reported();
                self.refusals += 1;
                self.feed(Input::Refused {
                    reason: "the store does not like it".into(),
                    retryable: true,
                });
            }
            Event::Fenced => {
                self.fenced = true;
                self.write = None;
                self.feed(Input::Fenced(StopReason::LeaseLost));
                assert!(self.done.is_some(), "{:#?}", self.log);
            }
            Event::Stop(reason) => {
                self.stopping = true;
                self.stop_delivered.get_or_insert(self.elapsed);
                self.feed(Input::Stop(reason));
            }
            Event::Pass(seconds) => self.pass(Duration::from_secs(seconds)),
            Event::SetClock(by) => {
                self.now += SignedDuration::from_secs(by);
                self.go_off();
            }
            Event::Stale(timer) => {
                // If it is armed this is its going off, too early.
                match timer {
                    Timer::Wake => (self.wake, self.resume) = (None, None),
                    Timer::Grace => self.grace = None,
                }
                self.feed(Input::Timer(timer));
            }
            Event::Adopt { applied, delivered } => self.adopt(applied, delivered),
            Event::Again(_)
            | Event::Return(_)
            | Event::Ended
            | Event::Checkpoint(_)
            | Event::Stored
            | Event::Refused => {}
        }
    }

    fn command(&mut self, command: Command) {
        self.order += 2; // orders have gaps
        let id = format!("c{}", self.order).parse().unwrap();
        let queued = QueuedCommand::new(id, self.order, command.clone());
        if self.done.is_none() {
            self.waiting.push((self.order, command));
            self.fed.push(queued.clone());
        }
        self.feed(Input::Command(queued));
    }

    pub(super) fn stored(&mut self) {
        let dropped = self.applied();
        self.feed(Input::Stored);
        assert_eq!(self.done.is_some(), dropped, "{:#?}", self.log);
    }

    /// The store applies the write that is under way. Returns whether it releases the claim.
    pub(super) fn applied(&mut self) -> bool {
        let write = self.write.take().unwrap();
        for (order, _) in &write.outcomes {
            assert_eq!(self.waiting.remove(0).0, *order);
            self.settled += 1;
        }
        self.refusals = 0;
        self.durable = write.state;
        if self.durable.code().is_terminal() {
            // What else waits is rejected by the store in the same write.
            self.settled += self.waiting.len();
            self.waiting.clear();
        }
        self.acknowledge();
        write.drop_claim
    }

    fn pass(&mut self, time: Duration) {
        self.elapsed += time;
        self.now += SignedDuration::try_from(time).unwrap();
        self.go_off();
    }

    /// The timers that are due go off.
    pub(super) fn go_off(&mut self) {
        if self.grace.is_some_and(|at| at <= self.elapsed) {
            self.grace = None;
            self.feed(Input::Timer(Timer::Grace));
        }
        if self.wake.is_some_and(|at| at <= self.now) {
            self.wake = None;
            self.feed(Input::Timer(Timer::Wake));
        }
        if self.resume.is_some_and(|at| at <= self.elapsed) {
            self.resume = None;
            self.feed(Input::Timer(Timer::Wake));
        }
    }

    /// Whether a grace is over for which the machine may abort the handler.
    fn grace_is_over(&self) -> bool {
        let over = |since: &Duration| *since + self.stop_grace <= self.elapsed;
        let aborting = self.waiting.iter().filter(|(_, c)| c.aborts());
        let mut delivered = aborting.filter_map(|(order, _)| self.delivered.get(order));
        delivered.any(over) || self.stop_delivered.as_ref().is_some_and(over)
    }

    /// Feeds an input and carries the effects out; answers how many there were.
    pub(super) fn feed(&mut self, input: Input) -> usize {
        self.log.push(format!("{} <- {input:?}", self.now));
        let was_done = self.done.is_some();
        let before = self.machine.state().clone();
        let mut out = Vec::new();
        let env = Env {
            now: self.now,
            elapsed: self.elapsed,
            jitter: 0.5,
        };
        self.machine.input(input, env, &mut out);
        for effect in &out {
            self.log.push(format!("  -> {}", line(effect)));
        }
        for effect in &out {
            if was_done {
                let answer = matches!(effect, Effect::CheckpointDone { result: Err(_), .. });
                assert!(answer, "after Done nothing comes out: {:#?}", self.log);
            }
            self.effect(effect.clone());
        }
        if self.done.is_none() {
            assert_eq!(self.machine.state(), &self.durable, "{:#?}", self.log);
            assert_eq!(self.machine.is_storing(), self.write.is_some());
            assert_eq!(self.machine.is_running(), self.handler != Handler::None);
        } else if was_done {
            assert_eq!(self.machine.state(), &before);
        }
        out.len()
    }

    fn effect(&mut self, effect: Effect) {
        let log = format!("{:#?}", self.log);
        match effect {
            Effect::Start { attempt, run } => {
                self.starts(run, &log);
                assert_eq!(self.handler, Handler::None, "one handler at a time: {log}");
                assert_eq!(self.durable.code(), StateKind::Runnable, "{log}");
                assert!(self.write.is_none() && self.begun, "{log}");
                assert!(!self.stopping, "it is to stop: {log}");
                assert_eq!(attempt, self.durable.attempts + 1, "{log}");
                self.handler = Handler::Runs;
            }
            Effect::Signal(signal) => {
                assert_eq!(
                    self.handler,
                    Handler::Runs,
                    "a running handler receives it: {log}"
                );
                if let Signal::Command { order, command } = signal {
                    let last = self.waiting.last().unwrap();
                    let sent = (order, command);
                    let again = self.worker.adopting && self.waiting.contains(&sent);
                    assert!(*last == sent || again, "{log}");
                    self.delivered.insert(order, self.elapsed);
                }
            }
            Effect::Abort => {
                assert_eq!(self.handler, Handler::Runs, "{log}");
                let hopeless = self.fenced || self.refusals > 2;
                assert!(self.grace_is_over() || hopeless, "within the grace: {log}");
                self.handler = Handler::Ending;
            }
            Effect::Persist(write) => self.persist(*write, &log),
            Effect::CheckpointDone { ticket, result } => {
                assert!(self.tickets.remove(&ticket), "answered once: {log}");
                self.answered(result.is_ok(), &log);
                if result.is_ok() {
                    let data = self.durable.data.as_ref().unwrap().as_str();
                    assert!(data.starts_with(&format!("\"{ticket}")), "durable: {log}");
                }
            }
            Effect::ArmWake(at) => {
                assert_eq!(
                    self.durable.status,
                    TaskStatus::Sleeping { until: at },
                    "{log}"
                );
                self.wake = Some(at);
            }
            Effect::ArmResume { at, runs } => {
                assert_eq!(self.handler, Handler::None, "{log}");
                assert_eq!(self.durable.status, TaskStatus::Runnable, "{log}");
                assert!(self.waiting.is_empty() && !self.stopping, "{log}");
                assert!(runs > 0 && at > self.elapsed, "{log}");
                assert!(at <= self.elapsed + Duration::from_secs(1), "{log}");
                self.resume = Some(at);
            }
            Effect::ArmGrace(at) => {
                assert_eq!(self.handler, Handler::Runs, "{log}");
                assert!(at <= self.elapsed + self.stop_grace, "never longer: {log}");
                self.grace = Some(at);
            }
            Effect::Disarm(Timer::Wake) => (self.wake, self.resume) = (None, None),
            Effect::Disarm(Timer::Grace) => self.grace = None,
            Effect::Done(end) => {
                assert!(self.done.is_none() && self.write.is_none(), "{log}");
                match end {
                    End::Dropped(code) => assert_eq!(code, self.durable.code(), "{log}"),
                    End::Lost => assert!(self.fenced || self.refusals > 2, "{log}"),
                }
                assert_ne!(self.handler, Handler::Runs, "it was aborted: {log}");
                assert!(
                    self.tickets.is_empty(),
                    "every checkpoint is answered: {log}"
                );
                assert_eq!((self.wake, self.resume), (None, None), "{log}");
                self.done = Some(end);
            }
        }
    }
}
