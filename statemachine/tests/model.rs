//! The machine under random inputs, beside a model of everything around it: the store, the
//! handler, the timers, the operator. What the crate promises of it is checked at each effect.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

#[path = "model/check.rs"]
mod check;
mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::{arbitrary, config, json, line, t, t0};
use jiff::{SignedDuration, Timestamp};
use proptest::{collection::vec, prelude::*};
use windlass_statemachine::{
    Command, Decision, Failure, Machine, Message, Outcome, Progress, QueuedCommand, Retry,
    RetryPolicy, StateKind, TaskState, TaskStatus, Wake,
    machine::{Config, Effect, End, Env, Input, Signal, StopReason, Timer, Write},
    state::LastCommand,
};

/// Something that happens around the machine. What makes no sense at the time is fed all the
/// same where a runner could feed it late, and skipped where it never would.
#[derive(Debug, Clone)]
enum Event {
    Command(Command),
    /// A command that was fed before, once more.
    Again(prop::sample::Index),
    Return(Message),
    Checkpoint(usize),
    Progress,
    /// The handler that is being aborted has ended.
    Ended,
    Stored,
    Refused,
    Fenced,
    Stop(StopReason),
    /// Time passes; timers that are due go off.
    Pass(u64),
    /// The clock is set forward or back: no time passes.
    SetClock(i64),
    /// A timer that goes off too early, or was disarmed too late.
    Stale(Timer),
}

fn event() -> impl Strategy<Value = Event> {
    let command = prop_oneof![
        3 => Just(Command::Run),
        2 => (-5..40i64).prop_map(|s| Command::Sleep { until: t(s) }),
        3 => Just(Command::Pause),
        2 => Just(Command::Release),
        4 => Just(Command::Checkpoint),
        1 => Just(Command::Complete { result: None }),
        1 => (0..120usize).prop_map(|n| Command::Complete {
            result: Some(json(&format!("\"{}\"", "c".repeat(n)))),
        }),
        1 => Just(Command::Kill),
    ];
    prop_oneof![
        8 => command.prop_map(Event::Command),
        1 => any::<prop::sample::Index>().prop_map(Event::Again),
        6 => arbitrary::message().prop_map(Event::Return),
        3 => (0..120usize).prop_map(Event::Checkpoint),
        1 => Just(Event::Progress),
        4 => Just(Event::Ended),
        12 => Just(Event::Stored),
        3 => Just(Event::Refused),
        1 => Just(Event::Fenced),
        1 => prop::sample::select(vec![StopReason::Shutdown, StopReason::Drain, StopReason::StopTask])
            .prop_map(Event::Stop),
        6 => prop_oneof![0..12u64, Just(30), Just(31)].prop_map(Event::Pass),
        2 => prop_oneof![-3..40i64, Just(-3600), Just(3600)].prop_map(Event::SetClock),
        1 => prop::sample::select(vec![Timer::Wake, Timer::Grace]).prop_map(Event::Stale),
    ]
}

/// The answer of a policy, fixed: at once, soon, an endless sleep, giving up.
#[derive(Debug, Clone)]
struct Fixed(Decision);

impl RetryPolicy for Fixed {
    fn decide(&self, _: &Failure<'_>) -> Decision {
        self.0
    }
    fn keeps(&self) -> usize {
        0
    }
}

fn configs() -> impl Strategy<Value = Config> {
    let policies = prop_oneof![
        Just(config(Retry::default())),
        Just(config(Retry::exponential(3, Duration::from_secs(8)))),
        Just(config(Retry::Never)),
        Just(config(Fixed(Decision::Run))),
        Just(config(Fixed(Decision::Sleep(Wake::After(Duration::MAX))))),
    ];
    let most = prop_oneof![1..5usize, Just(1000)];
    (policies, most, 1..4u32).prop_map(|(config, max_outcomes, idle_runs)| Config {
        max_outcomes,
        idle_runs,
        ..config
    })
}

fn starts() -> impl Strategy<Value = (TaskState, bool)> {
    let status = prop_oneof![
        4 => Just(TaskStatus::Runnable),
        2 => (-5..30i64).prop_map(|s| TaskStatus::Sleeping { until: t(s) }),
        1 => Just(TaskStatus::Paused),
        1 => Just(TaskStatus::Fault),
        1 => Just(TaskStatus::Completed { result: None }),
        1 => Just(TaskStatus::Failed),
    ];
    let last = prop::option::of(1..5u64);
    (
        status,
        0..4u32,
        last,
        prop::option::of(0..150usize),
        any::<bool>(),
    )
        .prop_map(|(status, attempts, last, data, abandoned)| {
            let mut state = TaskState::new(t0());
            state.status = status;
            state.attempts = attempts;
            state.version = 3;
            state.last_command = last.map(|order| LastCommand {
                order,
                outcome: Outcome::Rejected {
                    reason: "no".into(),
                },
            });
            state.data = data.map(|n| json(&format!("\"{}\"", "o".repeat(n))));
            (state, abandoned)
        })
}

