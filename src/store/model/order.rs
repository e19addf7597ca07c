//! [`Order`]: the order of the tasks in a list.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use windlass_statemachine::Invalid;

/// The order of the tasks in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// By the order of their submits.
    #[default]
    Submitted,
    /// By the time of their wake-up. Only sleeping tasks are listed: a runnable task waits for no time. A query for other
    /// tasks is refused.
    Due,
    /// By how late they are: the tasks that no node has claimed and whose time has come, the latest first. Tasks that sleep
    /// until a later time or wait for others are not listed, nor are paused, running and ended ones. A query for other
    /// tasks is refused. Every live task is read; on SQLite only the runnable ones.
    Late,
    /// By the time of their end. Only ended tasks are listed. A query for other tasks is refused.
    Ended,
    /// By their ids, byte by byte. Ids that windlass makes (UUIDv7) begin with the time of the submit, so they sort
    /// by the millisecond of their submits. On every store, a list by id reads only what it returns.
    Id,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 5] = [
        Self::Submitted,
        Self::Due,
        Self::Late,
        Self::Ended,
        Self::Id,
    ];

    /// Returns its name: `submitted`, `due`, `late`, `ended` or `id`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Due => "due",
            Self::Late => "late",
            Self::Ended => "ended",
            Self::Id => "id",
        }
    }

    /// Returns whether a list in this order starts with the first task by default: the earliest wake-up, or the latest
    /// task. Other lists start with the newest.
    pub fn is_ascending(self) -> bool {
        matches!(self, Self::Due | Self::Late)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Order {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|order| order.as_str() == text);
        found.ok_or_else(|| {
            Invalid::new(
                "order",
                format!("'{text}' is not one of submitted, due, late, ended and id"),
            )
        })
    }
}
