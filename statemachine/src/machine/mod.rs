//! [`Machine`]: one claimed task, sans I/O.
//!
//! The runner feeds it [`Input`]s and carries out the [`Effect`]s that it answers. The machine
//! itself does nothing: it can be tested to the last branch, and a simulation runs the very code
//! that production runs.
//!
//! # Stability
//!
//! Unstable: inputs, effects and settings may change in each minor version. They are public for executors
//! other than the runner of windlass (a simulation, a port to another language).
//!
//! # Flow
//!
//! 1. The runner claims a task, feeds the commands that wait for it, then [`Input::Begin`].
//! 2. The machine answers [`Effect::Start`]; the handler runs until it returns a message (or is
//!    aborted), which comes back as [`Input::Returned`].
//! 3. The message is applied, then every command that waits, in order; the result goes out as one
//!    [`Effect::Persist`]. Nothing else happens until [`Input::Stored`] says that it is durable.
//! 4. Depending on the new state the handler starts again, a timer is armed, or the claim is gone
//!    (it was dropped in that same write) and [`Effect::Done`] ends the machine.
//!
//! # Guarantees
//!
//! - At most one write is under way at a time, and it carries the only state that can follow.
//! - A handler starts only when the state that it starts from is durable.
//! - A command gets exactly one outcome, in the write in which it has its effect.
//! - After [`Input::Fenced`] nothing is written any more.

mod io;
mod pace;
mod settle;

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

pub use self::io::{Config, Effect, End, Env, Input, Signal, Step, StopReason, Timer, Write};
use self::{pace::Pace, settle::Cause};
use crate::{
    Command, Effects, Fence, Json, Message, Outcome, Progress, QueuedCommand, TaskState,
    TaskStatus,
    errors::{DEFAULT_KEPT, cut},
};

const CLAIM_GONE: &str = "the claim on this task is gone";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Before [`Input::Begin`].
    Fresh,
    /// Nothing runs and nothing is written: a short sleep, or a wait before the next run.
    Idle,
    /// The handler runs.
    Running,
    /// The handler was aborted and has not ended yet.
    Aborting,
    /// No handler runs; a write is under way. The handler may have returned meanwhile: what it
    /// returned then waits for the write.
    Storing,
    Done,
}

/// A write that is under way, with what is needed should it be refused.
#[derive(Debug, Clone)]
struct InFlight {
    state: TaskState,
    drop_claim: bool,
    /// The commands that it settles: they go back into the queue if it is refused.
    settles: Vec<Waiting>,
    ticket: Option<u64>,
    /// What to settle again if it is refused; `None` for a write beside a running handler.
    again: Option<Cause>,
}

#[derive(Debug, Clone)]
struct Waiting {
    command: QueuedCommand,
    /// When the handler's grace for it ends; `None` while the handler has not been told.
    deadline: Option<Duration>,
}

/// One claimed task. See the [module](self) for the flow.
#[derive(Debug, Clone)]
pub struct Machine {
    config: Config,
    /// What is durable.
    state: TaskState,
    phase: Phase,
    queue: VecDeque<Waiting>,
    in_flight: Option<InFlight>,
    /// A checkpoint that waits for the write under way.
    next_checkpoint: Option<(u64, Json)>,
    /// The handler's return that waits for the write under way.
    returned: Option<Cause>,
    stop: Option<(StopReason, Duration)>,
    progress: Option<Progress>,
    abandoned: bool,
    refusals: u32,
    last_order: u64,
    pace: Pace,
}

impl Machine {
    /// A machine for a task that was just claimed. `state` is the durable one, with the claim's
    /// fence in it; `abandoned` says that the claim before it was lost, not given back.
    pub fn new(config: Config, state: TaskState, abandoned: bool) -> Self {
        let last_order = state.last_command.as_ref().map_or(0, |c| c.order);
        Self {
            config,
            state,
            phase: Phase::Fresh,
            queue: VecDeque::new(),
            in_flight: None,
            next_checkpoint: None,
            returned: None,
            stop: None,
            progress: None,
            abandoned,
            refusals: 0,
            last_order,
            pace: Pace::default(),
        }
    }

    /// The durable state.
    pub fn state(&self) -> &TaskState {
        &self.state
    }

    /// The claim's fence.
    pub fn fence(&self) -> Fence {
        self.state.fence
    }

