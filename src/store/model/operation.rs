//! [`Done`]: what an operation has done.

use serde::{Deserialize, Serialize};
#[cfg(doc)]
use windlass_statemachine::{IfExists, Unique};
use windlass_statemachine::{StateKind, TaskId};

/// The result of a submit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
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

/// What an operation has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