/// What runs for the task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Handler {
    None,
    Runs,
    /// It was aborted and has not ended.
    Ending,
}

struct World {
    machine: Machine,
    /// How many outcomes a write has at the most.
    most: usize,
    now: Timestamp,
    /// How much time has passed, whatever the clock says.
    elapsed: Duration,
    stop_grace: Duration,
    /// Since when the handler knows of each command that waits, and of the stop.
    told: BTreeMap<u64, Duration>,
    stop_told: Option<Duration>,
    /// What the store has.
    durable: TaskState,
    write: Option<Write>,
    handler: Handler,
    /// Whether the handler last returned an error that no retry fixes.
    failed_for_good: bool,
    wake: Option<Timestamp>,
    /// When a handler that was slowed down runs again.
    resume: Option<Duration>,
    grace: Option<Duration>,
    /// Commands that were fed and are not settled in the store, oldest first.
    waiting: Vec<(u64, Command)>,
    fed: Vec<QueuedCommand>,
    /// How many commands the store has an outcome of.
    settled: usize,
    order: u64,
    begun: bool,
    stopping: bool,
    tickets: BTreeSet<u64>,
    /// The checkpoint that the write under way carries, as far as the model knows.
    ticket: u64,
    refusals: u32,
    fenced: bool,
    done: Option<End>,
    log: Vec<String>,
}

