//! [`Copied`]: the mark in a store that was copied, and in a backup.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The mark in a store whose tasks another store runs: it was copied into that store, or is a backup of it.
///
/// # Guarantees
///
/// A store with the mark accepts no submits, commands, retries, reschedules, imports and new nodes, so that
/// no task runs in both stores. Tasks can still be read, exported and deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Copied {
    /// The URL of the other store, without a password. Of a backup, the URL of the store that was backed up.
    pub to: String,
    /// When the copy was complete, or the backup began.
    pub at: Timestamp,
    /// Whether this store is a backup ([`Transfer::backup`](crate::store::Transfer::backup)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_backup: bool,
}

impl Copied {
    /// Returns the mark of a copy to this URL that was complete at this time.
    pub fn new(to: impl Into<String>, at: Timestamp) -> Self {
        let (to, is_backup) = (to.into(), false);
        Self { to, at, is_backup }
    }

    /// Returns the mark of a backup of the store with this URL that began at this time.
    pub fn backup_of(url: impl Into<String>, at: Timestamp) -> Self {
        let (to, is_backup) = (url.into(), true);
        Self { to, at, is_backup }
    }
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.strftime("%Y-%m-%dT%H:%M:%SZ");
        match self.is_backup {
            false => write!(f, "copied to '{}' at {at}", self.to),
            true => write!(f, "made as a backup of '{}' at {at}", self.to),
        }
    }
}
