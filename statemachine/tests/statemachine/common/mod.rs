//! A machine under test: fed by hand, its effects written as short lines.
#![allow(
    dead_code,
    reason = "every test file takes what it needs of these helpers"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

pub(crate) mod arbitrary;
pub(crate) mod stored;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass_statemachine::{
    Command, Json, Machine, Message, Outcome, QueuedCommand, Retry, RetryPolicy, TaskState,
    TaskStatus,
    machine::{Config, Effect, End, Env, Input, Signal, StopReason, Timer, Write},
};

/// When every test begins: 2030-01-01T00:00:00Z.
pub(crate) fn t0() -> Timestamp {
    Timestamp::from_second(1_893_456_000).unwrap()
}

pub(crate) fn t(second: i64) -> Timestamp {
    t0() + SignedDuration::from_secs(second)
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse("test", text).unwrap()
}

pub(crate) fn config(retry: impl RetryPolicy + 'static) -> Config {
    Config {
        stop_grace: Duration::from_secs(30),
        park_after: Duration::from_secs(10),
        retry: Arc::new(retry),
        max_data_bytes: 100,
        data_version: 1,
        max_outcomes: 5,
        takes_signals: true,
        idle_runs: 100,
        named_runs: false,
        claim_per_attempt: false,
    }
}

pub(crate) struct Rig {
    pub(crate) machine: Machine,
    pub(crate) now: Timestamp,
    elapsed: Duration,
    pub(crate) jitter: f64,
    /// The last write that came out.
    pub(crate) write: Option<Write>,
    order: u64,
}

impl Rig {
    /// A task that was just submitted and claimed, with the default policy.
    pub(crate) fn new() -> Self {
        Self::of(TaskState::new(t0()), Retry::default())
    }

    pub(crate) fn of(state: TaskState, retry: impl RetryPolicy + 'static) -> Self {
        Self::with(config(retry), state, false)
    }

    pub(crate) fn with(config: Config, state: TaskState, abandoned: bool) -> Self {
        let order = state.last_command.as_ref().map_or(0, |c| c.order);
        Self {
            machine: Machine::new(config, state, abandoned),
            now: t0(),
            elapsed: Duration::ZERO,
            jitter: 0.5,
            write: None,
            order,
        }
    }

    /// A task of a remote worker whose handler runs, continued by another process.
    pub(crate) fn adopted(state: TaskState, took: u64) -> Self {
        let config = Config {
            named_runs: true,
            ..config(Retry::default())
        };
        let mut rig = Self::with(config.clone(), state.clone(), false);
        rig.machine = Machine::adopt(config, state, took);
        rig
    }

    /// A task of a remote worker, claimed by a process that starts its handler.
    pub(crate) fn named(state: TaskState) -> Self {
        let config = Config {
            named_runs: true,
            ..config(Retry::default())
        };
        Self::with(config, state, false)
    }

    /// Another process continues the running handler from what is durable.
    pub(crate) fn adopted_elsewhere(&self, took: u64) -> Self {
        let mut rig = Self::adopted(self.machine.state().clone(), took);
        (rig.now, rig.elapsed) = (self.now, Duration::ZERO);
        rig
    }

    /// One whose handler runs.
    pub(crate) fn running() -> Self {
        let mut rig = Self::new();
        assert_eq!(rig.begin(), ["start 1"]);
        rig
    }

    pub(crate) fn at(&mut self, second: i64) -> &mut Self {
        self.now = t(second);
        // The clock may be set back; the time that has passed does not shrink.
        let passed = u64::try_from(second).unwrap_or(0);
        self.elapsed = self.elapsed.max(Duration::from_secs(passed));
        self
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Time passes, in milliseconds.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.elapsed += Duration::from_millis(millis);
        self.now += SignedDuration::from_millis(millis as i64);
    }

    /// Sets the clock; no time passes.
    pub(crate) fn clock_set_to(&mut self, second: i64) -> &mut Self {
        self.now = t(second);
        self
    }

    pub(crate) fn feed(&mut self, input: Input) -> Vec<String> {
        let mut out = Vec::new();
        let env = Env {
            now: self.now,
            elapsed: self.elapsed,
            jitter: self.jitter,
        };
        self.machine.input(input, env, &mut out);
        for effect in &out {
            if let Effect::Persist(write) = effect {
                self.write = Some((**write).clone());
            }
        }
        out.iter().map(line).collect()
    }

    pub(crate) fn begin(&mut self) -> Vec<String> {
        self.feed(Input::Begin)
    }

    pub(crate) fn returned(&mut self, message: Message) -> Vec<String> {
        self.feed(Input::Returned(message))
    }

