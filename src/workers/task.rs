//! [`RemoteTask`]: a claimed task of a remote worker, with its state machine.

mod news;
mod start;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use windlass_statemachine::{
    Command, Machine, StopReason, Task, TaskState, TaskStatus,
    machine::{Config, Effect, End, Env, Input, Signal, Timer, Write},
};

use self::news::StopDelivery;
use super::protocol::{Held, Offer, RunPhase};
use crate::{
    runner::{IDLE_RUNS, has_limit_on_starts},
    store::{Claim, Claimed, Limits},
    telemetry::FirstStart,
};

/// How much longer than the worker's grace a server waits before it writes the outcome of a stop that the worker knows.
const BEYOND_GRACE: Duration = Duration::from_secs(5);

/// How often a run is sent in vain before its claim ends. A worker does not start a run twice, so it never takes one that it
/// has started and forgotten.
const IN_VAIN: u32 = 3;

/// How often the progress of a run is stored by itself.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// A claimed task of a remote worker.
pub(super) struct RemoteTask {
    pub(super) claim: Claim,
    pub(super) task: Arc<Task>,
    pub(super) order: u64,
    over_limit: bool,
    pub(super) machine: Machine,
    grace: Duration,
    /// The run that the worker is to start, until it says that it has it.
    start: Option<Starting>,
    /// A run that another server may have sent, until every request that may have been answered so is settled.
    maybe_sent: Option<MaybeSent>,
    /// The commands of the run, in order.
    signals: Vec<(u64, Command)>,
    /// Why the run is to end, apart from commands.
    stop: Option<StopReason>,
    /// A run that is over, and that the worker may still be running.
    over: Option<u64>,
    /// Whether the claim was lost.
    is_lost: bool,
    /// The run whose start this process has sent first, and when.
    began: Option<(u64, Duration)>,
    /// When progress was last stored by itself.
    progress_kept: Option<Duration>,
    wake: Option<Timestamp>,
    resume: Option<Duration>,
    grace_ends: Option<Duration>,
    /// Whether the worker has received the stop of its run.
    stop_delivery: StopDelivery,
    /// The claim, which counts when its run is sent.
    first_start: Option<FirstStart>,
}

/// A run that the worker is to start.
#[derive(Debug, Clone, Copy)]
struct Starting {
    run: u64,
    attempt: u32,
    /// The last request whose answer has carried it.
    sent: Option<u64>,
    /// How many answers have carried it that the worker has got or given up, without holding the run after them.
    in_vain: u32,
}

/// A run that another server may have sent: its answer may still be on the way.
#[derive(Debug, Clone, Copy)]
struct MaybeSent {
    run: u64,
    /// The exchange that is compared here first. Once it is settled, a later one shows what earlier answers have brought.
    until: Option<u64>,
}

/// What the effects of an input ask for beyond the task itself.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) write: Option<Box<Write>>,
    pub(super) checkpoint: Option<Result<(), String>>,
    pub(super) is_done: bool,
}

/// What the worker is to do with a run that it holds, or lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reconciled {
    /// Nothing to decide.
    Fine,
    /// The worker had the run, holds it no longer, and has not reported its end.
    Dropped,
    /// The worker was sent the run again and again, and does not hold it: another claim gets a run of its own.
    NotTaken,
    /// The run is to end, and no answer that is on the way has it: the worker will not start it.
    NeverStarts,
}

fn config(task: &Task, offer: &Offer, limits: Limits) -> Config {
    let retry = task.retry.clone().unwrap_or_default();
    Config {
        stop_grace: Duration::from_millis(offer.grace_ms).saturating_add(BEYOND_GRACE),
        park_after: Duration::ZERO,
        retry: Arc::new(retry),
        max_data_bytes: limits.max_bytes.saturating_sub(task.props.len()),
        data_version: offer.reads,
        max_outcomes: limits.max_outcomes,
        takes_signals: offer.signals,
        idle_runs: IDLE_RUNS,
        named_runs: true,
        claim_per_attempt: has_limit_on_starts(task),
    }
}

