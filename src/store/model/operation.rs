//! [`Transaction`]: the changes that a client asks for.

use serde::{Deserialize, Serialize};
use windlass_statemachine::{StateKind, Task, TaskId, message::SendCommand};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// The task is there now.
    New,
    /// It was there already ([`IfExists::Same`]); this is its state.
    Existing(StateKind),
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
}

impl Operation {
    /// Returns the task that the operation changes.
    pub fn task(&self) -> &TaskId {
        match self {
            Self::Submit(submit) => &submit.task.id,
            Self::Send(send) => &send.task,
            Self::Delete(id) | Self::Retry(id) => id,
        }
    }

    /// Returns what the operation does, as errors say it: `submit a task`.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submit a task",
            Self::Send(_) => "send a command",
            Self::Delete(_) => "delete a task",
            Self::Retry(_) => "retry a task",
        }
    }
}

/// What a client asks a store to change, in one atomic step. So far it has one operation.
///
/// # Example
///
/// ```
/// use windlass::store::{Operation, Store, Transaction};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let store = Store::open("memory:").await?;
/// let delete = Transaction::from(Operation::Delete("a".parse()?));
/// let refused = store.registry().apply(vec![delete]).await.remove(0).unwrap_err();
/// assert_eq!(refused.to_string(), "task 'a' does not exist");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    operation: Operation,
}

impl From<Operation> for Transaction {
    fn from(operation: Operation) -> Self {
        Self { operation }
    }
}

impl Transaction {
    /// Returns its operation.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Returns its operation by value.
    pub fn into_operation(self) -> Operation {
        self.operation
    }
}

/// What an operation has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Applied {
    /// The task is there.
    Submitted(Submitted),
    /// The command has this order in the queue of its task.
    Sent(u64),
    /// The task is gone.
    Deleted,
    /// The task is runnable again.
    Retried,
}

impl Applied {
    /// Returns the result of a submit.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] when it is the result of another operation: the store is wrong.
    pub fn submitted(self) -> Result<Submitted, Error> {
        match self {
            Self::Submitted(submitted) => Ok(submitted),
            other => Err(other.unexpected("submit a task")),
        }
    }

    /// Returns the order of a command.
    ///
    /// # Errors
    ///
    /// As [`submitted`](Self::submitted).
    pub fn sent(self) -> Result<u64, Error> {
        match self {
            Self::Sent(order) => Ok(order),
            other => Err(other.unexpected("send a command")),
        }
    }

    fn unexpected(self, verb: &str) -> Error {
        Error::Unusable(format!(
            "could not {verb}: the store returned the result {self:?} of another operation; report \
             it to the author of the store"
        ))
    }
}
