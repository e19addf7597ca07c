//! The facts on which a store decides operations: the tasks and commands that they name.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use windlass_statemachine::{CommandId, Fence, Operation, StateKind, Task, TaskId, TaskState};

use super::retry::Counted;
use crate::store::{Reason, Transaction};

/// The time and the size limit of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of a task's props, data and result together.
    pub(crate) max_bytes: usize,
    /// The time of the write.
    pub(crate) now: Timestamp,
}

/// How much of the tasks that a transaction names its decision needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// All but the record: whether the task has ended, who has claimed it, and the size of its props.
    Head,
    /// Also the record.
    Whole,
}

impl Need {
    /// Returns how much the decision on a transaction needs.
    pub(crate) fn of(transaction: &Transaction) -> Self {
        match transaction.operations() {
            [Operation::Send(_) | Operation::Delete(_)] if transaction.is_alone() => Self::Head,
            _ => Self::Whole,
        }
    }
}

/// A task that a transaction or an effect names, as the store has it. Of the [head](Need::Head) alone, `task` and
/// `state` are errors.
#[derive(Debug, Clone)]
pub(crate) struct Present {
    /// The task, or the reason why its envelope cannot be read.
    pub(crate) task: Result<Arc<Task>, String>,
    /// Its submit order; 0 for a task that the same write submits.
    pub(crate) order: u64,
    /// Its stored state, or the reason why it cannot be read.
    pub(crate) state: Result<TaskState, String>,
    /// Why the task is quarantined, if it is.
    pub(crate) quarantine: Option<String>,
    /// Whether it has ended. Known even when the state cannot be read.
    pub(crate) has_ended: bool,
    /// Whether a live lease has claimed it.
    pub(crate) is_claimed: bool,
    /// Whether its last claim was lost with its node, and no claim has followed.
    pub(crate) is_lost: bool,
    /// The counters of the last write and the last claim.
    pub(crate) last: Counted,
    /// The bytes of its props.
    pub(crate) props: usize,
}

impl Present {
    /// Stands for the reason in `task` and `state` of a task of which only the head was read.
    pub(crate) const NOT_READ: &str = "it was not read";

    /// Returns the facts that a first try assumes of the task of a command: it lives.
    #[cfg(feature = "etcd")]
    pub(crate) fn assumed() -> Self {
        Self {
            task: Err(Self::NOT_READ.to_owned()),
            order: 0,
            state: Err(Self::NOT_READ.to_owned()),
            quarantine: None,
            has_ended: false,
            is_claimed: false,
            is_lost: false,
            last: Counted::default(),
            props: 0,
        }
    }

    /// Returns the facts about a task after its submit.
    pub(super) fn submitted(task: &Task, now: Timestamp) -> Self {
        Self {
            task: Ok(Arc::new(task.clone())),
            order: 0,
            state: Ok(TaskState::first(task, now)),
            quarantine: None,
            has_ended: false,
            is_claimed: false,
            is_lost: false,
            last: Counted {
                version: 0,
                fence: Fence::default(),
            },
            props: task.props.len(),
        }
    }

    /// Returns whether the task waits for its time, and no node has claimed it: a submit may replace its props.
    pub(super) fn is_waiting(&self) -> bool {
        let waits = |state: &TaskState| {
            let code = state.code();
            matches!(code, StateKind::Runnable | StateKind::Sleeping) && !state.is_waiting()
        };
        !self.is_claimed && self.readable().is_ok_and(waits)
    }

    /// Returns the state, or the reason why the record of the task cannot be read.
    pub(super) fn readable(&self) -> Result<&TaskState, Reason> {
        let reason = match (&self.quarantine, &self.state, &self.task) {
            (None, Ok(state), Ok(_)) => return Ok(state),
            (Some(reason), _, _) | (None, Err(reason), _) | (None, Ok(_), Err(reason)) => reason,
        };
        Err(Reason::Unreadable(reason.clone()))
    }
}

/// The tasks and commands that a transaction or effects name, at one moment before they are applied.
#[derive(Debug, Default, Clone)]
pub(crate) struct Facts {
    /// The tasks that exist.
    pub(crate) tasks: HashMap<TaskId, Present>,
    /// The commands whose ids exist, with their tasks and orders.
    pub(crate) commands: HashMap<CommandId, (TaskId, u64)>,
    /// The holders of the unique keys of the submitted tasks. Each holder is also in `tasks`.
    pub(crate) keys: HashMap<String, Holder>,
}

/// The task that has a unique key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The task.
    pub(crate) task: TaskId,
    /// The time until which it has the key.
    pub(crate) until: Timestamp,
}
