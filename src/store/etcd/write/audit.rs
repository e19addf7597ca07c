//! The line of a deletion in the history of the namespace. Pure.

use jiff::Timestamp;

use super::edit::Edit;
use crate::store::{
    AuditAction, AuditEntry, Error,
    etcd::schema::{Snapshot, json::write},
};

impl Edit<'_> {
    /// Adds the line of its deletion to the history of the namespace.
    pub(crate) fn note_deleted(&mut self, found: &Snapshot, now: Timestamp) -> Result<(), Error> {
        let kind = found.envelope().ok().map(|(envelope, _)| envelope.kind);
        let task = self.id.clone();
        let entry = AuditEntry {
            at: now,
            by: self.item.by.clone(),
            what: AuditAction::Deleted { task, kind },
        };
        let key = self.keys.audit();
        self.item
            .put(&key, write("history of the namespace", &entry)?);
        Ok(())
    }
}
