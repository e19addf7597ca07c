//! Signals among everything else that happens to a task, at random: each has at most one outcome, and none
//! is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::common::{arbitrary, config, json, line, t, t0};
use jiff::SignedDuration;
use proptest::{collection::vec, prelude::*};
use windlass_statemachine::{
    ActionKind, Command, Machine, Message, Outcome, QueuedCommand, Retry, Signal, StateKind,
    TaskState, TaskStatus,
    machine::{Answer, Config, Effect, Env, Input, Signal as Delivery, StopReason, Timer, Write},
};

#[derive(Debug, Clone)]
enum Event {
    Command(Command),
    /// The handler replies to the signal with this index, of those that it has.
    Answer(prop::sample::Index),
    /// The handler takes the commands that it has.
    Take,
    /// The handler returns; with replies to the first signals that it has.
    Return(Message, usize),
    Stored,
    Refused,
    Stop,
    Pass(u64),
    /// The node is lost, and the next one claims the task.
    Crash,
}

fn event() -> impl Strategy<Value = Event> {
    let signal = || Command::Signal(Signal::new("n"));
    let command = prop_oneof![
        8 => Just(signal()),
        1 => Just(Command::Run),
        1 => Just(Command::Sleep { until: t(900) }),
        2 => Just(Command::Pause),
        1 => Just(Command::Release),
        1 => Just(Command::Checkpoint),
        1 => Just(Command::Complete { result: None }),
        1 => Just(Command::Kill),
    ];
    let message = (arbitrary::message(), any::<bool>());
    let message = message.prop_map(|(m, keep)| if keep { m.keep_signals() } else { m });
    prop_oneof![
        8 => command.prop_map(Event::Command),
        4 => any::<prop::sample::Index>().prop_map(Event::Answer),
        4 => Just(Event::Take),
        6 => (message, 0..3usize).prop_map(|(m, n)| Event::Return(m, n)),
        14 => Just(Event::Stored),
        2 => Just(Event::Refused),
        1 => Just(Event::Stop),
        4 => prop_oneof![0..12u64, Just(31), Just(1000)].prop_map(Event::Pass),
        1 => Just(Event::Crash),
    ]
}

/// The store, the handler and the clock around one machine after the other.
struct World {
    config: Config,
    machine: Machine,
    durable: TaskState,
    seconds: u64,
    order: u64,
    ticket: u64,
    /// Commands without an outcome in the store.
    queue: BTreeMap<u64, Command>,
    outcomes: BTreeMap<u64, Outcome>,
    write: Option<Write>,
    /// What the running handler has been given; `None`: none runs.
    handler: Option<Vec<u64>>,
    /// Signals that some handler has had.
    had: BTreeSet<u64>,
    aborting: bool,
    stopping: bool,
    done: bool,
    log: Vec<String>,
}

impl World {
    fn new(max_outcomes: usize) -> Self {
        let config = Config {
            max_outcomes,
            ..config(Retry::default())
        };
        let durable = TaskState::new(t0());
        let machine = Machine::new(config.clone(), durable.clone(), false);
        let mut world = Self {
            config,
            machine,
            durable,
            seconds: 0,
            order: 0,
            ticket: 0,
            queue: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            write: None,
            handler: None,
            had: BTreeSet::new(),
            aborting: false,
            stopping: false,
            done: false,
            log: Vec::new(),
        };
        world.feed(Input::Begin);
        world
    }

    fn claim(&mut self) {
        self.log.push("claimed".into());
        self.machine = Machine::new(self.config.clone(), self.durable.clone(), false);
        (self.write, self.handler) = (None, None);
        (self.aborting, self.stopping, self.done) = (false, false, false);
        for (order, command) in self.queue.clone() {
            self.feed_command(order, command);
        }
        self.feed(Input::Begin);
    }

