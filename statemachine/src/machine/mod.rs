//! [`Machine`]: one claimed task, without I/O.
//!
//! The runner feeds it [`Input`]s and carries out the [`Effect`]s that it returns. The machine does no
//! I/O, so tests reach every branch, and a simulation runs the code of production.
//!
//! # Stability
//!
//! Unstable: inputs, effects and settings may change in each minor version. They are public for executors
//! other than the runner of windlass (a simulation, a port to another language).
//!
//! # Flow
//!
//! 1. The runner claims a task, feeds the commands that wait for it, then [`Input::Begin`].
//! 2. The machine returns [`Effect::Start`]; the handler runs until it returns a message (or is
//!    aborted), which comes back as [`Input::Returned`].
//! 3. The machine applies the message, then every command that waits, in order, and returns the result
//!    as one [`Effect::Persist`]. Nothing else happens until [`Input::Stored`] reports that it is
//!    durable.
//! 4. Depending on the new state the handler starts again, a timer is armed, or the claim is gone
//!    (it was released in that same write) and [`Effect::Done`] ends the machine.
//!
//! # Guarantees
//!
//! - At most one write is under way at a time, and it contains the only state that can follow.
//! - A handler starts only when the state that it starts from is durable.
//! - A command gets exactly one outcome, in the write in which it takes effect.
//! - After [`Input::Fenced`] nothing is written any more.

mod deadline;
mod draft;
mod io;
mod limits;
mod pace;
mod phase;
mod policy;
mod returned;
mod running;
mod settle;
mod signals;
mod written;

use std::{collections::VecDeque, time::Duration};

use jiff::{SignedDuration, Timestamp};

pub use self::io::{
    Answer, Config, Effect, End, Env, Input, Signal, Step, StopReason, Timer, Write,
};
use self::{
    pace::Pace,
    phase::{Ask, Cause, Phase, SideWrites, Waiting},
    signals::Signals,
};
use crate::{
    Fence, NodeName, Progress, TaskState, TaskStatus,
    errors::cut,
    state::Report,
    waits::{Waited, not_run},
};

const CLAIM_GONE: &str = "the claim on this task is gone";

/// One claimed task. See the [module](self) for the flow.
#[derive(Debug, Clone)]
pub struct Machine {
    config: Config,
    /// The node of the handler, which errors name.
    node: Option<NodeName>,
    /// The durable state.
    state: TaskState,
    phase: Phase,
    queue: VecDeque<Waiting>,
    signals: Signals,
    /// The order of the last command that the handler of this run has received.
    took: u64,
    /// When the grace of a stop ends, as [`Env::elapsed`].
    stop: Option<Duration>,
    /// When the grace of a handler ends whose task has missed its deadline, as [`Env::elapsed`].
    late: Option<Duration>,
    /// Whether a handler was started for this claim.
    has_run: bool,
    /// Whether an attempt under this claim has failed or gone to sleep, so that the next one has a claim of its own.
    attempted: bool,
    /// The progress that the last run under this claim reported, if there was a run. Each run begins
    /// without progress.
    progress: Option<Option<Progress>>,
    abandoned: bool,
    /// The version at which the run began that goes on.
    run: Option<u64>,
    /// The number of the report that the next input is.
    numbered: Option<u64>,
    /// The report to store with the end of the run.
    report: Option<Report>,
    /// Refused writes since the last one that was stored.
    refusals: u32,
    /// The order of the last command that was fed.
    last_order: u64,
    pace: Pace,
}

impl Machine {
    /// Returns the machine of a task that was just claimed. `state` is the durable state, with the
    /// claim's fence in it. `abandoned`: the previous claim was lost, not released.
    pub fn new(config: Config, state: TaskState, abandoned: bool) -> Self {
        Self {
            config,
            node: None,
            state,
            phase: Phase::Fresh,
            queue: VecDeque::new(),
            signals: Signals::default(),
            took: 0,
            stop: None,
            late: None,
            has_run: false,
            attempted: false,
            progress: None,
            abandoned,
            run: None,
            numbered: None,
            report: None,
            refusals: 0,
            last_order: 0,
            pace: Pace::default(),
        }
    }