impl World {
    fn new(config: Config, state: TaskState, abandoned: bool) -> Self {
        let order = state.last_command.as_ref().map_or(0, |c| c.order);
        Self {
            most: config.max_outcomes,
            stop_grace: config.stop_grace,
            machine: Machine::new(config, state.clone(), abandoned),
            now: t0(),
            elapsed: Duration::ZERO,
            told: BTreeMap::new(),
            stop_told: None,
            durable: state,
            write: None,
            handler: Handler::None,
            failed_for_good: false,
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

    fn event(&mut self, event: Event) {
        match event {
            Event::Command(command) => self.command(command),
            Event::Again(index) if !self.fed.is_empty() => {
                let command = self.fed[index.index(self.fed.len())].clone();
                assert_eq!(self.feed(Input::Command(command)), 0, "it is known already");
            }
            Event::Return(message) if self.handler != Handler::None => {
                self.handler = Handler::None;
                self.failed_for_good = !message.is_retryable();
                self.feed(Input::Returned(message));
            }
            Event::Ended if self.handler == Handler::Ending => {
                self.handler = Handler::None;
                self.feed(Input::Aborted);
            }
            Event::Checkpoint(size) if self.handler != Handler::None => {
                self.ticket += 1;
                self.tickets.insert(self.ticket);
                let data = json(&format!("\"{}{}\"", self.ticket, "k".repeat(size)));
                self.feed(Input::Checkpoint {
                    ticket: self.ticket,
                    data,
                });
            }
            Event::Progress => {
                let progress = Progress {
                    fraction: Some(0.5),
                    text: "half".into(),
                };
                assert_eq!(self.feed(Input::Progress(progress)), 0);
            }
            Event::Stored if self.write.is_some() => self.stored(),
            Event::Refused if self.write.is_some() => {
                self.write = None;
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
                self.stop_told.get_or_insert(self.elapsed);
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
        let queued = QueuedCommand {
            order: self.order,
            id,
            command: command.clone(),
        };
        if self.done.is_none() {
            self.waiting.push((self.order, command));
            self.fed.push(queued.clone());
        }
        self.feed(Input::Command(queued));
    }

    fn stored(&mut self) {
        let write = self.write.take().unwrap();
        for (order, _) in &write.outcomes {
            assert_eq!(self.waiting.remove(0).0, *order);
            self.settled += 1;
        }
        self.refusals = 0;
        let dropped = write.drop_claim;
        self.durable = write.state;
        if self.durable.code().is_terminal() {
            // What else waits is rejected by the store in the same write.
            self.settled += self.waiting.len();
            self.waiting.clear();
        }
        self.feed(Input::Stored);
        assert_eq!(self.done.is_some(), dropped, "{:#?}", self.log);
    }

    fn pass(&mut self, time: Duration) {
        self.elapsed += time;
        self.now += SignedDuration::try_from(time).unwrap();
        self.go_off();
    }

    /// The timers that are due go off.
    fn go_off(&mut self) {
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
        let mut told = aborting.filter_map(|(order, _)| self.told.get(order));
        told.any(over) || self.stop_told.as_ref().is_some_and(over)
    }

    /// Feeds an input and carries the effects out; answers how many there were.
    fn feed(&mut self, input: Input) -> usize {
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
            Effect::Start { attempt } => {
                assert_eq!(self.handler, Handler::None, "one handler at a time: {log}");
                assert_eq!(self.durable.code(), StateKind::Runnable, "{log}");
                assert!(self.write.is_none() && self.begun, "{log}");
                assert!(!self.stopping, "it is to stop: {log}");
                assert_eq!(attempt, self.durable.attempts + 1, "{log}");
                self.handler = Handler::Runs;
            }
            Effect::Signal(signal) => {
                assert_eq!(self.handler, Handler::Runs, "somebody hears it: {log}");
                if let Signal::Command(command) = signal {
                    let last = self.waiting.last().unwrap();
                    assert_eq!(last.1, command, "{log}");
                    self.told.insert(last.0, self.elapsed);
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

    /// From here on all goes well: every write is stored, every aborted handler ends, time passes.
    fn settle_down(&mut self) {
        for _ in 0..100 {
            if self.done.is_some() {
                return;
            }
            if self.write.is_some() {
                self.stored();
            } else if self.handler == Handler::Ending {
                self.event(Event::Ended);
            } else if self.handler == Handler::Runs {
                if self.waiting.is_empty() && !self.stopping {
                    return;
                }
                let at = self
                    .grace
                    .unwrap_or_else(|| panic!("no grace: {:#?}", self.log));
                // The clock may be set back meanwhile: the grace is as long as it was.
                self.now -= SignedDuration::from_hours(1);
                self.elapsed = self.elapsed.max(at);
                self.go_off();
            } else if let Some(at) = self.resume {
                self.elapsed = self.elapsed.max(at);
                self.go_off();
                assert_eq!(self.resume, None, "{:#?}", self.log);
            } else {
                let TaskStatus::Sleeping { until } = self.durable.status else {
                    panic!("stuck: {:#?}", self.log);
                };
                assert_eq!(self.wake, Some(until), "{:#?}", self.log);
                assert!(self.waiting.is_empty() && !self.stopping, "{:#?}", self.log);
                return;
            }
        }
        panic!("it never settles down: {:#?}", self.log);
    }
}

fn play(config: Config, start: (TaskState, bool), early: Vec<Event>, events: Vec<Event>) -> World {
    let mut world = World::new(config, start.0, start.1);
    for event in early {
        world.event(event);
    }
    world.begun = true;
    world.feed(Input::Begin);
    for event in events {
        world.event(event);
    }
    world.settle_down();
    let outcomes = world.fed.len() - world.waiting.len();
    assert_eq!(
        outcomes, world.settled,
        "each command has one outcome or waits"
    );
    if world.done.is_none() {
        assert!(world.waiting.is_empty(), "{:#?}", world.log);
    }
    world
}

/// What a node sees of a task before it has begun with it: no faults, no stop.
fn early() -> impl Strategy<Value = Vec<Event>> {
    vec(event(), 0..5).prop_map(without_faults)
}

fn without_faults(mut events: Vec<Event>) -> Vec<Event> {
    events.retain(|e| !matches!(e, Event::Fenced | Event::Stop(_) | Event::Refused));
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_keeps_the_promises(
        config in configs(), start in starts(), early in early(), events in vec(event(), 0..60),
    ) {
        play(config, start, early, events);
    }

    /// Without faults and stops: longer lives.
    #[test]
    fn a_task_that_is_left_alone_lives_on(
        config in configs(), start in starts(), early in early(),
        events in vec(event(), 0..150).prop_map(without_faults),
    ) {
        let world = play(config, start, early, events);
        prop_assert_ne!(world.done, Some(End::Lost));
    }

    #[test]
    fn a_stop_is_heeded_whenever_it_comes(
        config in configs(), start in starts(), events in vec(event(), 0..30),
        at in any::<prop::sample::Index>(),
    ) {
        let mut events = events;
        events.insert(at.index(events.len() + 1), Event::Stop(StopReason::Shutdown));
        let world = play(config, start, vec![], events);
        prop_assert!(world.done.is_some(), "the claim is given back or lost");
    }
}
