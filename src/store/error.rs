//! [`Error`]: why a call to a store failed.

mod exists;
mod refused;

use std::{fmt, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use windlass_statemachine::{CommandId, Invalid, Kind, NodeName, StateKind, TaskId};

use super::{
    NodeCommandId, Refusals, Remedy,
    model::{Copied, ending},
};

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

/// Why a call to a store failed. Only [`is_retryable`](Self::is_retryable) decides whether to try
/// again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The claim or lease of the caller is no longer the live one. Nothing was changed.
    #[error("{0} is fenced: another claim or lease has taken its place, and nothing was changed")]
    Fenced(String),

    /// The claim is live, but another of its writes was applied after the state was read that this write
    /// follows. Nothing was changed. Read the state, decide again, and send a new write.
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

    /// Another server speaks for the remote worker, with this or a later request of the worker. Nothing was changed.
    #[error(
        "server '{server}' speaks for worker '{worker}' since its request {seq}: another server has taken the place of \
         this one, and nothing was changed; send the worker's next request"
    )]
    OtherSpeaker {
        /// The worker.
        worker: NodeName,
        /// The server.
        server: String,
        /// The number of the request.
        seq: u64,
    },

    /// The store cannot be reached, or is too busy. A write may have happened: read again before
    /// you act on the error.
    #[error("could not {operation}: the store is unavailable: {reason}")]
    Unavailable {
        /// The operation that failed.
        operation: &'static str,
        /// The store's reason.
        reason: String,
        /// The underlying error, if there is one: a [`std::io::Error`], a
        /// [`sqlite::Failure`](crate::store::sqlite::Failure), or an error of a custom state store.
        source: Option<Cause>,
    },

    /// A record cannot be read. It is quarantined with the reason, and not lost.
    #[error("the record of {what} cannot be read: {reason}")]
    Corrupt {
        /// The record.
        what: String,
        /// Why it cannot be read.
        reason: String,
    },

    /// The task, node or command does not exist.
    #[error("{what} '{name}' does not exist")]
    NotFound {
        /// `task`, `node` or `command`.
        what: &'static str,
        /// The name or id.
        name: String,
    },

    /// A field is larger than the store allows.
    #[error("{field} has {bytes} bytes; the store takes at most {limit}")]
    TooLarge {
        /// The name of the field.
        field: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },

    /// Bad input. Names the field and says what would be valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),

    /// A live task or node has that name.
    #[error("{what} '{name}' exists already{}", ending(difference.as_deref()))]
    AlreadyExists {
        /// `task` or `node`.
        what: &'static str,
        /// The name or id.
        name: String,
        /// How the task differs from the new one ([`Task::difference`](windlass_statemachine::Task::difference)), for a submit
        /// that accepts the same work ([`IfExists::Same`](super::IfExists::Same)).
        difference: Option<String>,
    },

    /// The task has ended. It accepts no commands, and its id can only be used by a submit that
    /// replaces it.
    #[error(
        "task '{task}' has ended already{}; retry it to start it again, or let a submit replace it to use its id again",
        ending(difference.as_deref())
    )]
    AlreadyFinished {
        /// The task.
        task: TaskId,
        /// As of [`AlreadyExists`](Self::AlreadyExists).
        difference: Option<String>,
    },

    /// A node has claimed the task, or the node that had claimed it has ended without a release: deleting the task would
    /// stop its handler and lose what that returns, or leave it running.
    #[error(
        "task '{0}' is claimed by a node, or its node has ended without releasing it and the handler may still run; wait \
         until a node has released the task, or force the deletion, which stops its handler"
    )]
    Claimed(TaskId),

    /// The schedule has ended. A retry would run it with the spec with which it has ended.
    #[error(
        "schedule '{0}' has ended; update it to start it again, or create one under another id"
    )]
    ScheduleEnded(TaskId),

    /// The task is not a schedule.
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
        /// When the key becomes free.
        until: Timestamp,
    },

    /// A transaction, or the effects of a message, were refused. Lists the refused guards and operations
    /// with their reasons. Nothing was changed.
    #[error("{0}")]
    Refused(Refusals),

    /// The store lacks the part for this operation.
    #[error("could not {operation}: the {store} store does not support it; {instead}")]
    Unsupported {
        /// The name of the store, as [`Registry::name`](super::Registry::name) returns it.
        store: String,
        /// The operation, such as `copy tasks`.
        operation: &'static str,
        /// What to do instead, such as `use a store that does`.
        instead: &'static str,
    },

    /// The tasks of the store were copied into another store, which runs them now.
    #[error(
        "this store was {0}, and accepts no tasks, commands and nodes since; use that store, or remove the mark of the \
         copy to use this one again"
    )]
    Copied(Copied),

    /// The store cannot be used: it belongs to another program, is newer than this program, or is
    /// read-only. The text says what to do.
    #[error("{0}")]
    Unusable(String),

    /// The SQLite library of this program can corrupt a file that several connections use. Nothing was opened.
    #[error(
        "could not open '{}': this program uses SQLite {found}, which can corrupt a file that several connections use; \
         build it with the feature `sqlite` of windlass, which includes a SQLite with the fix, or use SQLite 3.51.3 or \
         later (of older branches: 3.50.7 or later, 3.44.6 or later)",
        file.display()
    )]
    OldSqlite {
        /// The file that was to be opened.
        file: PathBuf,
        /// The version of the library, such as `3.40.1`.
        found: String,
    },

    /// The files of an open store were moved, deleted or replaced, or its etcd was restored to an earlier state
    /// than this process has seen. Every call fails from then on, and nothing is acknowledged: the latest writes
    /// may be in the moved files, or lost. The text says what to do. A node then stops.
    #[error("{reason}")]
    StoreGone {
        /// What happened, and what to do.
        reason: String,
        /// The remedy that a program can offer.
        remedy: Option<Remedy>,
    },
}