    /// Returns the machine of a claimed task whose handler is running already, under the same claim: the machine before
    /// it was lost with its process. `state` is the durable state, with the claim's fence in it. `took` is the order of
    /// the last command that the handler is known to have received. The machine never starts a handler for this run.
    /// Feed the commands that wait for the task, then [`Input::Begin`], which arms the timer of a deadline.
    ///
    /// # Example
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_statemachine::{Message, Retry, TaskState, machine::*};
    /// # let config = Config {
    /// #     stop_grace: std::time::Duration::from_secs(30), park_after: std::time::Duration::ZERO,
    /// #     retry: Arc::new(Retry::default()), max_data_bytes: 1 << 20, data_version: 1, max_outcomes: 100,
    /// #     takes_signals: true, idle_runs: 10, named_runs: true,
    /// #     claim_per_attempt: false,
    /// # };
    /// let env = Env { now: jiff::Timestamp::UNIX_EPOCH, elapsed: Default::default(), jitter: 0.0 };
    /// let mut machine = Machine::adopt(config, TaskState::new(env.now), 0);
    /// assert!(machine.is_running());
    /// let mut effects = Vec::new();
    /// machine.input(Input::Numbered(1), env, &mut effects);
    /// machine.input(Input::Returned(Message::complete()), env, &mut effects);
    /// assert!(matches!(&effects[..], [Effect::Persist(write)] if write.state.reported() == 1));
    /// ```
    pub fn adopt(config: Config, state: TaskState, took: u64) -> Self {
        let mut machine = Self::new(config, state, false);
        machine.phase = Phase::Running(SideWrites::default());
        machine.took = took;
        machine.has_run = true;
        machine.run = Some(machine.state.current_run());
        machine.progress = Some(machine.state.progress.clone());
        machine
    }

    /// Returns the name of the run that goes on: the version at which it began; `None` while no handler runs.
    pub fn run(&self) -> Option<u64> {
        self.run
    }

    /// Names this node in the errors of handlers.
    #[must_use]
    pub fn on_node(mut self, node: NodeName) -> Self {
        self.node = Some(node);
        self
    }

    /// Returns the durable state.
    pub fn state(&self) -> &TaskState {
        &self.state
    }

    /// Returns the claim's fence.
    pub fn fence(&self) -> Fence {
        self.state.fence
    }

