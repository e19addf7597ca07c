//! [`AuditEntry`]: the lines of the history of a namespace.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use windlass_statemachine::{Author, Kind, NodeName, StateKind, TaskId};

use super::{node::NodeCommand, value::SetValue};

/// How long a store keeps the history of a namespace: 90 days.
pub const AUDIT_RETENTION: SignedDuration = SignedDuration::from_hours(90 * 24);

/// One line of the history of a namespace: a change after which no task remains that could record
/// it.
///
/// Its JSON form:
///
/// ```
/// use windlass::store::{AuditAction, AuditEntry};
///
/// let what = AuditAction::Deleted { task: "old".parse()?, kind: Some("report".parse()?) };
/// let mut entry = AuditEntry::new("2030-01-01T00:00:00Z".parse().unwrap(), what);
/// entry.by = Some("alice".parse()?);
/// assert_eq!(
///     serde_json::to_string(&entry).unwrap(),
///     r#"{"at":"2030-01-01T00:00:00Z","by":"alice","what":"deleted","task":"old","kind":"report"}"#,
/// );
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AuditEntry {
    /// When it happened, by the clock of the process that wrote the line.
    pub at: Timestamp,
    /// Who did it, if the process named an author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
    /// What happened.
    #[serde(flatten)]
    pub what: AuditAction,
}

impl AuditEntry {
    /// Returns an entry without an author.
    pub fn new(at: Timestamp, what: AuditAction) -> Self {
        Self { at, by: None, what }
    }
}

/// What happened to a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AuditAction {
    /// A task was deleted.
    Deleted {
        /// The task.
        task: TaskId,
        /// Its kind; `None` when it could not be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<Kind>,
    },
    /// Ended tasks were deleted by their state and age.
    Purged {
        /// The states.
        states: Vec<StateKind>,
        /// The time before which they had ended.
        before: Timestamp,
        /// How many were deleted.
        tasks: u64,
    },
    /// A command was sent to a node.
    NodeCommanded {
        /// Which node.
        node: NodeName,
        /// The command, in its JSON form.
        send: NodeCommand,
    },
    /// A [named value](super::NamedValue) was set.
    ValueSet {
        /// Its name.
        name: String,
    },
    /// A [named value](super::NamedValue) was deleted.
    ValueDeleted {
        /// Its name.
        name: String,
    },
}

impl AuditAction {
    /// Returns the action of a named value that is set or deleted.
    pub(crate) fn of_value(change: &SetValue) -> Self {
        let name = change.name.clone();
        match change.text {
            Some(_) => Self::ValueSet { name },
            None => Self::ValueDeleted { name },
        }
    }
}

/// Selects ended tasks to delete, and names the author.
///
/// # Example
///
/// ```
/// use windlass::{StateKind, store::Purge};
///
/// let month_ago = "2030-01-01T00:00:00Z".parse().unwrap();
/// let purge = Purge::new([StateKind::Completed], month_ago).limit(100);
/// assert_eq!(purge.limit, 100);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purge {
    /// The states in which they ended. States that are not terminal select no task.
    pub states: Vec<StateKind>,
    /// The time before which they ended.
    pub before: Timestamp,
    /// The most tasks to delete; 1,000 by default.
    pub limit: u32,
    /// The author; `None` by default.
    pub by: Option<Author>,
}

impl Purge {
    /// Returns the purge of tasks that ended in one of these states before this time.
    pub fn new(states: impl Into<Vec<StateKind>>, before: Timestamp) -> Self {
        Self {
            states: states.into(),
            before,
            limit: 1000,
            by: None,
        }
    }

    /// Sets the most tasks to delete.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the author.
    #[must_use]
    pub fn by(mut self, author: impl Into<Option<Author>>) -> Self {
        self.by = author.into();
        self
    }

    /// Returns the line for the history of the namespace after this many tasks were deleted; `None` for zero.
    pub(crate) fn entry(&self, tasks: u64, at: Timestamp) -> Option<AuditEntry> {
        (tasks > 0).then(|| AuditEntry {
            at,
            by: self.by.clone(),
            what: AuditAction::Purged {
                states: self.states.clone(),
                before: self.before,
                tasks,
            },
        })
    }
}
