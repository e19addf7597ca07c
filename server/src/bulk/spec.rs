//! [`Spec`]: what a bulk operation does.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{Author, Invalid, Note};

use super::filter::BulkFilter;

/// What a bulk operation does to each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BulkAction {
    /// Pauses it.
    Pause,
    /// Runs it, if it is paused or sleeps.
    Resume,
    /// Releases its claim.
    Release,
    /// Ends it as completed.
    Complete,
    /// Ends it as killed.
    Kill,
    /// Starts it again, if it has ended.
    Retry,
    /// Deletes it, if no node has claimed it.
    Delete,
}

impl BulkAction {
    /// Every action.
    pub const ALL: [Self; 7] = [
        Self::Pause,
        Self::Resume,
        Self::Release,
        Self::Complete,
        Self::Kill,
        Self::Retry,
        Self::Delete,
    ];

    /// Returns the name of the action, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Release => "release",
            Self::Complete => "complete",
            Self::Kill => "kill",
            Self::Retry => "retry",
            Self::Delete => "delete",
        }
    }

    /// Refuses a note for an action that sends no command, because nothing would keep it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `note`) for [`Retry`](Self::Retry) and [`Delete`](Self::Delete).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::Note;
    /// use windlass_server::bulk::BulkAction;
    ///
    /// let note = Note::new("the database moves")?;
    /// assert!(BulkAction::Pause.check_note(Some(&note)).is_ok());
    /// assert_eq!(BulkAction::Retry.check_note(Some(&note)).unwrap_err().field(), "note");
    /// # Ok::<(), windlass::Invalid>(())
    /// ```
    pub fn check_note(self, note: Option<&Note>) -> Result<(), Invalid> {
        match (self, note) {
            (Self::Retry | Self::Delete, Some(_)) => {
                let reason = format!(
                    "is kept with a command, and '{}' sends none; leave it out",
                    self.as_str()
                );
                Err(Invalid::new("note", reason))
            }
            _ => Ok(()),
        }
    }
}

/// The props of a task of the kind [`KIND`](super::KIND).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Spec {
    /// Which tasks.
    pub filter: BulkFilter,
    /// What to do to each.
    pub action: BulkAction,
    /// How many tasks the dry run has counted: the operation changes no more.
    pub tasks: u64,
    /// The time of the dry run.
    pub counted_at: Timestamp,
    /// The newest task at the dry run: tasks that were submitted later are left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_to: Option<Newest>,
    /// The author of the changes.
    pub by: Author,
    /// Why: the note of each command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    /// The token in whose scope the operation stays. It is read again before each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<OfToken>,
}

/// The newest task of a store at one moment, by the order of the submits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Newest {
    /// The identity of the store. Another store gives its tasks other orders.
    pub store: String,
    /// The submit order of the task; 0 for a store without tasks.
    pub order: u64,
}

/// The token with which a bulk operation was started. Another token with the name is another token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OfToken {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub made_at: Timestamp,
}
