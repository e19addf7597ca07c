//! [`TaskStats`]: how many tasks there are, by what decides whether a node claims them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Kind, StateKind};

use super::LimitForm;

/// Whether a node can claim a task now, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Availability {
    /// It is due, and no node has claimed it.
    Available,
    /// It sleeps until a later time.
    Future,
    /// It waits for other tasks. One whose wait is over counts so as well, until a node claims it.
    Waiting,
    /// It is paused.
    Paused,
    /// A node has claimed it.
    Claimed,
    /// It has ended.
    Ended,
    /// Its record cannot be read.
    Quarantined,
}

impl Availability {
    /// Returns the name: `available`, `future`, `waiting`, `paused`, `claimed`, `ended` or `quarantined`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Future => "future",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Claimed => "claimed",
            Self::Ended => "ended",
            Self::Quarantined => "quarantined",
        }
    }
}

/// The tasks of one kind, state and data version that a node can claim, or cannot for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskGroup {
    /// The kind.
    pub kind: Kind,
    /// The state; `None` for those that are quarantined.
    pub state: Option<StateKind>,
    /// The version of their data.
    pub data_version: u32,
    /// Whether a node can claim them.
    pub availability: Availability,
    /// How many tasks there are.
    pub tasks: u64,
    /// Since when the first of them is due; `None` unless they are [`Available`](Availability::Available). See
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
    /// How many tasks wait in its line.
    pub tasks: u64,
}

/// How many tasks a store has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskStats {
    /// The time for which they hold, by the clock of the reader.
    pub at: Timestamp,
    /// The tasks, in the order of kinds, states and data versions.
    pub groups: Vec<TaskGroup>,
    /// The tasks in the lines of limits, in the order of kinds and keys.
    pub held: Vec<HeldGroup>,
    /// Whether `held` has all of them. A store may read only the first 10,000 tasks in lines.
    pub held_is_complete: bool,
    /// Whether every task was read for `oldest_due`. A store may read only the first 2,000 live ones in submit order:
    /// then an older one may be available, and a group whose tasks come later has none.
    pub oldest_is_complete: bool,
}
