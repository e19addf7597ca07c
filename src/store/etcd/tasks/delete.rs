//! Deletes tasks that match when they are read again, for purges and retention.

use windlass_statemachine::TaskId;

use crate::store::{
    Error,
    etcd::{
        edits::{Edits, Leftover},
        schema::Snapshot,
        write::{Item, Tries, Wrote},
    },
};

const OPERATION: &str = "delete a task";

/// Deletes tasks.
pub(crate) struct Deletes {
    pub(crate) edits: Edits,
}

impl Deletes {
    /// Deletes a task with all its keys, in one write, if it exists and matches. Returns whether it did.
    pub(crate) async fn delete_if(
        &self,
        id: &TaskId,
        matches: impl Fn(&Snapshot) -> bool,
    ) -> Result<bool, Error> {
        let (parts, access) = (&self.edits, self.edits.access());
        let mut tries = Tries::new(&access.pipeline, OPERATION);
        let mut left = Leftover::default();
        let mut may_be_deleted = false;
        let deleted = loop {
            let found = access.reader.found(id, OPERATION).await?;
            if !found.exists() {
                break may_be_deleted;
            }
            if !matches(&found) {
                return Ok(false);
            }
            let mut item = Item::of(id);
            let pointers = parts.clearing.pointers_at_once();
            left = parts
                .delete(&mut item, id, &found, (pointers, true))
                .await?;
            match tries.write(item).await? {
                Wrote::At(_) => break true,
                Wrote::Nothing => {}
                Wrote::Unknown => may_be_deleted = true,
            }
        };
        parts.clearing.drop_pointers(id, left).await;
        Ok(deleted)
    }
}