impl RemoteTask {
    /// Returns the task of a claim, and the inputs with which its machine begins. `held` is what the worker says of the
    /// claim. Another server may have sent its run, unless this process has just made the claim.
    pub(super) fn new(
        claimed: Claimed,
        offer: &Offer,
        limits: Limits,
        held: Option<&Held>,
        is_new: bool,
    ) -> (Self, Vec<Input>) {
        let Claimed {
            claim,
            task,
            order,
            state,
            commands,
            ready: _,
            abandoned,
            over_limit,
        } = claimed;
        let config = config(&task, offer, limits);
        let run = state.current_run();
        let runs = held.filter(|held| held.run == run && state.status == TaskStatus::Runnable);
        let mut inputs: Vec<Input> = commands.into_iter().map(Input::Command).collect();
        // A command ends a run before it starts, unless the worker may have got the run already: then it has to be stopped.
        let is_maybe_sent = !is_new && state.status == TaskStatus::Runnable;
        let first = if is_maybe_sent && runs.is_none() {
            0
        } else {
            inputs.len()
        };
        inputs.insert(first, Input::Begin);
        let (machine, over) = match runs {
            Some(held) => (Machine::adopt(config, state, held.took), None),
            None => {
                let over = held.filter(|held| held.phase != RunPhase::Ended);
                let machine = Machine::new(config, state, abandoned);
                (machine, over.map(|held| held.run))
            }
        };
        let task = Self {
            claim,
            task,
            order,
            over_limit,
            machine,
            grace: Duration::from_millis(offer.grace_ms),
            start: None,
            maybe_sent: is_maybe_sent.then_some(MaybeSent { run, until: None }),
            signals: Vec::new(),
            stop: None,
            over,
            is_lost: false,
            began: None,
            progress_kept: None,
            wake: None,
            resume: None,
            grace_ends: None,
            stop_delivery: StopDelivery::NotSent,
            first_start: None,
        };
        (task, inputs)
    }

    pub(super) fn state(&self) -> &TaskState {
        self.machine.state()
    }

    /// Feeds an input, and carries out what concerns the task alone.
    pub(super) fn feed(&mut self, input: Input, env: Env) -> Asked {
        let mut asked = Asked::default();
        let mut effects = Vec::new();
        self.machine.input(input, env, &mut effects);
        let mut at = 0;
        while let Some(effect) = effects.get(at).cloned() {
            at += 1;
            match effect {
                Effect::Start { .. } if self.over_limit => {
                    // It was claimed for its commands, and could run now: it waits until there is room.
                    for input in [Input::Stop(StopReason::Balance), Input::Aborted] {
                        self.machine.input(input, env, &mut effects);
                    }
                }
                Effect::Start { attempt, run } => {
                    (self.signals, self.stop, self.stop_delivery) =
                        (Vec::new(), None, StopDelivery::NotSent);
                    self.start = Some(Starting {
                        run,
                        attempt,
                        sent: None,
                        in_vain: 0,
                    });
                }
                Effect::Signal(Signal::Command { order, command }) => {
                    let ends = command.aborts();
                    self.signals.push((order, command));
                    if ends && self.is_unknown() {
                        self.start = None;
                        self.machine.input(Input::Aborted, env, &mut effects);
                    }
                }
                Effect::Signal(Signal::Stop(reason)) => {
                    self.stop = Some(reason);
                    if self.is_unknown() {
                        self.start = None;
                        self.machine.input(Input::Aborted, env, &mut effects);
                    }
                }
                // The worker has had its grace, and more, and has not reported the end.
                Effect::Abort => {
                    self.over = self.machine.run().filter(|_| !self.is_unknown());
                    self.start = None;
                    self.machine.input(Input::Aborted, env, &mut effects);
                }
                Effect::Persist(write) => asked.write = Some(write),
                Effect::CheckpointDone { result, .. } => asked.checkpoint = Some(result),
                Effect::ArmWake(at) => self.wake = Some(at),
                Effect::ArmResume { at, .. } => self.resume = Some(at),
                Effect::ArmGrace(at) => self.grace_ends = Some(at),
                Effect::Disarm(Timer::Wake) => (self.wake, self.resume) = (None, None),
                Effect::Disarm(Timer::Grace) => self.grace_ends = None,
                Effect::Done(end) => {
                    self.is_lost = end == End::Lost;
                    asked.is_done = true;
                }
            }
        }
        asked
    }

    /// Returns whether it was claimed beyond a limit, for its commands: the store then holds it back.
    pub(super) fn is_over_limit(&self) -> bool {
        self.over_limit
    }

    /// Returns whether no answer has carried the run yet: neither one of this server, nor one of the server before.
    fn is_unknown(&self) -> bool {
        let Some(start) = self.start else {
            return false;
        };
        start.sent.is_none() && self.maybe_sent.is_none_or(|sent| sent.run != start.run)
    }

