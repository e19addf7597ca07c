//! [`Copied`]: the mark in a store that was copied.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The mark in a store whose tasks were copied into another store, which runs them now.
///
/// # Guarantees
///
/// A store with the mark accepts no submits, commands, retries, reschedules, imports and new nodes, so that
/// no task runs in both stores. Tasks can still be read, exported and deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Copied {
    /// The URL of the other store, without a password.
    pub to: String,
    /// When the copy was complete.
    pub at: Timestamp,
}

impl Copied {
    /// Returns the mark of a copy to this URL that was complete at this time.
    pub fn new(to: impl Into<String>, at: Timestamp) -> Self {
        Self { to: to.into(), at }
    }
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.strftime("%Y-%m-%dT%H:%M:%SZ");
        write!(f, "copied to '{}' at {at}", self.to)
    }
}
