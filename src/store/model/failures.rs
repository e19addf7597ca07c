//! [`FailedGroup`]: failed tasks whose last errors have the same fingerprint.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Kind, TaskId};

/// Failed tasks of one kind whose last errors have the same [fingerprint](crate::fingerprint).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FailedGroup {
    /// The fingerprint.
    pub fingerprint: String,
    /// The kind of the tasks.
    pub kind: Kind,
    /// The number of tasks.
    pub tasks: u64,
    /// When the first of them failed.
    pub first: Timestamp,
    /// When the last of them failed.
    pub last: Timestamp,
    /// The tasks that failed last, the newest first: at least one, and up to [`FailedGroup::RECENT`].
    pub recent: Vec<TaskId>,
}

impl FailedGroup {
    /// How many of the tasks that failed last a group names.
    pub const RECENT: usize = 8;
}

/// The failed tasks of a store, in groups.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedTasks {
    /// The groups, those with the most tasks first, then the one that failed last.
    pub groups: Vec<FailedGroup>,
    /// Whether the groups have every failed task. A store that keeps no counts reads only the last 10,000; and a store
    /// returns at most as many groups as were asked for.
    pub is_complete: bool,
}
