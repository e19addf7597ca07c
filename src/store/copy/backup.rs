//! [`Backup`]: what a backup has written.

use jiff::Timestamp;
use serde::Serialize;

/// A backup of a store that was written to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Backup {
    /// The size of the file in bytes.
    pub bytes: u64,
    /// When the backup began: it has every write that was acknowledged before.
    pub at: Timestamp,
}

impl Backup {
    /// Returns a backup of this size that began at this time.
    pub fn new(bytes: u64, at: Timestamp) -> Self {
        Self { bytes, at }
    }
}
