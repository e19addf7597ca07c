//! [`Report`]: the result of a copy.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use windlass_statemachine::{Kind, StateKind, TaskId};

use super::Outside;

/// A task that was not copied or differs, and why.
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
    /// The number of these in the target.
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
    /// The number of these that replaced another task.
    pub replaced: u64,
    /// The number of tasks that the target had already, the same.
    pub same: u64,
    /// The tasks that were not copied: unreadable, or another task has the id in the target.
    pub left: Vec<Problem>,
    /// The number of tasks that were read back from both stores and are the same; 0 before
    /// [`verify`](super::Copier::verify).
    pub verified: u64,
    /// The tasks that differ, or that this run appended in another order.
    pub wrong: Vec<Problem>,
    /// The tasks that the target has and the source has not, in the target's order of submits; empty before
    /// [`verify`](super::Copier::verify). They are of the target itself, or were copied before and deleted in the
    /// source since.
    pub only_there: Vec<TaskId>,
    /// What is committed in the source and is in no task, and so not in the target.
    pub outside: Vec<Outside>,
    /// The number of changes in the history of the source.
    pub history: u64,
    /// The number of these that the target keeps.
    pub history_kept: u64,
    /// The compared tasks of both stores by kind and state.
    pub counts: Vec<Pair>,
    #[serde(skip)]
    pub(super) ids: Vec<TaskId>,
    /// Tasks that this run did not append: their place in the order of submits is not compared.
    #[serde(skip)]
    pub(super) moved: HashSet<TaskId>,
}

impl Report {
    /// Returns whether every task of the source is in the target, and the same, and nothing else waits in the source.
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
