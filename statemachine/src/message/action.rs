//! [`Action`]: what a message asks for, and its name.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Invalid, Json, time::LAST};

/// When a sleep ends: at a time, or some time after the message is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At this time. A time in the past wakes the task at once.
    At(Timestamp),
    /// This long after the message is applied.
    After(Duration),
}

impl Wake {
    /// Returns the wake-up time of a message that is applied at `now`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `until`) for a wake-up after `9999-12-30T22:00:00Z`.
    pub fn resolve(self, now: Timestamp) -> Result<Timestamp, Invalid> {
        match self {
            Self::At(at) => Ok(at),
            Self::After(wait) => SignedDuration::try_from(wait)
                .ok()
                .and_then(|wait| now.checked_add(wait).ok())
                .ok_or_else(|| {
                    let beyond = format!("is beyond {LAST}; sleep for a shorter time");
                    Invalid::new("until", beyond)
                }),
        }
    }
}

/// The name of a message, as it appears in tables, histories and outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Run the handler (again).
    Run,
    /// Sleep until a time.
    Sleep,
    /// Wait for a command.
    Pause,
    /// Release the claim; another node (or this one) continues.
    Release,
    /// Persist data and continue.
    Checkpoint,
    /// The attempt failed; the retry policy decides.
    Error,
    /// Complete the task.
    Complete,
    /// End the task for good.
    Kill,
    /// A signal to the handler: only a command. It wakes the task like Run.
    Signal,
}

impl ActionKind {
    /// Every message, in the order of the transition table. Not the signal: no handler returns one.
    pub const ALL: [Self; 8] = [
        Self::Run,
        Self::Sleep,
        Self::Pause,
        Self::Release,
        Self::Checkpoint,
        Self::Error,
        Self::Complete,
        Self::Kill,
    ];

    /// Returns the lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Sleep => "sleep",
            Self::Pause => "pause",
            Self::Release => "release",
            Self::Checkpoint => "checkpoint",
            Self::Error => "error",
            Self::Complete => "complete",
            Self::Kill => "kill",
            Self::Signal => "signal",
        }
    }
}

impl std::fmt::Display for ActionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for ActionKind {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut all = Self::ALL.into_iter().chain([Self::Signal]);
        all.find(|a| a.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.iter().chain([&Self::Signal]);
            let names: Vec<_> = all.map(|a| a.as_str()).collect();
            Invalid::new(
                "message",
                format!("'{text}' is not one of {}", names.join(", ")),
            )
        })
    }
}

/// The action that a message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run the handler (again).
    Run,
    /// Sleep until a time.
    Sleep {
        /// When to wake.
        until: Wake,
    },
    /// Wait for a command.
    Pause,
    /// Release the claim; another node (or this one) continues.
    Release,
    /// Persist data and continue.
    Checkpoint,
    /// Fail the attempt.
    Error {
        /// The error text, kept in the task's error log.
        error: String,
        /// Whether the retry policy decides what follows. Otherwise the task fails at once.
        retryable: bool,
    },
    /// Complete the task.
    Complete {
        /// The result of the task.
        result: Option<Json>,
    },
    /// End the task for good.
    Kill,
}

impl Action {
    /// Returns the name of the action.
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Run => ActionKind::Run,
            Self::Sleep { .. } => ActionKind::Sleep,
            Self::Pause => ActionKind::Pause,
            Self::Release => ActionKind::Release,
            Self::Checkpoint => ActionKind::Checkpoint,
            Self::Error { .. } => ActionKind::Error,
            Self::Complete { .. } => ActionKind::Complete,
            Self::Kill => ActionKind::Kill,
        }
    }
}
