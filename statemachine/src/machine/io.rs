//! The inputs of a machine, and the effects that it returns.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    ActionKind, Command, Effects, Json, Message, Outcome, Progress, QueuedCommand, RetryPolicy,
    StateKind, TaskState,
};

/// The settings of one machine: those of its node, its kind and its task.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long a handler may take to return after a command or a stop. After that it is aborted.
    pub stop_grace: Duration,
    /// A task that sleeps for longer than this releases its claim.
    pub park_after: Duration,
    /// Decides what follows a failed attempt.
    pub retry: Arc<dyn RetryPolicy>,
    /// The most bytes of data and result together: the limit of the store minus the size of the
    /// props.
    pub max_data_bytes: usize,
    /// The version of the data that the handler writes: 1 for a kind that declares none.
    pub data_version: u32,
    /// The most commands whose outcome one write stores (at least 1). Later writes store the outcomes of
    /// further commands.
    pub max_outcomes: usize,
    /// Whether the handler takes signals. Otherwise each signal is rejected.
    pub takes_signals: bool,
    /// How many runs in a row may be shorter than 100 ms and change nothing (no new data, no effect).
    /// After that the machine waits between two runs: 10 ms, doubling up to 1 s.
    pub idle_runs: u32,
    /// Whether states name the run during which they were written ([`TaskState::run`]): for handlers of remote
    /// workers, whose machine another server may continue.
    pub named_runs: bool,
    /// Whether each attempt has a claim of its own: the claim ends with a failed attempt, and with each sleep and pause, however
    /// short. For tasks with a [limit on starts](crate::Limit::starts), which counts claims.
    pub claim_per_attempt: bool,
}

/// Time and chance, passed with every input: the machine reads no clock and draws no random number.
#[derive(Debug, Clone, Copy)]
pub struct Env {
    /// The time of day, for wake-ups and timestamps. It may be set forward and back.
    pub now: Timestamp,
    /// The time since a moment of the caller's choice, the same for every input of a machine. It never
    /// goes back. It measures every wait except a wake-up.
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
    /// The node releases all its tasks, by an operator's command.
    Drain,
    /// Another node should run the task.
    Balance,
    /// An operator's command asks this node to release this task.
    StopTask,
    /// The claim is lost, or about to be. Nothing that the handler does from now on is stored.
    LeaseLost,
    /// The task was deleted.
    Deleted,
    /// The task has reached the time by which it must end ([`Task::end_by`](crate::Task::end_by)). It fails,
    /// whatever the handler returns.
    Deadline,
}

/// The two timers of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Fires at the wake-up of a sleep that is too short to release the claim, at the deadline of a task
    /// whose claim is kept, or before the next run of a handler that runs again and again without any
    /// effect.
    Wake,
    /// Fires at the end of the handler's grace. Setting the clock does not move it.
    Grace,
}

/// An input of the machine.
#[derive(Debug, Clone)]
pub enum Input {
    /// The task is claimed, and the commands in its queue have been fed.
    Begin,
    /// The handler returned. A panic is fed as an Error message.
    Returned(Message),
    /// The handler was aborted and has ended.
    Aborted,
    /// The running handler asks to persist data and continues.
    Checkpoint {
        /// Returned in [`Effect::CheckpointDone`].
        ticket: u64,
        /// The new data.
        data: Json,
    },
    /// The running handler replies to a signal, with new data if it has any, and continues.
    Answer {
        /// Returned in [`Effect::CheckpointDone`].
        ticket: u64,
        /// The reply.
        answer: Answer,
    },
    /// The next return, checkpoint or reply is a remote worker's report with this number. It is stored with what it
    /// reports ([`TaskState::report`]); a checkpoint or reply that is refused stores no number.
    Numbered(u64),
    /// The running handler has received every command up to this order. Feed it before the handler's
    /// return, so that a signal which the handler has not seen stays in the queue.
    Took(u64),
    /// The handler's progress. It is stored with the next write.
    Progress(Progress),
    /// Asks to store the progress of the running handler, if it is not stored yet. Has no effect while a write is
    /// under way.
    KeepProgress,
    /// A command for the task. A command that was fed before has no effect.
    Command(QueuedCommand),
    /// A timer fired.
    Timer(Timer),
    /// The last write is durable.
    Stored,
    /// The store refused the last write for its content (too large, a task to submit that exists …).
    /// The claim still stands.
    Refused {
        /// Why.
        reason: String,
        /// Whether a retry of the attempt may succeed. False when the write is too large.
        retryable: bool,
    },
    /// The claim is lost.
    Fenced(StopReason),
    /// The node releases the task, within the grace.
    Stop(StopReason),
    /// The node releases the task, without a grace.
    StopNow(StopReason),
}

