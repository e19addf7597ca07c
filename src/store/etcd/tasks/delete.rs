//! How a task goes: all that it has, in one write.

use windlass_statemachine::TaskId;

use super::clear::{Clearing, Leftover};
use crate::store::{
    Error,
    etcd::{
        schema::{Of, Snapshot},
        write::{Change, Edit, Item, Step},
    },
};

/// Deletes tasks. Clones are the same.
#[derive(Clone)]
pub(crate) struct Deletes {
    pub(crate) clearing: Clearing,
}

impl Deletes {
    pub(crate) fn new(clearing: Clearing) -> Self {
        Self { clearing }
    }

    pub(crate) async fn delete(&self, id: &TaskId) -> Result<(), Error> {
        match self.delete_if(id, |_| true).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::no_task(id)),
            Err(error) => Err(error),
        }
    }

    /// Deletes a task if it is there and as it is meant to be; answers whether it did.
    pub(crate) async fn delete_if(
        &self,
        id: &TaskId,
        is_meant: impl Fn(&Snapshot) -> bool + Send,
    ) -> Result<bool, Error> {
        let mut deletion = Deletion {
            clearing: &self.clearing,
            id,
            is_meant,
            tried: false,
            left: Leftover::default(),
        };
        let deleted = self.clearing.access.pipeline.attempt(&mut deletion).await?;
        self.clearing.drop_pointers(id, deletion.left).await;
        Ok(deleted)
    }
}

struct Deletion<'a, F> {
    clearing: &'a Clearing,
    id: &'a TaskId,
    is_meant: F,
    /// A try without an answer may have been the one.
    tried: bool,
    left: Leftover,
}

impl<F: Fn(&Snapshot) -> bool + Send> Change for Deletion<'_, F> {
    type Found = Snapshot;
    type Output = bool;
    const OPERATION: &'static str = "delete a task";

    async fn read(&mut self) -> Result<Snapshot, Error> {
        self.clearing
            .access
            .reader
            .found(self.id, Self::OPERATION)
            .await
    }

    fn already_done(&mut self, found: &Snapshot) -> Option<bool> {
        (!found.exists()).then_some(self.tried)
    }

    async fn build(&mut self, found: Snapshot) -> Result<Step<bool>, Error> {
        self.left = Leftover::default();
        if !(self.is_meant)(&found) {
            return Ok(Step::Done(false));
        }
        let mut item = Item::of(self.id);
        let mut edit = Edit::new(self.clearing.access.keys(), self.id, &mut item);
        edit.when_as_found(&found, &[Of::Task]);
        edit.delete(Of::Parked);
        edit.delete(Of::TaskState);
        self.left = self.clearing.clear(&mut item, self.id, &found).await?;
        Ok(Step::Write(item))
    }

    fn written(&mut self, _: i64) -> Option<bool> {
        Some(true)
    }

    fn lost(&mut self) {
        self.tried = true;
    }
}
