//! [`Done`]: the result of an operation.

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
    /// The submit made a new task.
    New,
    /// The task existed already ([`IfExists::Same`], [`IfExists::Skip`]), in this state. After
    /// [`IfExists::ReplaceWaiting`] it has the props and the time of the submit.
    Existing(StateKind),
    /// Another task has the unique key ([`Unique`]), and the submit skips existing tasks, or both are the
    /// same work. After [`IfExists::ReplaceWaiting`] the other task has the props and the time of the submit.
    Other {
        /// The other task.
        task: TaskId,
        /// Its state.
        state: StateKind,
    },
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Done {
    /// The task exists.
    Submitted(Submitted),
    /// The command has this order in the queue of its task.
    Sent(u64),
    /// The task is deleted.
    Deleted,
    /// The task is runnable again.
    Retried,
    /// The task has the new due time, priority, limits and data, and is in this state.
    Rescheduled(StateKind),
}
