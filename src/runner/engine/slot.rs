//! [`Slot`]: one claimed task of this node, with its machine and its handler.

use std::{collections::VecDeque, sync::Arc};

use futures::future::AbortHandle;
use jiff::Timestamp;
use tokio::{sync::oneshot, time::Instant};
use windlass_statemachine::{
    ActionKind, Command, FailedAttempt, Machine, Progress, StateKind, Task, machine,
};

use super::{reported::Reported, slot_log::SlotLog, timers};
use crate::{
    handler::{RunData, Signals, Stored},
    runner::{kinds::KindEntry, snapshot::RunningTask},
    store::{Claim, NodeCommandId},
    telemetry::{self, FirstStart, KindMetrics, Moved},
};

/// A handler that runs.
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) abort: AbortHandle,
    pub(super) signals: Signals,
    pub(super) data: Arc<RunData>,
    pub(super) since: Timestamp,
    pub(super) began: Instant,
    /// The first command that asked the handler to stop, and when it came.
    pub(super) stopping: Option<(ActionKind, Instant)>,
}

impl Run {
    /// Records the first command that ends the handler.
    pub(super) fn note_stop(&mut self, signal: &machine::Signal) {
        let machine::Signal::Command { command, .. } = signal else {
            return;
        };
        match command {
            Command::Run | Command::Checkpoint | Command::Signal(_) => {}
            Command::Sleep { .. }
            | Command::Pause
            | Command::Release
            | Command::Complete { .. }
            | Command::Kill => {
                let now = (command.kind(), Instant::now());
                self.stopping.get_or_insert(now);
            }
        }
    }

    /// Records how long the handler has run since that command.
    pub(super) fn report_stop(&self) {
        if let Some((command, since)) = self.stopping {
            telemetry::command_stopped(command, since.elapsed());
        }
    }
}

pub(super) struct Slot {
    pub(super) claim: Claim,
    pub(super) task: Arc<Task>,
    /// The task's submit order, which distinguishes it from other tasks with this id.
    pub(super) order: u64,
    pub(super) machine: Machine,
    pub(super) kind: Arc<KindEntry>,
    pub(super) metrics: Arc<KindMetrics>,
    /// The claim, which counts when its handler starts.
    pub(super) first_start: Option<FirstStart>,
    /// The transitions in the write under way. They are counted when it is durable.
    pub(super) moved: Moved,
    pub(super) run: Option<Run>,
    /// Whether the slot counts against the limits.
    pub(super) active: bool,
    /// Whether a limit of the task is full, so that its handler must not start.
    pub(super) over_limit: bool,
    pub(super) timers: timers::Set,
    pub(super) asks: Asks,
    /// The last event about the task since its claim. It is applied when the slot is gone.
    pub(super) latest: Option<Reported>,
    /// The failed attempt in the write under way. It is reported when the write is durable.
    pub(super) failed: Option<FailedAttempt>,
    /// Whether the balancer has released the task: its handler is asked to stop.
    pub(super) is_balanced: bool,
    /// Node commands to answer when the slot is gone.
    pub(super) stop_orders: Vec<NodeCommandId>,
    pub(super) claimed_at: Timestamp,
    pub(super) claimed: Instant,
    /// When its progress was last stored.
    pub(super) progress_kept: Option<Instant>,
    /// The lines that its handlers have logged; `None` until the first one.
    pub(super) log: Option<Box<SlotLog>>,
    /// The caller that waits until the message of the handler is stored.
    pub(super) returning: Option<Returning>,
}

/// A message of a handler on its way to the store, for a caller that waits for it.
pub(super) struct Returning {
    stored: Stored,
    /// The state of the pending write, if that write has the message.
    written: Option<StateKind>,
    /// Why the store has refused the message. The failed attempt is stored instead.
    refused: Option<String>,
}

impl Returning {
    pub(super) fn new(stored: Stored) -> Self {
        let (written, refused) = (None, None);
        Self {
            stored,
            written,
            refused,
        }
    }

    /// Records a write that has the message.
    pub(super) fn writes(&mut self, state: StateKind) {
        self.written = Some(state);
    }

    /// Records a refusal of the pending write.
    pub(super) fn refused(&mut self, reason: &str) {
        if self.written.take().is_some() {
            self.refused.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Returns whether the pending write has the message.
    pub(super) fn is_written(&self) -> bool {
        self.written.is_some()
    }

    /// Reports that the write is durable; without a write the task runs again.
    pub(super) fn report(self) {
        let state = self.written.unwrap_or(StateKind::Runnable);
        let result = self.refused.map_or(Ok(state), Err);
        // A caller that has stopped waiting needs no report.
        let _ = self.stored.0.send(result);
    }
}

impl Slot {
    /// Returns whether the task is about to leave this node: its claim is being released, or its handler is
    /// asked to stop because of the balancer.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_balanced || self.machine.is_ending()
    }

    /// Returns the progress that the handler has reported since the last write.
    pub(super) fn take_progress(&self) -> Option<Progress> {
        self.run.as_ref()?.data.progress()
    }

    /// Returns when the handler was started, or when the task was claimed if no handler runs.
    pub(super) fn began(&self) -> Instant {
        self.run.as_ref().map_or(self.claimed, |run| run.began)
    }

    pub(super) fn describe(&self) -> RunningTask {
        let state = self.machine.state();
        RunningTask {
            id: self.task.id.clone(),
            kind: self.task.kind.clone(),
            state: state.code(),
            attempt: state.attempts.saturating_add(1),
            fence: self.claim.fence,
            since: self.run.as_ref().map_or(self.claimed_at, |r| r.since),
            running: self.run.is_some(),
            progress: match self.run {
                Some(_) => self.take_progress(),
                None => state.progress.clone(),
            },
        }
    }
}

/// The answer to a checkpoint, for the waiting handler.
type Answer = oneshot::Sender<Result<(), String>>;

/// The checkpoints for which a handler waits.
#[derive(Debug, Default)]
pub(super) struct Asks {
    next_ticket: u64,
    waiting: VecDeque<(u64, Answer)>,
}

impl Asks {
    /// Stores the channel of a waiting handler, and returns its ticket.
    pub(super) fn add(&mut self, answer: Answer) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back((ticket, answer));
        ticket
    }

    /// Answers the handler with this ticket.
    pub(super) fn answer(&mut self, ticket: u64, result: Result<(), String>) {
        let at = self.waiting.iter().position(|(of, _)| *of == ticket);
        if let Some((_, answer)) = at.and_then(|at| self.waiting.remove(at)) {
            let _ = answer.send(result);
        }
    }
}
