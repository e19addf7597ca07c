//! Deletes a task with all its keys, in one write.

use windlass_statemachine::{Author, Delete, TaskId};

use crate::store::{
    Error,
    etcd::{
        edits::{Edits, Leftover},
        schema::Snapshot,
        write::{Edit, Item, Tries, Wrote},
    },
    rules,
};

const OPERATION: &str = "delete a task";

/// Deletes tasks. Clones share their state.
#[derive(Clone)]
pub(crate) struct Deletes {
    pub(crate) edits: Edits,
}

impl Deletes {
    /// Deletes a task on behalf of an author: the history of the namespace has a line of it.
    pub(crate) async fn delete(&self, delete: &Delete, by: Option<&Author>) -> Result<(), Error> {
        let id = &delete.task;
        let allowed = |found: &Snapshot| {
            let held = rules::delete::Held {
                is_claimed: found.owner.is_some(),
                is_lost: found.is_lost(),
            };
            rules::delete::check(delete, held).map(|()| true)
        };
        match self.delete_as(id, allowed, (delete.force, Some(by))).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::no_task(id)),
            Err(error) => Err(error),
        }
    }

    /// Deletes a task if it exists and matches. Returns whether it did.
    pub(crate) async fn delete_if(
        &self,
        id: &TaskId,
        matches: impl Fn(&Snapshot) -> bool,
    ) -> Result<bool, Error> {
        self.delete_as(id, |found| Ok(matches(found)), (true, None))
            .await
    }

    async fn delete_as(
        &self,
        id: &TaskId,
        matches: impl Fn(&Snapshot) -> Result<bool, Error>,
        (force, noted): (bool, Option<Option<&Author>>),
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
            if !matches(&found)? {
                return Ok(false);
            }
            let mut item = Item::of(id);
            let pointers = parts.clearing.pointers_at_once();
            left = parts
                .delete(&mut item, id, &found, (pointers, force))
                .await?;
            if let Some(by) = noted {
                item = item.by(by);
                let mut edit = Edit::new(access.keys(), id, &mut item);
                edit.note_deleted(&found, access.now())?;
            }
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
