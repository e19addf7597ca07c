//! Deletes a task with all its keys, in one write.

use windlass_statemachine::TaskId;

use super::clear::{Clearing, Leftover};
use crate::store::{
    Error,
    etcd::{
        schema::{Of, Snapshot},
        write::{Edit, Item, Tries, Wrote},
    },
};

const OPERATION: &str = "delete a task";

/// Deletes tasks. Clones share their state.
#[derive(Clone)]
pub(crate) struct Deletes {
    pub(crate) clearing: Clearing,
}

impl Deletes {
    pub(crate) async fn delete(&self, id: &TaskId) -> Result<(), Error> {
        match self.delete_if(id, |_| true).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::no_task(id)),
            Err(error) => Err(error),
        }
    }

    /// Adds the deletion of a task, if it is as found, with as many `pointers` to its commands.
    /// Returns the others.
    pub(crate) async fn add(
        &self,
        item: &mut Item,
        id: &TaskId,
        found: &Snapshot,
        pointers: usize,
    ) -> Result<Leftover, Error> {
        let mut edit = Edit::new(self.clearing.access.keys(), id, item);
        edit.when_as_found(found, &[Of::Task]);
        edit.delete(Of::Parked);
        edit.delete(Of::TaskState);
        self.clearing.clear(item, id, found, pointers).await
    }

    /// Deletes a task if it exists and matches. Returns whether it did.
    pub(crate) async fn delete_if(
        &self,
        id: &TaskId,
        matches: impl Fn(&Snapshot) -> bool,
    ) -> Result<bool, Error> {
        let access = &self.clearing.access;
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
            let pointers = self.clearing.pointers_at_once();
            left = self.add(&mut item, id, &found, pointers).await?;
            match tries.write(item).await? {
                Wrote::At(_) => break true,
                Wrote::Nothing => {}
                Wrote::Unknown => may_be_deleted = true,
            }
        };
        self.clearing.drop_pointers(id, left).await;
        Ok(deleted)
    }
}
