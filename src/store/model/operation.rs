//! [`Operation`]: one change of one task, and what it has done.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{StateKind, Task, TaskId, message::SendCommand};

#[cfg(doc)]
use crate::store::Error;

/// What to do when the id of a task to submit is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfExists {
    /// Refuse: [`Error::AlreadyExists`] for a live task, [`Error::AlreadyFinished`] for an ended one.
    #[default]
    Refuse,
    /// The same task is as good as submitted, live or ended; another is refused. The same is one of
    /// the same kind whose props have the same value ([`Task::is_same_work`]).
    Same,
    /// Take the place of an ended one; a live one is refused.
    ReplaceFinished,
    /// Any task of this id is as good as submitted, live or ended, whatever its kind and props are.
    Skip,
}

/// A task to submit.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    /// The task.
    pub task: Task,
    /// What to do when its id is taken.
    pub if_exists: IfExists,
}

/// The result of a submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submitted {
    /// The task is there now.
    New,
    /// It was there already ([`IfExists::Same`], [`IfExists::Skip`]); this is its state.
    Existing(StateKind),
}

/// Another due time or priority for a task that is not claimed.
///
/// # Example
///
/// ```
/// use windlass::store::Reschedule;
///
/// let later = "2030-01-01T00:00:00Z".parse()?;
/// let change = Reschedule::new("report".parse()?).due(later).priority(5);
/// assert_eq!((change.due, change.priority), (Some(later), Some(5)));
/// # Ok::<(), windlass::BoxError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reschedule {
    /// The task.
    pub task: TaskId,
    /// The new due time of a runnable or sleeping task. It sleeps until then, or is runnable at once when
    /// that time has passed. `None` (default) keeps the time.
    pub due: Option<Timestamp>,
    /// The new priority. `None` (default) keeps it.
    pub priority: Option<i32>,
}

impl Reschedule {
    /// Returns a change of nothing yet, of this task.
    pub fn new(task: TaskId) -> Self {
        Self {
            task,
            due: None,
            priority: None,
        }
    }

    /// Sets the due time.
    #[must_use]
    pub fn due(mut self, due: Timestamp) -> Self {
        self.due = Some(due);
        self
    }

    /// Sets the priority; tasks with a greater one run first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }
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
    /// Changes the due time or the priority of a live task without a claim
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
