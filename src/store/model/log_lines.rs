//! The lines that handlers log, kept with the attempt.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Fence, Invalid};

/// A line that a handler has logged ([`TaskContext::log`](crate::TaskContext::log)).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// The number of the line among all lines of the task, from 1. Numbers that are left out belong to lines that
    /// are not kept.
    pub number: u64,
    /// The incarnation in which the handler ran.
    pub incarnation: u32,
    /// The attempt in which the handler ran, from 1.
    pub attempt: u32,
    /// When the handler logged the line, in milliseconds.
    pub at: Timestamp,
    /// The text, without a line break.
    pub text: String,
}

/// A line on its way from a handler to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logged {
    /// The number of the line among those of its claim, from 1. A store that is given a number again ignores the
    /// line. Numbers that are left out belong to lines that were dropped.
    pub n: u64,
    /// The incarnation in which the handler runs.
    pub incarnation: u32,
    /// The attempt in which the handler runs, from 1.
    pub attempt: u32,
    /// When the handler logged the line.
    pub at: Timestamp,
    /// The text, without a line break.
    pub text: Arc<str>,
}

impl Logged {
    /// Returns a line of the first attempt of a task.
    pub fn new(n: u64, at: Timestamp, text: impl Into<Arc<str>>) -> Self {
        Self {
            n,
            incarnation: 0,
            attempt: 1,
            at,
            text: text.into(),
        }
    }
}

/// Some lines of one attempt, as a store keeps them. The rules of the store decide which lines are in one part, and
/// which parts are deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LogPart {
    /// The number of the part among all parts of the task, from 0.
    pub part: u64,
    /// The incarnation in which the handler ran.
    pub incarnation: u32,
    /// The attempt in which the handler ran, from 1.
    pub attempt: u32,
    /// The number of the last line of the task before this attempt.
    pub start: u64,
    /// The claim that has written the last line.
    pub fence: Fence,
    /// The number of the last line among the lines of that claim.
    pub seen: u64,
    /// The lines, in order.
    pub lines: Vec<PartLine>,
}

/// A line of a [`LogPart`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartLine {
    /// The number of the line among all lines of the task, from 1.
    pub n: u64,
    /// When the handler logged the line.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

/// The log of a task, as a store keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLog {
    /// The parts that can be read, in order.
    pub parts: Vec<LogPart>,
    /// The parts that cannot be read, in order.
    pub damaged: Vec<DamagedPart>,
}

/// A part of a log that cannot be read. Its lines are lost; those of the other parts are not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedPart {
    /// The number of the part among all parts of the task, from 0.
    pub part: u64,
    /// The incarnation in which the handler ran.
    pub incarnation: u32,
    /// The attempt in which the handler ran, from 1.
    pub attempt: u32,
    /// Why the part cannot be read.
    pub reason: String,
}

/// Selects lines of a task, for [`Client::log_lines`](crate::Client::log_lines).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogQuery {
    /// Only lines of this incarnation.
    pub incarnation: Option<u32>,
    /// Only lines of this attempt.
    pub attempt: Option<u32>,
    /// Only lines after the end of another page.
    pub after: LogCursor,
}

impl LogQuery {
    /// Selects only lines of this incarnation: how often a retry had started the task again.
    #[must_use]
    pub fn incarnation(mut self, incarnation: u32) -> Self {
        self.incarnation = Some(incarnation);
        self
    }

    /// Selects only lines of this attempt, from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// Selects only lines after the end of another page, to follow a log.
    #[must_use]
    pub fn after(mut self, cursor: LogCursor) -> Self {
        self.after = cursor;
        self
    }
}

/// The end of a [`LogPage`]: the position after the last line read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCursor {
    pub(crate) part: u64,
    pub(crate) line: u64,
}

impl std::fmt::Display for LogCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.part, self.line)
    }
}

impl std::str::FromStr for LogCursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parts = text.split_once('-');
        let read = parts.and_then(|(part, line)| {
            let (part, line) = (part.parse().ok()?, line.parse().ok()?);
            Some(Self { part, line })
        });
        let wrong = || format!("'{text}' is not the position that a log has returned");
        read.ok_or_else(|| Invalid::new("after", wrong()))
    }
}

/// The lines of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPage {
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// How many lines are gone from the selected ones: those that the bounds of the log have deleted, and those that
    /// were dropped because the handler logged faster than the store wrote, and those of damaged parts that other lines
    /// follow.
    pub gone: u64,
    /// The parts of the selected attempts that cannot be read. Each page names those from the part of its cursor on.
    pub damaged: Vec<DamagedPart>,
    /// The position after the last line read.
    pub next: LogCursor,
}