    fn feed_command(&mut self, order: u64, command: Command) {
        let id = format!("c{order}").parse().unwrap();
        self.feed(Input::Command(QueuedCommand::new(id, order, command)));
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Command(command) if !self.durable.code().is_terminal() => {
                self.order += 1;
                self.queue.insert(self.order, command.clone());
                self.feed_command(self.order, command);
            }
            Event::Answer(index) => {
                let Some(has) = self.handler.as_ref().filter(|has| !has.is_empty()) else {
                    return;
                };
                let signal = has[index.index(has.len())];
                self.ticket += 1;
                self.feed(Input::Answer {
                    ticket: self.ticket,
                    answer: Answer {
                        signal,
                        reply: json("1"),
                        data: None,
                    },
                });
            }
            Event::Take => {
                if let Some(last) = self.handler.as_ref().and_then(|has| has.last()) {
                    self.feed(Input::Took(*last));
                }
            }
            Event::Return(message, replies) => {
                if let Some(has) = self.handler.take() {
                    self.aborting = false;
                    let answer =
                        |m: Message, order: &u64| m.answer(&Signal::new("n").at(*order), &2);
                    let message = has.iter().take(replies).fold(message, answer);
                    self.feed(Input::Returned(message));
                }
            }
            Event::Stored => self.stored(),
            Event::Refused if self.write.take().is_some() => self.feed(Input::Refused {
                reason: "no".into(),
                retryable: true,
            }),
            Event::Stop => {
                self.stopping = true;
                self.feed(Input::Stop(StopReason::Shutdown));
            }
            Event::Pass(seconds) => {
                self.seconds += seconds;
                self.feed(Input::Timer(Timer::Grace));
                self.feed(Input::Timer(Timer::Wake));
            }
            Event::Crash if !self.durable.code().is_terminal() => self.claim(),
            _ => {}
        }
    }

    fn stored(&mut self) {
        let Some(write) = self.write.take() else {
            return;
        };
        self.durable = write.state;
        for (order, outcome) in write.outcomes {
            let log = format!("{:#?}", self.log);
            let command = self.queue.remove(&order).expect(&log);
            let of_signal = matches!(outcome, Outcome::Answered { .. } | Outcome::Unanswered);
            if of_signal {
                assert!(matches!(command, Command::Signal(_)), "{log}");
                assert!(self.had.contains(&order), "no handler has had it: {log}");
            }
            assert_eq!(self.outcomes.insert(order, outcome), None, "{log}");
        }
        if self.durable.code().is_terminal() {
            // The store rejects what waits.
            for (order, _) in std::mem::take(&mut self.queue) {
                let reason = "ended".into();
                assert_eq!(
                    self.outcomes.insert(order, Outcome::Rejected { reason }),
                    None
                );
            }
        }
        self.feed(Input::Stored);
    }

    fn feed(&mut self, input: Input) {
        self.log.push(format!("+{}s <- {input:?}", self.seconds));
        let elapsed = Duration::from_secs(self.seconds);
        let env = Env {
            now: t0() + SignedDuration::try_from(elapsed).unwrap(),
            elapsed,
            jitter: 0.5,
        };
        let mut out = Vec::new();
        self.machine.input(input, env, &mut out);
        for effect in out {
            self.log.push(format!("  -> {}", line(&effect)));
            self.effect(effect);
        }
    }

    fn effect(&mut self, effect: Effect) {
        let log = format!("{:#?}", self.log);
        match effect {
            Effect::Start { .. } => self.handler = Some(Vec::new()),
            Effect::Signal(Delivery::Command { order, command }) => {
                let has = self.handler.as_mut().expect(&log);
                assert!(
                    has.last().is_none_or(|last| *last < order),
                    "in order: {log}"
                );
                has.push(order);
                if let Command::Signal(signal) = command {
                    assert_eq!(signal.order(), order, "{log}");
                    self.had.insert(order);
                }
            }
            Effect::Signal(Delivery::Stop(_)) => {}
            Effect::Abort => self.aborting = true,
            Effect::Persist(write) => self.check(*write, &log),
            Effect::Done(_) => self.done = true,
            _ => {}
        }
    }

    fn check(&mut self, write: Write, log: &str) {
        assert!(write.outcomes.len() <= self.config.max_outcomes, "{log}");
        // Commands have their effect in order; signals get their outcome when they are answered.
        let commands = write.outcomes.iter().map(|(order, _)| *order);
        let commands: Vec<u64> = commands
            .filter(|order| !matches!(self.queue[order], Command::Signal(_)))
            .collect();
        let first = self
            .queue
            .iter()
            .filter(|(_, c)| !matches!(c, Command::Signal(_)));
        let first: Vec<u64> = first
            .map(|(order, _)| *order)
            .take(commands.len())
            .collect();
        assert_eq!(commands, first, "{log}");
        // A parked task with signals keeps its claim, or it would be claimed again and again.
        let settled = |order: &u64| write.outcomes.iter().any(|(o, _)| o == order);
        let left = self.queue.keys().any(|order| !settled(order));
        let released = write.steps.iter().any(|s| s.message == ActionKind::Release);
        let parked = matches!(
            write.state.status,
            TaskStatus::Sleeping { .. } | TaskStatus::Paused
        );
        if parked && left && write.drop_claim && !write.steps.is_empty() {
            assert!(released, "{log}");
        }
        self.write = Some(write);
    }

    /// From here on all goes well, and the handler replies to everything.
    fn settle_down(&mut self) {
        for _ in 0..200 {
            if self.durable.code().is_terminal() {
                return;
            }
            if self.write.is_some() {
                self.stored();
            } else if self.done {
                self.seconds += 1000;
                if self.queue.is_empty() {
                    self.order += 1;
                    self.queue.insert(self.order, Command::Run);
                }
                self.claim();
            } else if self.aborting {
                self.aborting = false;
                self.handler = None;
                self.feed(Input::Aborted);
            } else if let Some(has) = self.handler.take() {
                let stops = self.stopping || self.queue.values().any(Command::aborts);
                let message = if stops {
                    Message::pause()
                } else {
                    Message::complete()
                };
                let answer = |m: Message, order: &u64| m.answer(&Signal::new("n").at(*order), &3);
                let message = has.iter().fold(message, answer);
                if let Some(last) = has.last() {
                    self.feed(Input::Took(*last));
                }
                self.feed(Input::Returned(message));
            } else if self.durable.code() == StateKind::Paused {
                // Kept signals wait for a command.
                self.event(Event::Command(Command::Run));
            } else {
                self.event(Event::Pass(1000));
            }
        }
        panic!("it never settles down: {:#?}", self.log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn each_signal_has_one_outcome(
        events in vec(event(), 0..60),
        most in prop_oneof![Just(2usize), Just(3), Just(1000)],
    ) {
        let mut world = World::new(most);
        for event in events {
            world.event(event);
        }
        world.settle_down();
        // The end has given an outcome to everything that was sent.
        prop_assert_eq!(world.outcomes.len() as u64, world.order, "{:#?}", world.log);
    }
}