impl Error {
    /// Returns whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns the step of the library that resolves the error, if there is one.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Copied(_) => Some(Remedy::UseCopied),
            Self::ScheduleEnded(_) => Some(Remedy::UpdateSchedule),
            Self::NotASchedule { .. } => Some(Remedy::ListSchedules),
            Self::StoreGone { remedy, .. } => *remedy,
            _ => None,
        }
    }

    /// Returns the error for an operation that the store with this name lacks, and that other stores have.
    pub fn unsupported(store: impl Into<String>, operation: &'static str) -> Self {
        Self::Unsupported {
            store: store.into(),
            operation,
            instead: "use a store that does",
        }
    }

    fn not_found(what: &'static str, name: impl ToString) -> Self {
        let name = name.to_string();
        Self::NotFound { what, name }
    }

    /// Returns the error for a task that does not exist.
    pub fn no_task(id: &TaskId) -> Self {
        Self::not_found("task", id)
    }

    /// Returns the error for a command that does not exist.
    pub fn no_command(id: &CommandId) -> Self {
        Self::not_found("command", id)
    }

    /// Returns the error for a name that no live node has.
    pub fn no_node(name: &NodeName) -> Self {
        Self::not_found("node", name)
    }

    /// Returns the error for a node command that does not exist.
    pub fn no_node_command(command: NodeCommandId) -> Self {
        Self::not_found("node command", command)
    }

    /// Returns the error for a new command with the id of a command to another task.
    pub fn other_command(id: &CommandId, task: &TaskId) -> Self {
        let reason = format!("'{id}' was sent to task '{task}' before; give a new id");
        Invalid::new("command id", reason).into()
    }

    /// Returns the error for a field with more bytes than the store allows.
    pub fn too_large(field: &'static str, bytes: usize, limit: usize) -> Self {
        Self::TooLarge {
            field,
            bytes,
            limit,
        }
    }

    /// Returns the error for a task whose record cannot be read.
    pub fn corrupt_task(id: &TaskId, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            what: format!("task '{id}'"),
            reason: reason.into(),
        }
    }

    /// Returns the error for a state that a state store cannot read.
    pub fn corrupt_state(id: &TaskId, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            what: format!("the state of task '{id}'"),
            reason: reason.into(),
        }
    }

    /// Returns the error for a retry of a task in this state: only tasks that have ended or are
    /// quarantined can be retried.
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

    /// Returns the error for a position in the history whose following changes are pruned.
    pub fn pruned(after: u64) -> Self {
        let reason = format!(
            "is {after}, and the history after it is pruned; list the tasks, then follow from now on"
        );
        Invalid::new("after", reason).into()
    }

    /// Returns the error for a position `after` that is beyond the newest change.
    pub fn beyond(after: u64, newest: u64) -> Self {
        let reason = format!("is {after}, but the newest change is {newest}");
        Invalid::new("after", reason).into()
    }

    /// Returns the error for a claim of this task that is no longer the live one.
    pub fn fenced(id: &TaskId) -> Self {
        Self::Fenced(format!("the claim of task '{id}'"))
    }

    /// Returns the error for a lease of this node that has ended.
    pub fn lease_fenced(node: &NodeName) -> Self {
        Self::Fenced(format!("the lease of node '{node}'"))
    }

    /// Returns the error for an operation that the store could not do now.
    pub fn unavailable(operation: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Unavailable {
            operation,
            reason: reason.to_string(),
            source: None,
        }
    }

    /// Returns the error for an operation that the store could not do now, with its cause.
    #[cfg(feature = "sqlite-system")]
    pub(crate) fn unavailable_by(
        operation: &'static str,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::unavailable(operation, &cause).because(cause)
    }

    /// Adds the cause of an [`Unavailable`](Self::Unavailable), which
    /// [`source`](std::error::Error::source) then returns. Other errors stay as they are.
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
