//! [`TaskStats`]: how many tasks there are, grouped by whether a node can claim them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Kind, StateKind};

use super::LimitForm;

/// Whether a node can claim a task now, or the reason why it cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Availability {
    /// The task is due, and no node has claimed it.
    Available,
    /// The task sleeps until a later time.
    Future,
    /// The task waits for other tasks. It still counts here after its wait is over, until a node
    /// claims it.
    Waiting,
    /// The task is paused or asleep until it gets a signal that its handler has declared.
    AwaitsSignal,
    /// The task is paused, for another reason.
    Paused,
    /// A node has claimed it.
    Claimed,
    /// The task has ended.
    Ended,
    /// The record of the task cannot be read.
    Quarantined,
}

impl Availability {
    /// Returns the name: `available`, `future`, `waiting`, `awaits_signal`, `paused`, `claimed`, `ended` or `quarantined`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Future => "future",
            Self::Waiting => "waiting",
            Self::AwaitsSignal => "awaits_signal",
            Self::Paused => "paused",
            Self::Claimed => "claimed",
            Self::Ended => "ended",
            Self::Quarantined => "quarantined",
        }
    }
}

/// Tasks of the same kind, state, data version and availability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskGroup {
    /// The kind.
    pub kind: Kind,
    /// The state; `None` for quarantined tasks.
    pub state: Option<StateKind>,
    /// The version of their data.
    pub data_version: u32,
    /// Whether a node can claim them.
    pub availability: Availability,
    /// The number of tasks.
    pub tasks: u64,
    /// Since when the first of them could be claimed: its due time, or the end of its last claim. `None` unless they are [`Available`](Availability::Available). See
    /// [`TaskStats::oldest_is_complete`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due: Option<Timestamp>,
}

/// The tasks of one kind that a limit holds back. All of them are [`Available`](Availability::Available).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HeldGroup {
    /// The kind.
    pub kind: Kind,
    /// The key of the limit.
    pub key: String,
    /// What the limit counts.
    pub form: LimitForm,
    /// How many tasks wait in the line of the limit.
    pub tasks: u64,
}

/// The numbers of a store's tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskStats {
    /// The time of the counts, by the clock of the reader.
    pub at: Timestamp,
    /// The tasks, in the order of kinds, states and data versions.
    pub groups: Vec<TaskGroup>,
    /// The tasks in the lines of limits, in the order of kinds and keys.
    pub held: Vec<HeldGroup>,
    /// Whether `held` includes all of them. A store may read only the first 10,000 tasks in lines.
    pub held_is_complete: bool,
    /// Whether every task was read for `oldest_due`. A store may read only the first 2,000 live tasks in submit
    /// order. Then an older task may be available, and `oldest_due` is `None` for a group whose tasks come later.
    pub oldest_is_complete: bool,
}