/// A reply to a signal.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The order of the signal.
    pub signal: u64,
    /// The reply.
    pub reply: Json,
    /// New data, if there is any.
    pub data: Option<Json>,
}

/// A signal to a running handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// A command was sent to the task.
    Command {
        /// Its place in the queue.
        order: u64,
        /// The command; a signal has its place, too ([`Signal::order`](crate::Signal::order)).
        command: Command,
    },
    /// The handler should stop.
    Stop(StopReason),
}

/// One line of the task's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The message.
    pub message: ActionKind,
    /// The state before.
    pub from: StateKind,
    /// The state after.
    pub to: StateKind,
    /// The order of the command that caused it; `None` for the handler's return or a policy's decision.
    pub command: Option<u64>,
}

/// One atomic write.
#[derive(Debug, Clone)]
pub struct Write {
    /// The version of the durable state that the write follows. A store applies the write to a state of this
    /// version and to no other.
    pub follows: u64,
    /// The new state.
    pub state: TaskState,
    /// The transitions that led to the state, oldest first. Empty for a checkpoint of a running handler.
    pub steps: Vec<Step>,
    /// The outcomes of commands, by their order. These commands leave the queue.
    pub outcomes: Vec<(u64, Outcome)>,
    /// Whether the write releases the claim.
    pub drop_claim: bool,
    /// Tasks and commands in the same write.
    pub effects: Effects,
}

impl Write {
    /// Returns a write that releases a claim and leaves the durable state as it is.
    ///
    /// ```
    /// use windlass_statemachine::{TaskState, machine::Write};
    ///
    /// let write = Write::releasing(TaskState::new(jiff::Timestamp::UNIX_EPOCH));
    /// assert!(write.drop_claim && write.steps.is_empty() && write.outcomes.is_empty());
    /// assert_eq!((write.follows, write.state.version), (0, 1));
    /// ```
    pub fn releasing(mut durable: TaskState) -> Self {
        let follows = durable.version;
        durable.version = follows.saturating_add(1);
        Self {
            follows,
            state: durable,
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
    /// The last write released the claim, in this state.
    Dropped(StateKind),
    /// The claim is lost.
    Lost,
}

/// What the runner has to do.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Start the handler, for this attempt (1 for the first). Deliver each [`Effect::Signal`] of the same input
    /// before the handler runs: the machine assumes that the handler has them from the start.
    Start {
        /// Its number.
        attempt: u32,
        /// The name of the run: the version of the state from which it starts. A run that did not start before its
        /// process was lost keeps its name.
        run: u64,
    },
    /// Deliver this signal to the running handler.
    Signal(Signal),
    /// Abort the running handler, and feed [`Input::Aborted`] when it has ended.
    Abort,
    /// Write this, and feed [`Input::Stored`], [`Input::Refused`] or [`Input::Fenced`].
    Persist(Box<Write>),
    /// Report the result to the handler that asked for this checkpoint, or for this reply to a
    /// signal.
    CheckpointDone {
        /// The ticket of [`Input::Checkpoint`] or [`Input::Answer`].
        ticket: u64,
        /// Whether the checkpoint or the reply is durable; the error holds the reason when it was refused.
        result: Result<(), String>,
    },
    /// Set [`Timer::Wake`] (again) to this time of day.
    ArmWake(Timestamp),
    /// Set [`Timer::Wake`] (again) for the moment when [`Env::elapsed`] reaches `at`: the handler
    /// has run again and again without any effect.
    ArmResume {
        /// When the next run starts.
        at: Duration,
        /// How many quick runs in a row have changed nothing.
        runs: u32,
    },
    /// Set [`Timer::Grace`] (again) for the moment when [`Env::elapsed`] reaches this.
    ArmGrace(Duration),
    /// Drop this timer.
    Disarm(Timer),
    /// The machine has ended. It returns no further effects.
    Done(End),
}
