//! [`Operation`]: one change of one task, and what it has done.

use serde::{Deserialize, Serialize};
use windlass_statemachine::{
    Command, Json, Reschedule, StateKind, Submit, TaskId, message::SendCommand,
};
#[cfg(doc)]
use windlass_statemachine::{IfExists, Unique};

/// The result of a submit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submitted {
    /// The task is there now.
    New,
    /// It was there already ([`IfExists::Same`], [`IfExists::Skip`]); this is its state.
    Existing(StateKind),
    /// Another task has the unique key ([`Unique`]), and the submit skips a task that is there, or both are
    /// the same work.
    Other {
        /// The other task.
        task: TaskId,
        /// Its state.
        state: StateKind,
    },
}

/// One change of one task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Submits a task. A new one has the state
    /// [`TaskState::submitted`](windlass_statemachine::TaskState::submitted). One that replaces an ended task
    /// has nothing of it but a fence that continues to grow.
    Submit(Submit),
    /// Sends a command. If its id is known for this task, the command keeps its order, whatever the
    /// task and the clock are: only a new command is checked.
    Send(SendCommand),
    /// Deletes a task with everything that belongs to it. The node that runs it gets
    /// [`Event::Gone`](crate::store::Event::Gone), and its claim ends.
    Delete(TaskId),
    /// Starts an ended task again ([`TaskState::retried`](windlass_statemachine::TaskState::retried)). The
    /// record of a quarantined task is read again. If it still cannot be read, the task starts from
    /// its props in a new incarnation, and its error log keeps the reason. Version and fence continue
    /// from those of the last write.
    Retry(TaskId),
    /// Changes the due time, the priority or the data of a live task without a claim
    /// ([`TaskState::rescheduled`](windlass_statemachine::TaskState::rescheduled)).
    Reschedule(Reschedule),
}

impl Operation {
    /// Returns the task that the operation changes.
    pub fn task(&self) -> &TaskId {
        match self {
            Self::Submit(submit) => &submit.task.id,
            Self::Send(send) => &send.task,
            Self::Delete(id) | Self::Retry(id) => id,
            Self::Reschedule(change) => &change.task,
        }
    }

    /// Returns the bytes of the JSON values that the operation writes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Submit(submit) => submit.task.props.len(),
            Self::Send(send) => match &send.command {
                Command::Complete { result } => result.as_ref().map_or(0, Json::len),
                Command::Signal(signal) => signal.payload_json().map_or(0, Json::len),
                _ => 0,
            },
            Self::Delete(_) | Self::Retry(_) => 0,
            Self::Reschedule(change) => change.data.as_ref().map_or(0, Json::len),
        }
    }

    /// Returns what the operation does, as errors say it: `submit a task`.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submit a task",
            Self::Send(_) => "send a command",
            Self::Delete(_) => "delete a task",
            Self::Retry(_) => "retry a task",
            Self::Reschedule(_) => "reschedule a task",
        }
    }
}

/// What an operation has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Done {
    /// The task is there.
    Submitted(Submitted),
    /// The command has this order in the queue of its task.
    Sent(u64),
    /// The task is gone.
    Deleted,
    /// The task is runnable again.
    Retried,
    /// The task has the new due time and priority, and is in this state.
    Rescheduled(StateKind),
}
