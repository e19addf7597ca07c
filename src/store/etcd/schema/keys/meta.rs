//! The keys of a namespace that belong to no task.

use jiff::Timestamp;
use windlass_statemachine::TransactionId;

use super::Keys;

/// The folder of the lines of the namespace's history.
pub(super) const AUDIT: &str = "meta/audit/";

/// The folder of the revisions that exports read.
pub(super) const MOMENT: &str = "meta/moments/";

/// The folder of the named values.
pub(super) const VALUE: &str = "meta/value/";

impl Keys {
    /// Returns a key on the lease to which the next records of transactions are attached.
    pub(crate) fn transactions(&self) -> String {
        format!("{}meta/transactions", self.root)
    }

    /// Returns the key of the record of an applied transaction.
    pub(crate) fn transaction(&self, id: &TransactionId) -> String {
        format!("{}meta/transactions/{id}", self.root)
    }

    /// Returns the prefix of the keys of exports.
    pub(crate) fn moments(&self) -> String {
        format!("{}{MOMENT}", self.root)
    }

    /// Returns a new key of an export. The revision that creates it is the one that the export reads.
    pub(crate) fn moment(&self) -> String {
        format!("{}{}", self.moments(), crate::unique_id::new())
    }

    /// Returns the prefix of the history of the namespace.
    pub(crate) fn all_audit(&self) -> String {
        format!("{}{AUDIT}", self.root)
    }

    /// Returns the key of a new line of the namespace's history: a UUIDv7, which sorts by time.
    pub(crate) fn audit(&self) -> String {
        format!("{}{}", self.all_audit(), crate::unique_id::new())
    }

    /// Returns the end of the range of lines of the namespace's history from before a time.
    pub(crate) fn audit_before(&self, time: Timestamp) -> String {
        let ms = u64::try_from(time.as_millisecond()).unwrap_or(0);
        format!("{}{:08x}-{:04x}", self.all_audit(), ms >> 16, ms & 0xffff)
    }

    /// Returns the prefix of the named values.
    pub(crate) fn values(&self) -> String {
        format!("{}{VALUE}", self.root)
    }

    /// Returns the prefix of the records of unique keys.
    pub(crate) fn all_unique(&self) -> String {
        format!("{}meta/unique/", self.root)
    }

    /// Returns the key of the record of a unique key.
    pub(crate) fn unique(&self, key: &str) -> String {
        format!("{}meta/unique/{key}", self.root)
    }
}