    pub(crate) fn aborted(&mut self) -> Vec<String> {
        self.feed(Input::Aborted)
    }

    /// The next command; the first has the order 1.
    pub(crate) fn command(&mut self, command: Command) -> Vec<String> {
        self.order += 1;
        let order = self.order;
        self.command_at(order, command)
    }

    pub(crate) fn command_at(&mut self, order: u64, command: Command) -> Vec<String> {
        let id = format!("c{order}").parse().unwrap();
        self.feed(Input::Command(QueuedCommand::new(id, order, command)))
    }

    pub(crate) fn checkpoint(&mut self, ticket: u64, data: &str) -> Vec<String> {
        let data = json(data);
        self.feed(Input::Checkpoint { ticket, data })
    }

    pub(crate) fn stop(&mut self) -> Vec<String> {
        self.feed(Input::Stop(StopReason::Shutdown))
    }

    pub(crate) fn grace(&mut self) -> Vec<String> {
        self.feed(Input::Timer(Timer::Grace))
    }

    pub(crate) fn wake(&mut self) -> Vec<String> {
        self.feed(Input::Timer(Timer::Wake))
    }

    pub(crate) fn stored(&mut self) -> Vec<String> {
        self.feed(Input::Stored)
    }

    pub(crate) fn refused(&mut self) -> Vec<String> {
        self.feed(Input::Refused {
            reason: "too much".into(),
            retryable: true,
        })
    }

    /// Refuses the write for what no retry changes.
    pub(crate) fn refused_for_good(&mut self) -> Vec<String> {
        self.feed(Input::Refused {
            reason: "too much".into(),
            retryable: false,
        })
    }

    pub(crate) fn fenced(&mut self) -> Vec<String> {
        self.feed(Input::Fenced(StopReason::LeaseLost))
    }

    /// The state of the last write.
    pub(crate) fn written(&self) -> &TaskState {
        &self.write.as_ref().expect("something was written").state
    }

    /// The newest error of the last write.
    pub(crate) fn error(&self) -> &str {
        let errors = &self.written().errors;
        &errors.last().expect("there is an error").error
    }
}

fn offset(at: Timestamp) -> String {
    format!("+{}s", at.duration_since(t0()).as_secs_f64())
}

/// An effect as one line, such as `write paused: pause#1; 1 applied runnable paused; drop`.
pub(crate) fn line(effect: &Effect) -> String {
    let timer = |timer: &Timer| match timer {
        Timer::Wake => "wake",
        Timer::Grace => "grace",
    };
    match effect {
        Effect::Start { attempt, .. } => format!("start {attempt}"),
        Effect::Signal(Signal::Command { order, command }) => match command {
            Command::Signal(signal) => format!("signal {}#{order}", signal.name()),
            command => format!("signal {}", command.kind()),
        },
        Effect::Signal(Signal::Stop(reason)) => format!("signal {reason:?}"),
        Effect::Abort => "abort".into(),
        Effect::Persist(write) => write_line(write),
        Effect::CheckpointDone { ticket, result } => match result {
            Ok(()) => format!("checkpoint {ticket} ok"),
            Err(why) => format!("checkpoint {ticket} refused: {why}"),
        },
        Effect::ArmWake(at) => format!("arm wake {}", offset(*at)),
        Effect::ArmResume { at, runs } => {
            format!("resume +{}s after {runs} runs", at.as_secs_f64())
        }
        Effect::ArmGrace(at) => format!("arm grace +{}s", at.as_secs_f64()),
        Effect::Disarm(which) => format!("disarm {}", timer(which)),
        Effect::Done(End::Dropped(code)) => format!("done {code}"),
        Effect::Done(End::Lost) => "lost".into(),
    }
}

fn write_line(write: &Write) -> String {
    let mut text = format!("write {}", write.state.code());
    if let TaskStatus::Sleeping { until } = write.state.status {
        text += &format!(" {}", offset(until));
    }
    let steps: Vec<_> = write
        .steps
        .iter()
        .map(|step| match step.command {
            Some(order) => format!("{}#{order}", step.message),
            None => step.message.to_string(),
        })
        .collect();
    if !steps.is_empty() {
        text += &format!(": {}", steps.join(" "));
    }
    for (order, outcome) in &write.outcomes {
        text += &match outcome {
            Outcome::Applied { from, to } => format!("; {order} applied {from} {to}"),
            Outcome::Overridden { by } => format!("; {order} overridden by {by}"),
            Outcome::Rejected { reason } => format!("; {order} rejected: {reason}"),
            Outcome::Answered { reply } => format!("; {order} answered {reply}"),
            Outcome::Unanswered => format!("; {order} unanswered"),
        };
    }
    if write.drop_claim {
        text += "; drop";
    }
    text
}
