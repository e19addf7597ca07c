//! The words of the machine: what it is fed, and what it answers.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    ActionKind, Command, Effects, Json, Message, Outcome, Progress, QueuedCommand, RetryPolicy,
    StateKind, TaskState,
};

/// What a machine is told of its task and of its kind.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long a handler may take to answer a command or a stop before it is aborted.
    pub stop_grace: Duration,
    /// A task that sleeps for longer than this gives its claim back.
    pub park_after: Duration,
    /// What follows a failed attempt.
    pub retry: Arc<dyn RetryPolicy>,
    /// How many bytes data and result may have (the limit of the store, less the props).
    pub max_data_bytes: usize,
    /// The version of the data that the handler writes: 1 for a kind that declares none.
    pub data_version: u32,
    /// How many commands get their outcome in one write at the most (at least 1); what waits behind
    /// them does so in the writes that follow.
    pub max_outcomes: usize,
    /// How many runs of less than 100 ms in a row may change nothing (no new data, no effect) before
    /// the machine waits between two: 10 ms, then twice as long each time, at most 1 s.
    pub idle_runs: u32,
}

/// What comes from outside with every input, so that the machine needs no clock and no dice.
#[derive(Debug, Clone, Copy)]
pub struct Env {
    /// The time of day: for wake-ups and for what is recorded. It may be set forward and back.
    pub now: Timestamp,
    /// The time that has passed since a moment of the caller's choice, which is the same for every
    /// input of a machine. It never goes back: every wait but a wake-up is measured with it.
    pub elapsed: Duration,
    /// A random number from 0 (included) to 1 (excluded).
    pub jitter: f64,
}

/// Why a handler should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The node shuts down.
    Shutdown,
    /// The node was told to give all its tasks back.
    Drain,
    /// Another node should have the task.
    Balance,
    /// An operator told this node to give this task back.
    StopTask,
    /// The claim is lost, or about to be: nothing that the handler does now is kept.
    LeaseLost,
    /// The task was deleted.
    Deleted,
}

/// The two timers of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The wake-up of a sleep that is too short to give the claim back for, or the end of the wait
    /// before the next run of a handler that runs again and again without any effect.
    Wake,
    /// The end of the grace that a handler has. Setting the clock does not move it.
    Grace,
}

/// What the machine is fed.
#[derive(Debug, Clone)]
pub enum Input {
    /// The task is claimed and the commands that waited for it have been fed.
    Begin,
    /// The handler returned (or panicked: then an Error message).
    Returned(Message),
    /// The handler was aborted and has ended.
    Aborted,
    /// The running handler asks to persist data and go on.
    Checkpoint {
        /// Comes back in [`Effect::CheckpointDone`].
        ticket: u64,
        /// The new data.
        data: Json,
    },
    /// How far the handler is; kept with the next write.
    Progress(Progress),
    /// A command for the task. One that was seen before has no effect.
    Command(QueuedCommand),
    /// A timer went off.
    Timer(Timer),
    /// The last write is durable.
    Stored,
    /// The last write was refused for what it says (too large, a task to submit that exists …).
    /// The claim still stands.
    Refused {
        /// Why.
        reason: String,
        /// Whether a retry of the attempt may succeed. False when the write is too large.
        retryable: bool,
    },
    /// The claim is lost.
    Fenced(StopReason),
    /// The node wants to give the task back, within the grace.
    Stop(StopReason),
    /// The node wants to give the task back without a grace.
    StopNow(StopReason),
}

/// What a running handler is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// A command was sent to the task.
    Command(Command),
    /// The handler should stop.
    Stop(StopReason),
}

/// One line of the task's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The message.
    pub message: ActionKind,
    /// The state it met.
    pub from: StateKind,
    /// The state that followed.
    pub to: StateKind,
    /// The order of the command it was, if it was one.
    pub command: Option<u64>,
}

/// What is to be written, atomically.
#[derive(Debug, Clone)]
pub struct Write {
    /// The new state.
    pub state: TaskState,
    /// How it came about, oldest first. Empty for a checkpoint of a running handler.
    pub steps: Vec<Step>,
    /// Commands that leave the queue with it, by their order.
    pub outcomes: Vec<(u64, Outcome)>,
    /// Whether the claim is given back with it.
    pub drop_claim: bool,
    /// What else is done with it, or none of it.
    pub effects: Effects,
}

impl Write {
    /// Gives a claim back in this state, and does nothing else.
    ///
    /// ```
    /// use windlass_statemachine::{TaskState, machine::Write};
    ///
    /// let write = Write::giving_back(TaskState::new(jiff::Timestamp::UNIX_EPOCH));
    /// assert!(write.drop_claim && write.steps.is_empty() && write.outcomes.is_empty());
    /// ```
    pub fn giving_back(state: TaskState) -> Self {
        Self {
            state,
            steps: Vec::new(),
            outcomes: Vec::new(),
            drop_claim: true,
            effects: Effects::default(),
        }
    }
}

/// How a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The claim was given back in the last write; this is the state it left.
    Dropped(StateKind),
    /// The claim is lost.
    Lost,
}

/// What the runner is to do.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Start the handler, for this attempt (1 for the first).
    Start {
        /// Its number.
        attempt: u32,
    },
    /// Tell the running handler.
    Signal(Signal),
    /// Abort the running handler, and feed [`Input::Aborted`] when it has ended.
    Abort,
    /// Write this, and feed [`Input::Stored`], [`Input::Refused`] or [`Input::Fenced`].
    Persist(Box<Write>),
    /// Answer the handler that asked for a checkpoint.
    CheckpointDone {
        /// Which.
        ticket: u64,
        /// The error says why it was refused.
        result: Result<(), String>,
    },
    /// Set [`Timer::Wake`] (again) to this time of day.
    ArmWake(Timestamp),
    /// Set [`Timer::Wake`] (again) to when [`Env::elapsed`] reaches this: the handler has run again
    /// and again without any effect.
    ArmResume {
        /// When the next run starts.
        at: Duration,
        /// How many quick runs in a row have changed nothing.
        runs: u32,
    },
    /// Set [`Timer::Grace`] (again) to when [`Env::elapsed`] reaches this.
    ArmGrace(Duration),
    /// The timer is of no use any more.
    Disarm(Timer),
    /// The machine is done: nothing more comes of it.
    Done(End),
}