    /// Whether a handler runs (or was aborted and has not ended).
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Aborting)
    }

    /// Whether the machine has ended.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether the handler does not run, nothing is written, and a timer is waited for.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether a write is under way that gives the claim back.
    pub fn is_ending(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|w| w.drop_claim)
    }

    /// Whether a write is under way.
    pub fn is_storing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Feeds an input; what is to be done is added to `out`. An input that makes no sense in the
    /// phase (a timer that was disarmed too late, say) has no effect.
    pub fn input(&mut self, input: Input, env: Env, out: &mut Vec<Effect>) {
        if self.phase == Phase::Done {
            if let Input::Checkpoint { ticket, .. } = input {
                let result = Err(CLAIM_GONE.to_owned());
                out.push(Effect::CheckpointDone { ticket, result });
            }
            return;
        }
        match input {
            Input::Begin if self.phase == Phase::Fresh => self.begin(env, out),
            Input::Returned(message) if self.is_running() => {
                self.finish_run(Cause::Returned(message), env, out);
            }
            Input::Aborted if self.is_running() => self.finish_run(Cause::Nothing, env, out),
            Input::Checkpoint { ticket, data } => self.checkpoint(ticket, data, env, out),
            Input::Progress(mut progress) => {
                // It must not be what makes a write too large.
                cut(&mut progress.text);
                self.progress = Some(progress);
            }
            Input::Command(command) => self.command(command, env, out),
            Input::Timer(timer) => self.timer(timer, env, out),
            Input::Stored => self.stored(env, out),
            Input::Refused { reason, retryable } => self.refused(reason, retryable, env, out),
            Input::Fenced(reason) => self.lose(reason, out),
            Input::Stop(reason) => self.stop(reason, env, out),
            Input::StopNow(reason) => {
                self.stop = Some((reason, env.elapsed));
                if self.phase == Phase::Running {
                    out.push(Effect::Signal(Signal::Stop(reason)));
                    self.abort(out);
                } else {
                    self.stop(reason, env, out);
                }
            }
            Input::Begin | Input::Returned(_) | Input::Aborted => {}
        }
    }

    fn begin(&mut self, env: Env, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        if self.gives_up_after_abandonment(env) {
            self.settle(Cause::GivesUp, env, out);
        } else {
            self.go_on(env, out);
        }
    }

    /// What follows a durable state in which no handler runs.
    fn go_on(&mut self, env: Env, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        if !self.queue.is_empty() || self.stop.is_some() {
            return self.settle(Cause::Nothing, env, out);
        }
        match self.state.status {
            TaskStatus::Runnable if let Some(at) = self.pace.resume(env.elapsed) => {
                let runs = self.pace.runs();
                out.push(Effect::ArmResume { at, runs });
            }
            TaskStatus::Runnable => {
                self.pace.starts(env.elapsed);
                self.phase = Phase::Running;
                out.push(Effect::Start {
                    attempt: self.state.attempts.saturating_add(1),
                });
            }
            TaskStatus::Sleeping { until } if until > env.now && !self.parks(until, env.now) => {
                out.push(Effect::ArmWake(until));
            }
            // Due: it wakes. Otherwise it is given back; so is a finished task that a store hands
            // out, though nobody should claim one.
            _ => self.settle(Cause::Nothing, env, out),
        }
    }

    fn parks(&self, until: Timestamp, now: Timestamp) -> bool {
        let longest =
            SignedDuration::try_from(self.config.park_after).unwrap_or(SignedDuration::MAX);
        until.duration_since(now) > longest
    }

    fn finish_run(&mut self, cause: Cause, env: Env, out: &mut Vec<Effect>) {
        self.disarm_grace(out);
        self.drop_checkpoint("the handler has returned", out);
        if self.in_flight.is_some() {
            // The handler dropped a checkpoint and returned: one write at a time. It is over for
            // the handler all the same: no command is told to it, and nothing aborts it.
            self.phase = Phase::Storing;
            self.returned = Some(cause);
            return;
        }
        self.settle(cause, env, out);
    }

    fn disarm_grace(&mut self, out: &mut Vec<Effect>) {
        if self.stop.is_some() || self.queue.iter().any(|w| w.deadline.is_some()) {
            out.push(Effect::Disarm(Timer::Grace));
        }
    }

    fn checkpoint(&mut self, ticket: u64, data: Json, env: Env, out: &mut Vec<Effect>) {
        let refuse = |why: &str| Effect::CheckpointDone {
            ticket,
            result: Err(why.to_owned()),
        };
        if self.phase != Phase::Running {
            return out.push(refuse(
                "the handler is being stopped; return a message instead",
            ));
        }
        if data.len() > self.config.max_data_bytes {
            let why = settle::too_large("data", data.len(), self.config.max_data_bytes);
            return out.push(refuse(&why));
        }
        if let Err(e) = data.check_depth("data") {
            return out.push(refuse(&e.to_string()));
        }
        if self.in_flight.is_some() {
            if let Some((older, _)) = self.next_checkpoint.replace((ticket, data)) {
                // The handler stopped waiting for it: the newer data stands for both.
                let result = Err("a newer checkpoint took its place".to_owned());
                out.push(Effect::CheckpointDone {
                    ticket: older,
                    result,
                });
            }
            return;
        }
        self.write_running(Some((ticket, data)), env, out);
    }

    /// A write while the handler runs: its checkpoint, and commands that do not stop it.
    fn write_running(&mut self, checkpoint: Option<(u64, Json)>, env: Env, out: &mut Vec<Effect>) {
        let mut state = self.state.clone();
        let mut settles = Vec::new();
        let (mut steps, mut outcomes) = (Vec::new(), Vec::new());
        // A checkpoint that the handler makes by itself answers the command that asks for one.
        while outcomes.len() < self.config.max_outcomes.max(1)
            && let Some(front) = self.queue.front()
            && match front.command.command {
                Command::Checkpoint => {
                    checkpoint.is_some() || front.deadline.is_some_and(|d| d <= env.elapsed)
                }
                Command::Run => front.deadline.is_some_and(|d| d <= env.elapsed),
                _ => false,
            }
            && let Some(front) = self.queue.pop_front()
        {
            let code = state.code();
            let order = front.command.order;
            let outcome = Outcome::Applied {
                from: code,
                to: code,
            };
            steps.push(Step {
                message: front.command.command.kind(),
                from: code,
                to: code,
                command: Some(order),
            });
            settle::record(&mut state, &mut outcomes, order, outcome);
            settles.push(front);
        }
        let mut ticket = None;
        if let Some((asked, data)) = checkpoint {
            if state.data.as_ref() != Some(&data) {
                self.pace.changes();
            }
            state.set_data(data, self.config.data_version);
            ticket = Some(asked);
        }
        self.persist(
            state,
            steps,
            outcomes,
            settles,
            false,
            Effects::default(),
            ticket,
            None,
            out,
        );
        self.arm_grace(out);
    }

    fn command(&mut self, command: QueuedCommand, env: Env, out: &mut Vec<Effect>) {
        if command.order <= self.last_order {
            return;
        }
        self.last_order = command.order;
        self.pace.reset();
        let told = self.phase == Phase::Running;
        let deadline = told.then(|| self.grace_from(env.elapsed));
        if told {
            out.push(Effect::Signal(Signal::Command(command.command.clone())));
        }
        self.queue.push_back(Waiting { command, deadline });
        match self.phase {
            Phase::Running if self.queue.len() == 1 => self.arm_grace(out),
            Phase::Idle => {
                out.push(Effect::Disarm(Timer::Wake));
                self.settle(Cause::Nothing, env, out);
            }
            _ => {}
        }
    }

    fn grace_from(&self, elapsed: Duration) -> Duration {
        elapsed.saturating_add(self.config.stop_grace)
    }

    /// Arms the grace timer for whatever ends first.
    fn arm_grace(&self, out: &mut Vec<Effect>) {
        let command = self.queue.front().and_then(|w| w.deadline);
        let stop = self.stop.map(|(_, deadline)| deadline);
        if let Some(at) = command.into_iter().chain(stop).min() {
            out.push(Effect::ArmGrace(at));
        }
    }

    fn timer(&mut self, timer: Timer, env: Env, out: &mut Vec<Effect>) {
        match timer {
            Timer::Wake if self.phase == Phase::Idle => self.go_on(env, out),
            Timer::Grace if self.phase == Phase::Running => {
                let over = |deadline: Option<Duration>| deadline.is_some_and(|d| d <= env.elapsed);
                if over(self.stop.map(|(_, d)| d)) {
                    return self.abort(out);
                }
                match self.queue.front() {
                    Some(front) if over(front.deadline) => {
                        if front.command.command.aborts() {
                            self.abort(out);
                        } else if self.in_flight.is_none() {
                            self.write_running(None, env, out);
                        }
                        // Otherwise the write under way arms the timer again when it is stored.
                    }
                    _ => self.arm_grace(out),
                }
            }
            _ => {}
        }
    }

    fn abort(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::Aborting;
        out.push(Effect::Abort);
    }

    fn stop(&mut self, reason: StopReason, env: Env, out: &mut Vec<Effect>) {
        if self.stop.is_none() {
            self.stop = Some((reason, self.grace_from(env.elapsed)));
        }
        match self.phase {
            Phase::Running => {
                out.push(Effect::Signal(Signal::Stop(reason)));
                self.arm_grace(out);
            }
            Phase::Idle => {
                out.push(Effect::Disarm(Timer::Wake));
                self.settle(Cause::Nothing, env, out);
            }
            _ => {}
        }
    }

    fn stored(&mut self, env: Env, out: &mut Vec<Effect>) {
        let Some(done) = self.in_flight.take() else {
            return;
        };
        self.refusals = 0;
        self.state = done.state;
        if let Some(ticket) = done.ticket {
            out.push(Effect::CheckpointDone {
                ticket,
                result: Ok(()),
            });
        }
        if done.drop_claim {
            self.phase = Phase::Done;
            return out.push(Effect::Done(End::Dropped(self.state.code())));
        }
        self.after_write(env, out);
    }

    fn after_write(&mut self, env: Env, out: &mut Vec<Effect>) {
        if let Some(cause) = self.returned.take() {
            self.settle(cause, env, out);
        } else if self.phase == Phase::Running {
            if let Some(checkpoint) = self.next_checkpoint.take() {
                self.write_running(Some(checkpoint), env, out);
            } else {
                self.arm_grace(out);
            }
        } else if self.phase == Phase::Storing {
            self.go_on(env, out);
        }
    }

    /// Answers the checkpoint that waits for a write, when there will be none for it.
    fn drop_checkpoint(&mut self, why: &str, out: &mut Vec<Effect>) {
        if let Some((ticket, _)) = self.next_checkpoint.take() {
            let result = Err(why.to_owned());
            out.push(Effect::CheckpointDone { ticket, result });
        }
    }

    fn refused(&mut self, reason: String, retryable: bool, env: Env, out: &mut Vec<Effect>) {
        let Some(refused) = self.in_flight.take() else {
            return;
        };
        for waiting in refused.settles.into_iter().rev() {
            self.queue.push_front(waiting);
        }
        if let Some(ticket) = refused.ticket {
            out.push(Effect::CheckpointDone {
                ticket,
                result: Err(reason),
            });
            // The handler knows; whether it tries again is its own affair.
            return self.after_write(env, out);
        }
        self.refusals += 1;
        if self.refusals > 2 {
            return self.give_back_as_is(out);
        }
        match refused.again {
            None => self.after_write(env, out),
            Some(Cause::Returned(message)) => {
                let text = format!("what the handler returned could not be stored: {reason}");
                let error = if retryable && message.is_retryable() {
                    Message::error(text)
                } else {
                    Message::fail(text)
                };
                self.settle(Cause::Returned(error), env, out);
            }
            Some(cause) => self.settle(cause, env, out),
        }
    }

    /// Not even an error without data can be stored: the task is given back as it is durable, so
    /// that the claim does not outlive its machine.
    fn give_back_as_is(&mut self, out: &mut Vec<Effect>) {
        if self.refusals > 3 || self.phase == Phase::Running {
            return self.lose(StopReason::LeaseLost, out);
        }
        let (state, effects) = (self.state.clone(), Effects::default());
        self.persist(
            state,
            vec![],
            vec![],
            vec![],
            true,
            effects,
            None,
            Some(Cause::Nothing),
            out,
        );
    }

    /// The end without a write: whatever runs is ended, whoever waits is answered.
    fn lose(&mut self, reason: StopReason, out: &mut Vec<Effect>) {
        if self.phase == Phase::Running {
            out.push(Effect::Signal(Signal::Stop(reason)));
            out.push(Effect::Abort);
        }
        if self.phase == Phase::Idle {
            out.push(Effect::Disarm(Timer::Wake));
        }
        if let Some(ticket) = self.in_flight.take().and_then(|w| w.ticket) {
            let result = Err(CLAIM_GONE.to_owned());
            out.push(Effect::CheckpointDone { ticket, result });
        }
        self.drop_checkpoint(CLAIM_GONE, out);
        self.disarm_grace(out);
        self.phase = Phase::Done;
        out.push(Effect::Done(End::Lost));
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one write; both callers name each of them"
    )]
    fn persist(
        &mut self,
        mut state: TaskState,
        steps: Vec<Step>,
        outcomes: Vec<(u64, Outcome)>,
        settles: Vec<Waiting>,
        drop_claim: bool,
        effects: Effects,
        ticket: Option<u64>,
        again: Option<Cause>,
        out: &mut Vec<Effect>,
    ) {
        state.version = state.version.saturating_add(1);
        if state.code().is_terminal() {
            state.progress = None;
        } else if self.progress.is_some() {
            state.progress = self.progress.take();
        }
        let policy = &*self.config.retry;
        let keeps = catch_unwind(AssertUnwindSafe(|| policy.keeps()));
        state.errors.trim(keeps.unwrap_or(DEFAULT_KEPT));
        self.in_flight = Some(InFlight {
            state: state.clone(),
            drop_claim,
            settles,
            ticket,
            again,
        });
        out.push(Effect::Persist(Box::new(Write {
            state,
            steps,
            outcomes,
            drop_claim,
            effects,
        })));
    }
}
