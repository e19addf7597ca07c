//! Refuses lines that wait for a task which was never submitted: their wait would end at once.

use windlass::{Client, Task, TaskId, store::Error};

use super::{
    batch::Batch,
    existing::Numbering,
    source::{Checked, REPORTED_LINES, nothing_run},
};
use crate::{exit::Failure, output::Output};

/// Why a task that a line waits for was never submitted.
enum Never {
    /// Its line was refused, with a separate error.
    Refused,
    /// It is neither an earlier line nor a task. Holds the error.
    Unknown(String),
}

impl Batch {
    /// Refuses lines that wait for a refused line, or for an id that is neither an earlier line nor
    /// a task.
    pub(super) async fn with_tasks_to_wait_for(
        &mut self,
        entries: Vec<Numbering>,
    ) -> Result<Vec<Numbering>, Failure> {
        let mut accepted = Vec::with_capacity(entries.len());
        for (line, entry) in entries {
            let task = &entry.submit.task;
            match self.never_submitted(task).await? {
                Some(Never::Refused) => {
                    self.before.refused(&task.id);
                    self.report.behind_refused(line);
                }
                Some(Never::Unknown(reason)) => self.refuse(line, &task.id, &reason),
                None => accepted.push((line, entry)),
            }
        }
        Ok(accepted)
    }

    /// Returns why a task would wait for one that was never submitted.
    async fn never_submitted(&mut self, task: &Task) -> Result<Option<Never>, Failure> {
        let Some(waits) = task.waits.as_deref() else {
            return Ok(None);
        };
        let field = if waits.ok { "after_ok" } else { "after" };
        for id in &waits.tasks {
            if self.before.is_refused(id) {
                return Ok(Some(Never::Refused));
            }
            if self.before.exists(id) {
                continue;
            }
            match self.is_there(id).await? {
                true => self.before.found(id),
                // The task was pruned after the task of the line had been submitted.
                false if self.is_there(&task.id).await? => {}
                false => return Ok(Some(Never::Unknown(unknown(field, id)))),
            }
        }
        Ok(None)
    }

    /// Returns whether the store has a task of this id, readable or not.
    async fn is_there(&self, id: &TaskId) -> Result<bool, Failure> {
        match self.read(id).await {
            Ok(_) | Err(Error::Corrupt { .. }) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

fn unknown(field: &str, id: &TaskId) -> String {
    format!(
        "{field}: names '{id}', which is neither an earlier line nor a task of this store; correct the name, or put the line \
         of that task first"
    )
}

/// Refuses an input with lines that wait for an id that is neither a line nor a task, before
/// anything runs.
pub(super) async fn check_names(
    client: &Client,
    (name, checked): (&str, &Checked),
    out: &Output,
) -> Result<(), Failure> {
    let is_there = async |id: &TaskId| match client.get(id).await {
        Ok(_) | Err(Error::Corrupt { .. }) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(e) => Err(Failure::from(e)),
    };
    let mut wrong = 0;
    for (id, line, task) in &checked.unknown {
        // The task that a line waits for may have been pruned since its submit.
        if is_there(id).await? || is_there(task).await? {
            continue;
        }
        wrong += 1;
        if wrong <= REPORTED_LINES {
            let reason = unknown("after", id);
            out.complain(format_args!("{name}: line {line}: {reason}"));
        }
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(nothing_run(name, wrong, checked.lines.unwrap_or(wrong))),
    }
}
