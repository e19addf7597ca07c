//! [`Known`]: the tasks of a step of a list, as far as the index knows them.

use windlass_statemachine::TaskId;

use super::entry::Entry;
use crate::store::{
    Error, TaskRecord,
    etcd::{
        read::KeySet,
        schema::{Fences, Snapshot},
    },
};

/// Tasks at one revision.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) tasks: Vec<KnownTask>,
    /// The revision at which they are so.
    pub(crate) at: i64,
}

/// A task, as far as the index knows it.
#[derive(Debug)]
pub(crate) struct KnownTask {
    pub(crate) id: TaskId,
    /// The keys that a list has to read.
    pub(crate) missing: KeySet,
    found: Snapshot,
    commands: u64,
}

impl KnownTask {
    pub(super) fn of(id: &TaskId, entry: &Entry, without_props: bool) -> Self {
        let (found, missing) = entry.snapshot(without_props);
        Self {
            id: id.clone(),
            missing,
            found,
            commands: entry.commands(),
        }
    }

    /// Returns the record of the task, with its missing keys as read at the revision of the index.
    pub(crate) fn record(
        mut self,
        read: Option<Snapshot>,
        fences: &Fences,
    ) -> Result<TaskRecord, Error> {
        if let Some(read) = read {
            self.found.merge(read);
        }
        self.found.fences = fences.clone();
        Ok(TaskRecord {
            commands: self.commands,
            ..self.found.record(&self.id)?
        })
    }
}
