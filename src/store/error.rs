//! [`Error`]: why a store did not do what it was asked.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use windlass_statemachine::{CommandId, Invalid, Kind, NodeName, StateKind, TaskId};

use super::{NodeCommandId, Refusals, Remedy, model::Copied};

/// The error behind an error of a store. Clones share it.
#[derive(Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::ops::Deref for Cause {
    type Target = dyn std::error::Error + Send + Sync + 'static;
    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// What went wrong. [`is_retryable`](Self::is_retryable) is the only rule for trying again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The claim or lease that asked is not the live one: it was lost. Nothing was changed.
    #[error("{0} is fenced: another claim or lease has taken its place, and nothing was changed")]
    Fenced(String),

    /// The claim is live, but another write of it was applied since the state was read that this write follows.
    /// Nothing was changed. Read the state, decide again, and write on top of it.
    #[error(
        "a write of task '{task}' follows version {follows}, and version {stored} is stored: another writer of \
         the claim was first, and nothing was changed; read the state and decide again"
    )]
    Superseded {
        /// The task.
        task: TaskId,
        /// The version that the write follows.
        follows: u64,
        /// The version of the stored state.
        stored: u64,
    },

    /// The store cannot be reached, or is too busy. Whether a write happened is not known: read
    /// again before acting on it.
    #[error("could not {operation}: the store is unavailable: {reason}")]
    Unavailable {
        /// What was being done.
        operation: &'static str,
        /// What the store said.
        reason: String,
        /// The error behind it, if there is one: a [`std::io::Error`], a
        /// [`sqlite::Failure`](crate::store::sqlite::Failure), or an error of a state store of your own.
        source: Option<Cause>,
    },

    /// A record cannot be read. It is quarantined with the reason, not lost.
    #[error("the record of {what} cannot be read: {reason}")]
    Corrupt {
        /// Whose record.
        what: String,
        /// Why it cannot be read.
        reason: String,
    },

    /// There is no such task, node or command.
    #[error("{what} '{name}' does not exist")]
    NotFound {
        /// `task`, `node` or `command`.
        what: &'static str,
        /// Its name.
        name: String,
    },

    /// What was to be written is larger than the store takes.
    #[error("{field} has {bytes} bytes; the store takes at most {limit}")]
    TooLarge {
        /// Which field.
        field: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },

    /// Bad input; it names the field and what would be right.
    #[error(transparent)]
    Invalid(#[from] Invalid),

    /// A live task or node has that name.
    #[error("{what} '{name}' exists already")]
    AlreadyExists {
        /// `task` or `node`.
        what: &'static str,
        /// Its name.
        name: String,
    },

    /// The task has ended: it takes no command, and its id is free only for a replacement.
    #[error(
        "task '{0}' has ended already; retry it to start it again, or let a submit replace it to use its id again"
    )]
    AlreadyFinished(TaskId),

    /// A node has claimed the task: deleting it would stop its handler and lose what that returns.
    #[error(
        "task '{0}' is claimed by a node; wait until the node has released it, or force the deletion, which stops \
         its handler"
    )]
    Claimed(TaskId),

    /// The schedule has ended. A retry would run it with the spec with which it has ended.
    #[error(
        "schedule '{0}' has ended; update it to start it again, or create one under another id"
    )]
    ScheduleEnded(TaskId),

    /// The task is no schedule.
    #[error("id: '{task}' is a task of kind '{kind}', not a schedule")]
    NotASchedule {
        /// The task.
        task: TaskId,
        /// Its kind.
        kind: Kind,
    },

    /// Another task has the unique key ([`Unique`](windlass_statemachine::Unique)): it was submitted less than
    /// the period of the key ago.
    #[error(
        "task '{task}' has the unique key '{key}' until {until}; submit later, or delete that task"
    )]
    NotUnique {
        /// The key.
        key: String,
        /// The task that has it.
        task: TaskId,
        /// When the key is free.
        until: Timestamp,
    },

    /// A transaction or the effects of a message were refused: which guards and operations, and why. Nothing
    /// was changed.
    #[error("{0}")]
    Refused(Refusals),

    /// The store lacks the part that does this.
    #[error("could not {operation}: the {store} store does not support it; use a store that does")]
    Unsupported {
        /// The name of the store, as [`Registry::name`](super::Registry::name) returns it.
        store: String,
        /// What was asked for: `copy tasks`.
        operation: &'static str,
    },

    /// The tasks of the store were copied into another one, where they run now.
    #[error(
        "this store was {0}, and takes no tasks, commands and nodes since; use that store, or remove the mark of the \
         copy to use this one again"
    )]
    Copied(Copied),

    /// The store itself is not what it should be: not ours, newer than this program, read-only.
    /// The text says what to do.
    #[error("{0}")]
    Unusable(String),

    /// The files of a store that this process has open were moved, deleted or replaced, or its etcd was restored
    /// to an earlier state than this process has seen. Every call fails from then on, and nothing is
    /// acknowledged: what was written last may be in the moved files or nowhere. The text says what to do. A node
    /// stops by itself.
    #[error("{reason}")]
    StoreGone {
        /// What has happened, and what to do.
        reason: String,
        /// The step of it that a program can offer.
        remedy: Option<Remedy>,
    },
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns the step that resolves it, where the library has one.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Copied(_) => Some(Remedy::UseCopied),
            Self::ScheduleEnded(_) => Some(Remedy::UpdateSchedule),
            Self::NotASchedule { .. } => Some(Remedy::ListSchedules),
            Self::StoreGone { remedy, .. } => *remedy,
            _ => None,
        }
    }

    fn not_found(what: &'static str, name: impl ToString) -> Self {
        let name = name.to_string();
        Self::NotFound { what, name }
    }

    /// There is no such task.
    pub fn no_task(id: &TaskId) -> Self {
        Self::not_found("task", id)
    }

    /// There is no such command.
    pub fn no_command(id: &CommandId) -> Self {
        Self::not_found("command", id)
    }

    /// No live node has this name.
    pub fn no_node(name: &NodeName) -> Self {
        Self::not_found("node", name)
    }

    /// There is no such command to a node.
    pub fn no_node_command(command: NodeCommandId) -> Self {
        Self::not_found("node command", command)
    }

    /// A live task has this id.
    pub fn task_exists(id: &TaskId) -> Self {
        let (what, name) = ("task", id.to_string());
        Self::AlreadyExists { what, name }
    }

    /// A live node has this name.
    pub fn node_exists(name: &NodeName) -> Self {
        let (what, name) = ("node", name.to_string());
        Self::AlreadyExists { what, name }
    }

    /// The id of a new command is that of a command to another task.
    pub fn other_command(id: &CommandId, task: &TaskId) -> Self {
        let reason = format!("'{id}' was sent to task '{task}' before; give a new id");
        Invalid::new("command id", reason).into()
    }

    /// A field has more bytes than the store takes.
    pub fn too_large(field: &'static str, bytes: usize, limit: usize) -> Self {
        Self::TooLarge {
            field,
            bytes,
            limit,
        }
    }

    /// The record of a task cannot be read.
    pub fn corrupt_task(id: &TaskId, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            what: format!("task '{id}'"),
            reason: reason.into(),
        }
    }

    /// A state store cannot read the state of a task.
    pub fn corrupt_state(id: &TaskId, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            what: format!("the state of task '{id}'"),
            reason: reason.into(),
        }
    }

    /// Only tasks that have ended or are quarantined are retried; this one is in another state.
    pub fn not_retried(state: StateKind) -> Self {
        let advice = match state {
            StateKind::Sleeping | StateKind::Paused | StateKind::Fault => {
                "; resume it to run it now"
            }
            _ => "",
        };
        let reason = format!(
            "is {state}; retry starts only tasks that have ended or are quarantined{advice}"
        );
        Invalid::new("state", reason).into()
    }

    /// The history after the change `after` is pruned.
    pub fn pruned(after: u64) -> Self {
        let reason = format!(
            "is {after}, and the history after it is pruned; list the tasks, then follow from now on"
        );
        Invalid::new("after", reason).into()
    }

    /// No change has the number `after` yet: the newest is `newest`.
    pub fn beyond(after: u64, newest: u64) -> Self {
        let reason = format!("is {after}, but the newest change is {newest}");
        Invalid::new("after", reason).into()
    }

    /// The claim of this task is not the live one.
    pub fn fenced(id: &TaskId) -> Self {
        Self::Fenced(format!("the claim of task '{id}'"))
    }

    /// The lease of this node has ended.
    pub fn lease_fenced(node: &NodeName) -> Self {
        Self::Fenced(format!("the lease of node '{node}'"))
    }

    /// The store could not do `operation` now.
    pub fn unavailable(operation: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Unavailable {
            operation,
            reason: reason.to_string(),
            source: None,
        }
    }

    /// The store could not do `operation` now, because of this error.
    #[cfg(feature = "sqlite")]
    pub(crate) fn unavailable_by(
        operation: &'static str,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::unavailable(operation, &cause).because(cause)
    }

    /// Adds the error behind an [`Unavailable`](Self::Unavailable), which
    /// [`source`](std::error::Error::source) then returns. Any other error stays as it is.
    ///
    /// # Example
    ///
    /// ```
    /// use std::{error::Error as _, io};
    /// use windlass::store::Error;
    ///
    /// fn load() -> Result<String, Error> {
    ///     std::fs::read_to_string("/no/such/file")
    ///         .map_err(|e| Error::unavailable("load a state", &e).because(e))
    /// }
    /// let error = load().unwrap_err();
    /// let io: &io::Error = error.source().and_then(|e| e.downcast_ref()).unwrap();
    /// assert_eq!(io.kind(), io::ErrorKind::NotFound);
    /// ```
    #[must_use]
    pub fn because(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        if let Self::Unavailable { source, .. } = &mut self {
            *source = Some(Cause(Arc::new(cause)));
        }
        self
    }
}
