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
    /// By the time of their end. Only ended tasks are listed. A query for other tasks is refused.
    Ended,
    /// By their ids, byte by byte. Ids that windlass makes (UUIDv7) begin with the time of the submit, so they sort
    /// by the millisecond of their submits. On every store, a list by id reads only what it returns.
    Id,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::Submitted, Self::Due, Self::Ended, Self::Id];

    /// Returns its name: `submitted`, `due`, `ended` or `id`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Due => "due",
            Self::Ended => "ended",
            Self::Id => "id",
        }
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
                format!("'{text}' is not one of submitted, due, ended and id"),
            )
        })
    }
}
