//! [`Report`]: the result of a copy.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use windlass_statemachine::{Kind, StateKind, TaskId};

use super::Outside;

/// A task that was not copied, or that differs, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Problem {
    /// The task.
    pub id: TaskId,
    /// The reason, in one line.
    pub reason: String,
}

impl Problem {
    pub(super) fn new(id: &TaskId, reason: impl ToString) -> Self {
        let (id, reason) = (id.clone(), reason.to_string());
        Self { id, reason }
    }
}

/// The number of tasks of a kind in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Pair {
    /// The kind.
    pub kind: Kind,
    /// The state.
    pub state: StateKind,
    /// The number in the source.
    pub from: u64,
    /// The number in the target.
    pub to: u64,
}

/// The result of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Report {
    /// The number of tasks in the source.
    pub tasks: u64,
    /// The number of copied tasks; in a dry run, of tasks that would be copied.
    pub copied: u64,
    /// How many of these replaced another task.
    pub replaced: u64,
    /// The number of tasks that the target already had, unchanged.
    pub same: u64,
    /// The tasks that were not copied: unreadable, or another task has the id in the target.
    pub left: Vec<Problem>,
    /// The number of tasks that were read back from both stores and are equal; 0 before
    /// [`verify`](super::Copier::verify).
    pub verified: u64,
    /// The tasks that differ, and those that this run appended in another order.
    pub wrong: Vec<Problem>,
    /// The tasks that only the target has, in the target's submit order; empty before
    /// [`verify`](super::Copier::verify). They were submitted to the target, or were copied earlier and then
    /// deleted in the source.
    pub only_there: Vec<TaskId>,
    /// Operations that are committed in the source but belong to no task, and so are not in the
    /// target.
    pub outside: Vec<Outside>,
    /// The number of changes in the history of the source.
    pub history: u64,
    /// The number of these that the target kept.
    pub history_kept: u64,
    /// The compared tasks of both stores by kind and state.
    pub counts: Vec<Pair>,
    #[serde(skip)]
    pub(super) ids: Vec<TaskId>,
    /// The number of the newest change of the source when the comparison began.
    #[serde(skip)]
    pub(super) position: Option<u64>,
    /// Tasks that this run did not append. Their place in the submit order is not compared.
    #[serde(skip)]
    pub(super) moved: HashSet<TaskId>,
}

impl Report {
    /// Returns whether the target has every task of the source, unchanged, and no operation is pending in the source.
    pub fn is_whole(&self) -> bool {
        let has_all = self.left.is_empty() && self.outside.is_empty();
        has_all && self.wrong.is_empty() && self.verified == self.tasks
    }
}

/// The progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of tasks that are done.
    pub done: u64,
    /// The number of all tasks.
    pub tasks: u64,
}
