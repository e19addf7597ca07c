//! Lines that an older version stored as tasks of the kind `exec`: a repeated run makes them lines of a run.
//!
//! Every worker takes tasks of the kind `exec`. Those that a line names and that no node has claimed get the kind of lines, so
//! that only runs of their batch take them from here on. A run still takes the others: those that a worker has claimed may
//! be released by it, and ended ones may be retried. A task that no line names keeps its kind: another program may have
//! submitted it with the label of the batch.

use std::collections::BTreeSet;

use windlass::{
    Kind, Task, TaskId,
    store::{Error, Filter, Page, Reschedule, TaskRecord},
};

use super::{
    batch::Batch,
    entry::{BATCH, Entry},
    existing::Met,
    same_work::{is_of_older_version, is_same_work},
};
use crate::exit::Failure;

/// Returns whether a line continues the task of this record: a live one of its batch, with the work of the line.
fn continues(entry: &Entry, record: &TaskRecord) -> bool {
    let task = &entry.submit.task;
    let is_live = (record.state.as_ref()).is_ok_and(|state| !state.code().is_terminal());
    let in_batch = record.task.labels.get(BATCH) == task.labels.get(BATCH);
    // A derived id identifies the work.
    let is_line = entry.derived && !entry.has_stand_in && task.id == record.task.id;
    is_live && in_batch && (is_line || is_same_work(task, &record.task))
}

impl Batch {
    /// Makes the unclaimed tasks that these lines continue lines of a run.
    pub(super) async fn adopt_named(&self, read: &[Met]) -> Result<(), Error> {
        let records = read.iter().filter_map(|(_, entry, record)| {
            let record = record.as_ref().ok()?;
            continues(entry, record).then_some(&record.task)
        });
        self.adopt(&records.collect::<Vec<_>>()).await
    }

    /// Makes the unclaimed ones of these tasks lines of a run.
    pub(super) async fn adopt(&self, tasks: &[&Task]) -> Result<(), Error> {
        let old = tasks.iter().filter(|task| is_of_older_version(task));
        // Equal lines have one task.
        let ids: BTreeSet<TaskId> = old.map(|task| task.id.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let kind: Kind = Kind::RUN_LINE.parse()?;
        let change = |id: &TaskId| Reschedule::new(id.clone()).kind(kind.clone());
        let adopt = || {
            let changes = self
                .client
                .reschedule_many(ids.iter().map(change).collect());
            async move {
                let errors = changes.await.into_iter().filter_map(Result::err);
                // A task that a node has claimed, that has ended, or whose record cannot be read keeps its kind.
                match errors.into_iter().find(Error::is_retryable) {
                    Some(error) => Err(error),
                    None => Ok(()),
                }
            }
        };
        self.report.screen().ask(self.patience, adopt).await
    }

    /// Returns whether the store has a task of this batch that an older version has stored, in any state.
    pub(super) async fn has_lines_of_older_version(&self) -> Result<bool, Failure> {
        let filter = Filter::new()
            .kind(Kind::COMMAND.parse()?)
            .labels([(BATCH.to_owned(), Some(self.name.clone()))]);
        let list = || self.client.list(&filter, Page::new(1));
        let listed = self.report.screen().ask(self.patience, list).await?;
        Ok(!listed.is_empty())
    }

    /// Returns whether another task is the same command as a line: the line as an older version has stored it, or a command
    /// that another program has submitted.
    pub(super) async fn is_same_command(
        &self,
        line: &Task,
        other: &TaskId,
    ) -> Result<bool, Failure> {
        if !line.kind.is_command() {
            return Ok(false);
        }
        match self.read(other).await {
            Ok(record) => Ok(is_same_work(line, &record.task)),
            Err(Error::NotFound { .. } | Error::Corrupt { .. }) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
