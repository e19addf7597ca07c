//! Refuses lines that wait for a task which was never submitted: their wait would end at once.

use windlass::{Task, TaskId, store::Error};

use super::{batch::Batch, submitting::Numbering};
use crate::exit::Failure;

impl Batch {
    /// Refuses lines that wait for a refused line, or for what is no earlier line and no task.
    pub(super) async fn with_tasks_to_wait_for(
        &mut self,
        entries: Vec<Numbering>,
    ) -> Result<Vec<Numbering>, Failure> {
        let mut accepted = Vec::with_capacity(entries.len());
        for (line, entry) in entries {
            match self.never_submitted(&entry.submit.task).await? {
                Some(reason) => self.refuse(line, &entry.submit.task.id, &reason),
                None => accepted.push((line, entry)),
            }
        }
        Ok(accepted)
    }

    /// Returns why a task would wait for one that was never submitted.
    async fn never_submitted(&mut self, task: &Task) -> Result<Option<String>, Failure> {
        let Some(waits) = task.waits.as_deref() else {
            return Ok(None);
        };
        let field = if waits.ok { "after_ok" } else { "after" };
        for id in &waits.tasks {
            if let Some(refused) = self.before.refused_at(id) {
                return Ok(Some(format!(
                    "{field}: names '{id}', which line {refused} could not submit; correct that line, and run the \
                     list again"
                )));
            }
            if self.before.exists(id) {
                continue;
            }
            match self.is_there(id).await? {
                true => self.before.found(id),
                // It was pruned after the task of the line had been submitted.
                false if self.is_there(&task.id).await? => {}
                false => {
                    return Ok(Some(format!(
                        "{field}: names '{id}', which is no earlier line and no task of this store; correct the \
                         name, or put the line of that task first"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Whether the store has a task of this id, readable or not.
    async fn is_there(&self, id: &TaskId) -> Result<bool, Failure> {
        match self.read(id).await {
            Ok(_) | Err(Error::Corrupt { .. }) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
