//! [`StateKind`]: a state without its data.

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// The seven states, without their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StateKind {
    /// The handler runs, or will run as soon as a node has room.
    Runnable,
    /// The task waits for a time, or for other tasks.
    Sleeping,
    /// The task waits for a command.
    Paused,
    /// An attempt failed, and the retry policy has not decided yet.
    Fault,
    /// The task is done. Final.
    Completed,
    /// The task failed for good. Final, until an explicit retry.
    Failed,
    /// A command or the handler ended the task. Final.
    Killed,
}

impl StateKind {
    /// Every state, in the order of the transition table.
    pub const ALL: [Self; 7] = [
        Self::Runnable,
        Self::Sleeping,
        Self::Paused,
        Self::Fault,
        Self::Completed,
        Self::Failed,
        Self::Killed,
    ];

    /// Returns whether the state is final.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Killed)
    }

    /// Returns the lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runnable => "runnable",
            Self::Sleeping => "sleeping",
            Self::Paused => "paused",
            Self::Fault => "fault",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

impl std::fmt::Display for StateKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for StateKind {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|c| c.as_str() == text)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|c| c.as_str()).collect();
                Invalid::new(
                    "state",
                    format!("'{text}' is not one of {}", names.join(", ")),
                )
            })
    }
}