    /// Returns whether the run is to end.
    fn is_to_end(&self) -> bool {
        self.stop.is_some() || self.signals.iter().any(|(_, command)| command.aborts())
    }

    /// Returns whether the worker may still run what is over.
    pub(super) fn is_unfinished(&self) -> bool {
        self.is_lost || self.over.is_some()
    }

    /// Notes that the worker has this run, or had it.
    pub(super) fn has(&mut self, run: u64) {
        self.start.take_if(|start| start.run == run);
    }

    /// Notes that the worker says that a run has ended which is over.
    pub(super) fn ended(&mut self, run: u64) {
        self.over.take_if(|over| *over == run);
    }

    /// Returns how long a run has lasted, if this process has sent its start.
    pub(super) fn ran(&self, run: u64, now: Duration) -> Option<Duration> {
        let (_, began) = self.began.filter(|(began, _)| *began == run)?;
        Some(now.saturating_sub(began))
    }

    /// Returns whether progress may be stored by itself now, and notes it.
    pub(super) fn may_keep_progress(&mut self, now: Duration) -> bool {
        if self
            .progress_kept
            .is_some_and(|kept| now.saturating_sub(kept) < PROGRESS_EVERY)
        {
            return false;
        }
        self.progress_kept = Some(now);
        true
    }

    /// Returns the timers that have fired, and drops them.
    pub(super) fn fired(&mut self, env: Env) -> Vec<Input> {
        let mut fired = Vec::new();
        if self.wake.take_if(|at| *at <= env.now).is_some()
            || self.resume.take_if(|at| *at <= env.elapsed).is_some()
        {
            fired.push(Input::Timer(Timer::Wake));
        }
        if self.grace_ends().is_some_and(|at| at <= env.elapsed) {
            self.grace_ends = None;
            fired.push(Input::Timer(Timer::Grace));
        }
        fired
    }

    /// Returns the time until the next timer fires.
    pub(super) fn next_timer(&self, env: Env) -> Option<Duration> {
        let wake = self.wake.map(|at| {
            let left = Duration::try_from(at.duration_since(env.now));
            left.unwrap_or(Duration::ZERO)
        });
        let waits = [self.resume, self.grace_ends()].into_iter().flatten();
        let waits = waits.map(|at| at.saturating_sub(env.elapsed));
        waits.chain(wake).min()
    }

    /// Compares the run with what the worker says that it holds in the exchange `seq`, with the requests that are settled.
    pub(super) fn reconcile(
        &mut self,
        held: Option<&Held>,
        (seq, settled): (u64, u64),
        env: Env,
    ) -> Reconciled {
        self.learns(held, settled, env);
        // The first exchange may be late: the server before may have answered later requests, and with them this run. The
        // next one shows what they brought.
        self.maybe_sent
            .take_if(|sent| *sent.until.get_or_insert(seq) <= settled);
        let reconciled = self.compare(held, settled);
        if self.is_unknown() && self.is_to_end() {
            self.start = None;
            return Reconciled::NeverStarts;
        }
        reconciled
    }

    fn compare(&mut self, held: Option<&Held>, settled: u64) -> Reconciled {
        let Some(held) = held else {
            self.over = None;
            return match &mut self.start {
                Some(start) if start.sent.is_some_and(|sent| sent <= settled) => {
                    start.sent = None;
                    start.in_vain += 1;
                    match start.in_vain >= IN_VAIN {
                        true => Reconciled::NotTaken,
                        false => Reconciled::Fine,
                    }
                }
                None if self.machine.run().is_some() => Reconciled::Dropped,
                _ => Reconciled::Fine,
            };
        };
        if self.over == Some(held.run) && held.phase == RunPhase::Ended {
            self.over = None;
        }
        match self.start {
            Some(start) if start.run == held.run => self.start = None,
            Some(start) if start.sent.is_some_and(|sent| sent <= settled) => {
                if let Some(start) = &mut self.start {
                    start.sent = None;
                }
            }
            _ => {}
        }
        Reconciled::Fine
    }
}

/// Returns the name of a stop in the protocol.
fn name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Shutdown => "shutdown",
        StopReason::Drain => "drain",
        StopReason::Balance => "balance",
        StopReason::StopTask => "stop-task",
        StopReason::Deadline => "deadline",
        _ => "over",
    }
}