    /// Returns whether a handler runs, or was aborted and has not ended.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_) | Phase::Aborting(_))
    }

    /// Returns whether the machine has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Returns whether the machine waits for a timer: no handler runs, and nothing is written.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Returns whether a write is under way that releases the claim.
    pub fn is_ending(&self) -> bool {
        matches!(&self.phase, Phase::Storing(write) if write.drop_claim)
    }

    /// Returns whether signals wait for a handler.
    pub fn holds_signals(&self) -> bool {
        !self.signals.is_empty()
    }

    /// Returns whether the claim ends for the next attempt, which has a claim of its own
    /// ([`Config::claim_per_attempt`]).
    pub fn ends_for_next_attempt(&self) -> bool {
        self.attempted
    }

    /// Returns whether a write is under way.
    pub fn is_storing(&self) -> bool {
        self.phase.is_storing()
    }

    /// Feeds an input, and appends the effects that the runner has to carry out to `out`. An input
    /// that makes no sense in the phase (a timer that was disarmed too late, say) has no effect.
    pub fn input(&mut self, input: Input, env: Env, out: &mut Vec<Effect>) {
        if self.is_done() {
            if let Input::Checkpoint { ticket, .. } | Input::Answer { ticket, .. } = input {
                out.push(running::refused(ticket, CLAIM_GONE));
            }
            return;
        }
        match input {
            Input::Begin => self.begin(env, out),
            Input::Returned(message) => self.finish_run(Cause::Returned(message), env, out),
            Input::Aborted => {
                // An abort without a request means that the node had no room for the handler: it was not
                // started. A remote worker aborts only what has started, and its grace may end before the one
                // that this machine counts.
                if self.handler_runs() && !self.config.named_runs {
                    (self.has_run, self.progress) = (false, None);
                }
                self.finish_run(Cause::Nothing, env, out);
            }
            Input::Checkpoint { ticket, data } => {
                let asked = self.asked(ticket, Ask::Checkpoint(data));
                self.ask(asked, env, out);
            }
            Input::Answer { ticket, answer } => {
                let asked = self.asked(ticket, Ask::Answer(answer));
                self.ask(asked, env, out);
            }
            Input::Numbered(n) => self.numbered = Some(n),
            Input::Took(order) => self.took = self.took.max(order),
            Input::Progress(mut progress) => {
                // Cut, so that a long text does not make a write too large.
                cut(&mut progress.text);
                self.progress = Some(Some(progress));
            }
            Input::KeepProgress => self.keep_progress(env, out),
            Input::Command(command) => self.command(command, env, out),
            Input::Timer(Timer::Wake) if self.is_idle() => self.go_on(env, out),
            Input::Timer(Timer::Wake) => self.deadline_comes(env, out),
            Input::Timer(Timer::Grace) => self.grace_ends(env, out),
            Input::Stored => self.stored(env, out),
            Input::Refused { reason, retryable } => self.refused(reason, retryable, env, out),
            Input::Fenced(reason) => self.lose(reason, out),
            Input::Stop(reason) => self.stop(reason, env, out),
            Input::StopNow(reason) => self.stop_now(reason, env, out),
        }
    }

    fn begin(&mut self, env: Env, out: &mut Vec<Effect>) {
        match self.phase {
            Phase::Fresh => {}
            // Adopted.
            Phase::Running(_) => return self.arm_deadline(out),
            _ => return,
        }
        if self.gives_up_after_abandonment(env) {
            self.settle(Cause::GivesUp, env, out);
        } else {
            self.go_on(env, out);
        }
    }

    /// Decides what follows a durable state in which no handler runs.
    fn go_on(&mut self, env: Env, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        let is_late = self.missed(env).is_some();
        if is_late || self.has_turn() || self.stop.is_some() || self.signals.has_decided() {
            return self.settle(Cause::Nothing, env, out);
        }
        if let Some(waited) = self.unmet() {
            return self.settle(Cause::Unmet(not_run(&waited)), env, out);
        }
        if self.state.status == TaskStatus::Runnable
            && let Some(at) = self.pace.resume(env.elapsed)
        {
            let runs = self.pace.runs();
            return out.push(Effect::ArmResume { at, runs });
        }
        match self.state.status {
            TaskStatus::Runnable => {
                self.pace.starts(env.elapsed);
                self.phase = Phase::Running(SideWrites::default());
                self.has_run = true;
                self.progress = Some(None);
                // A run that is named already was sent by a process that is lost, and did not start: the same run is
                // sent again, so that its name in the state stays right.
                let run = self.state.current_run();
                self.run = Some(run);
                self.arm_deadline(out);
                let attempt = self.state.attempts.saturating_add(1);
                out.push(Effect::Start { attempt, run });
                self.deliver_waiting(env, out);
            }
            _ if self.signals.first_new().is_some() => self.settle(Cause::Nothing, env, out),
            // A task with a kept signal keeps its claim: it would be claimed again at once.
            TaskStatus::Sleeping { until } if until > env.now && self.keeps(until, env.now) => {
                let deadline = self.state.deadline();
                out.push(Effect::ArmWake(
                    deadline.map_or(until, |deadline| deadline.min(until)),
                ));
            }
            TaskStatus::Paused if !self.signals.is_empty() => self.arm_deadline(out),
            // Ends a sleep whose time has come. Releases everything else, including a finished task
            // that a store handed out by mistake.
            _ => self.settle(Cause::Nothing, env, out),
        }
    }

    /// Returns the first task that had to complete before the handler runs and did not.
    fn unmet(&self) -> Option<Waited> {
        let waits = self.state.waits.as_deref()?;
        waits
            .unmet()
            .filter(|_| self.state.status == TaskStatus::Runnable)
    }

    /// Returns whether the claim is kept during a sleep until `until`.
    fn keeps(&self, until: Timestamp, now: Timestamp) -> bool {
        !self.state.is_waiting() && !self.parks(until, now)
    }

    /// Returns whether the first command of the queue can be applied: no signal before it waits for
    /// a handler. A kill does not wait for signals.
    fn has_turn(&self) -> bool {
        let Some(front) = self.queue.front() else {
            return false;
        };
        let signal = self.signals.first_new();
        signal.is_none_or(|signal| front.command.order < signal) || self.has_kill()
    }

    fn parks(&self, until: Timestamp, now: Timestamp) -> bool {
        if !self.signals.is_empty() {
            return false;
        }
        if self.config.claim_per_attempt {
            return true;
        }
        let longest =
            SignedDuration::try_from(self.config.park_after).unwrap_or(SignedDuration::MAX);
        until.duration_since(now) > longest
    }
}
