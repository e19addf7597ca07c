//! [`RunData`]: the parts that the contexts of one run share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicBool},
};

use tokio::{sync::watch, time::Instant};
use windlass_statemachine::{
    ActionKind, AwaitedSignal, ErrorEntry, Fence, Json, Message, Outcome, Progress, StateKind,
    Task, TaskState, Waits,
};

use super::{
    asks::AskRunner,
    log_buffer::RunLog,
    mark::Mark,
    outputs::WaitedTasks,
    signals::Received,
    state::{MissingState, Shared},
};
use crate::{clock::Clock, store::Store};

/// One attempt of a task, as its runner starts it.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) task: Arc<Task>,
    pub(crate) order: u64,
    pub(crate) number: u32,
    pub(crate) fence: Fence,
    /// The version of the data that the handler writes.
    pub(crate) data_version: u32,
    pub(crate) lease_until: watch::Receiver<Instant>,
    /// The values that the handlers of the node share.
    pub(crate) shared: Shared,
    /// The store of the node.
    pub(crate) store: Arc<Store>,
    pub(crate) span: tracing::Span,
    pub(crate) clock: Arc<dyn Clock>,
    /// How many lines the handlers of this claim have logged before.
    pub(crate) logged: u64,
}

/// The data of a task, and its version.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    pub(crate) json: Json,
    pub(crate) version: u32,
}

/// The parts of a context.
#[derive(Debug)]
pub(crate) struct RunData {
    pub(crate) task: Arc<Task>,
    pub(crate) order: u64,
    pub(crate) attempt: u32,
    pub(crate) incarnation: u32,
    /// When the last command reached a node, in microseconds since 1970, if it ended a pause.
    pub(crate) resumed: Option<i64>,
    pub(crate) data: Mutex<Option<Data>>,
    /// The version of the data that the handler writes.
    pub(crate) writes_version: u32,
    pub(crate) last_error: Option<ErrorEntry>,
    pub(crate) waited: WaitedTasks,
    pub(crate) awaited_signal: Option<Box<AwaitedSignal>>,
    /// Whether the wait before the run was ended by its deadline.
    pub(super) wait_expired: bool,
    pub(crate) fence: Fence,
    pub(crate) received: Received,
    pub(crate) asks: AskRunner,
    pub(crate) lease_until: watch::Receiver<Instant>,
    pub(crate) progress: Mutex<Option<Progress>>,
    /// Whether the runner was notified of progress that it has not read yet.
    pub(super) progress_sent: AtomicBool,
    /// The lines that the handler has logged.
    pub(super) log: Mutex<RunLog>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) shared: Shared,
    pub(super) store: Arc<Store>,
    /// The mark of each error about unreadable props.
    pub(super) props_error: OnceLock<Mark>,
    /// The values that the handler has asked for, and the node does not have.
    missing: Mutex<Vec<MissingState>>,
    /// The value whose absence has ended the run.
    lacks: OnceLock<MissingState>,
    node_fault: Mutex<Option<String>>,
    pub(crate) span: tracing::Span,
}

impl RunData {
    /// Returns the parts of an attempt that starts from this state.
    pub(crate) fn new(
        attempt: Attempt,
        state: &TaskState,
        received: Received,
        asks: AskRunner,
    ) -> Self {
        Self {
            task: attempt.task,
            order: attempt.order,
            attempt: attempt.number,
            incarnation: state.incarnation,
            resumed: resumed_at(state),
            data: Mutex::new(state.data.clone().map(|json| Data {
                json,
                version: state.data_version,
            })),
            writes_version: attempt.data_version,
            last_error: state.errors.last().cloned(),
            waited: WaitedTasks::new(
                state.waits.as_deref().map_or_else(Vec::new, Waits::waited),
                attempt.store.clone(),
            ),
            awaited_signal: state.awaited_signal.clone(),
            wait_expired: state.wait_expired(),
            fence: attempt.fence,
            received,
            asks,
            lease_until: attempt.lease_until,
            progress: Mutex::new(None),
            progress_sent: AtomicBool::new(false),
            log: Mutex::new(RunLog::after(attempt.logged)),
            clock: attempt.clock,
            shared: attempt.shared,
            store: attempt.store,
            props_error: OnceLock::new(),
            missing: Mutex::default(),
            lacks: OnceLock::new(),
            node_fault: Mutex::new(None),
            span: attempt.span,
        }
    }

    /// Makes the error of a handler that lacks a value of its node a fault of the node.
    pub(crate) fn of_node(&self, message: Message) -> Message {
        let Some(missing) = self.lacks() else {
            return message;
        };
        self.set_node_fault(missing)
    }

    /// Sets the fault of the node, and returns the message that reports it.
    pub(super) fn set_node_fault<J>(&self, reason: impl fmt::Display) -> Message<J> {
        let fault = self.node_fault.lock();
        *fault.unwrap_or_else(PoisonError::into_inner) = Some(reason.to_string());
        Message::release()
    }

    /// Returns the fault of the machine that this message of the handler reports.
    pub(crate) fn node_fault(&self, message: &Message) -> Option<String> {
        if message.kind() != ActionKind::Release {
            return None;
        }
        let fault = self.node_fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns whether an error about unreadable props still exists. While the handler's return value
    /// still exists, this means that the returned error contains it.
    pub(super) fn holds_props_error(&self) -> bool {
        self.props_error.get().is_some_and(Mark::is_held)
    }

    /// Returns whether a panic has dropped an error about unreadable props.
    pub(super) fn panicked_with_props_error(&self) -> bool {
        self.props_error.get().is_some_and(Mark::by_panic)
    }

    /// Remembers that the node does not have a value, and returns the error for the handler.
    pub(super) fn missing(&self, missing: MissingState) -> MissingState {
        let mut all = self.all_missing();
        if let Some(known) = all.iter().find(|known| **known == missing) {
            return known.clone();
        }
        all.push(missing.clone());
        missing
    }

    fn all_missing(&self) -> MutexGuard<'_, Vec<MissingState>> {
        let all = self.missing.lock();
        all.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the missing value whose error the handler returns, or has panicked with. Must be called while the return
    /// value exists.
    pub(super) fn missing_in_return(&self) -> Option<MissingState> {
        let all = self.all_missing();
        all.iter().find(|missing| missing.ends_run()).cloned()
    }

    /// Records that a missing value has ended the run, if this message is its error.
    pub(super) fn ends_without<J>(&self, missing: Option<&MissingState>, message: &Message<J>) {
        if let Some(missing) = missing
            && message.kind() == ActionKind::Error
        {
            // A run ends once.
            let _ = self.lacks.set(missing.clone());
        }
    }

    /// Returns the value whose absence has ended the run.
    pub(crate) fn lacks(&self) -> Option<&MissingState> {
        self.lacks.get()
    }
}

/// Returns the time at which the last command reached a node, if it ended a pause. The time names the command in the data of
/// a handler: a copy of the store keeps it, and gives the command another queue position.
fn resumed_at(state: &TaskState) -> Option<i64> {
    let last = state.last_command.as_ref()?;
    let ends = matches!(
        last.outcome,
        Outcome::Applied {
            from: StateKind::Paused,
            to: StateKind::Runnable
        }
    );
    let mut deliveries = state.deliveries.iter().rev();
    // An earlier version has stored no time: such a command is no news.
    let of = deliveries.find(|delivery| ends && delivery.order == last.order)?;
    Some(of.at.as_microsecond())
}
