//! Handles lines whose ids existing tasks have: decides which of these run again, and follows the
//! others.

use std::collections::HashSet;

use futures::{StreamExt, stream};
use windlass::{
    StateKind, Task, TaskId,
    store::{Error, IfExists, TaskRecord},
};

use super::{
    again::different_options,
    batch::Batch,
    changed::Ended,
    entry::{BATCH, Entry},
    live::Live,
    same_work::is_same_work,
    tally::Failed,
};
use crate::{exit::Failure, hint::option};

/// How many tasks are read at a time.
const READS: usize = 32;

/// A line with its task.
pub(super) type Numbering = (u64, Entry);

/// A line with its task, and what the store has under the id of the task.
pub(super) type Met = (u64, Entry, Result<TaskRecord, Error>);

impl Batch {
    /// Reads the tasks with these ids, and follows live ones or counts ended ones. Returns the
    /// tasks that run again as replacements of ended ones; none unless `replaces`.
    pub(super) async fn meet(
        &mut self,
        known: Vec<Numbering>,
        replaces: bool,
    ) -> Result<Vec<Numbering>, Failure> {
        let batch = &*self;
        let reads = known.into_iter().map(|(line, entry)| async move {
            let record = batch.read(&entry.submit.task.id).await;
            (line, entry, record)
        });
        let read: Vec<Met> = stream::iter(reads).buffered(READS).collect().await;
        self.adopt_named(&read).await?;
        let (mut outdated, mut ids) = (Vec::new(), HashSet::new());
        let mut equal = Vec::new();
        for (line, mut entry, record) in read {
            let (record, id) = (record?, entry.submit.task.id.clone());
            if ids.contains(&id) {
                // An equal line follows the replacement.
                equal.push((line, entry));
            } else if replaces && self.is_outdated(&entry, &record) {
                self.takes_options(line, &entry, &record);
                entry.submit.if_exists = IfExists::ReplaceFinished;
                if !entry.derived {
                    self.before.ended(&id, None);
                }
                ids.insert(id);
                outdated.push((line, entry));
            } else if replaces
                && (self.began_too_early(&entry, &record)
                    || self.waits_with_other_options(&entry, &record))
            {
                let delete = || self.client.force_delete(&id);
                match self.report.screen().ask(self.patience, delete).await {
                    Ok(()) | Err(Error::NotFound { .. }) => {}
                    Err(e) => return Err(e.into()),
                }
                if !entry.derived {
                    self.before.ended(&id, None);
                }
                ids.insert(id);
                outdated.push((line, entry));
            } else {
                self.met(line, &entry, record).await?;
                self.forget(&id);
            }
        }
        outdated.extend(equal);
        Ok(outdated)
    }

    /// Handles a task of an earlier run, or of an earlier line.
    async fn met(&mut self, line: u64, entry: &Entry, record: TaskRecord) -> Result<(), Failure> {
        let (id, kind) = (record.task.id.clone(), record.task.kind.clone());
        let code = record.state.as_ref().map(windlass::TaskState::code).ok();
        let batch = record.task.labels.get(BATCH);
        let is_own = !entry.has_stand_in;
        let in_batch = batch == Some(&self.name);
        // A completed task stays completed, wherever it ran. It runs again only as a task of this
        // batch.
        if is_own && !in_batch && (code != Some(StateKind::Completed) || self.settings.again) {
            let reason = match batch {
                Some(other) => {
                    let batch = option("--batch", other);
                    format!(
                        "task '{id}' belongs to batch '{other}'; to continue that batch, add {batch}"
                    )
                }
                None => format!("task '{id}' was not submitted by run; {}", self.room(&id)),
            };
            self.refuse(line, &id, &reason);
            return Ok(());
        }
        // A derived id identifies the work.
        if is_own && !entry.derived && !is_same_work(&entry.submit.task, &record.task) {
            let is_earlier = record.submitted_at < self.started;
            let reason = match code.is_some_and(StateKind::is_terminal) && is_earlier {
                true => (self.changed).reason(line, &Ended::of(&record, &self.name)),
                false => other_work(&id),
            };
            self.refuse(line, &id, &reason);
            return Ok(());
        }
        if is_own && !entry.derived {
            self.before.accepted(&id);
            self.compare_options(line, &record, &entry.submit.task);
        }
        if let Ok(state) = &record.state
            && state.code().is_terminal()
            && !entry.derived
        {
            self.before.ended(&id, Some(state.since));
        }
        let starts_again = self.settings.retry_failed && in_batch;
        let state = match &record.state {
            Ok(state) => state,
            Err(_) if starts_again => return self.start_again(line, &record.task).await,
            Err(e) => {
                self.before.failed(&id);
                self.report.failed(Failed::quarantined(&id, e), 1, true);
                return Ok(());
            }
        };
        let earlier = state.since < self.started;
        match state.code() {
            StateKind::Completed => self.report.completed_before(&record, earlier),
            StateKind::Failed | StateKind::Killed if starts_again && earlier => {
                self.start_again(line, &record.task).await?;
            }
            StateKind::Failed | StateKind::Killed => {
                self.before.failed(&id);
                self.report.failed(Failed::of(&id, state), 1, earlier);
            }
            code => {
                if is_own {
                    self.keeps_options(line, entry, &record);
                }
                let live = Live::new(code, record.node.is_some(), kind).behind(&record.task);
                self.follow(
                    line,
                    id,
                    live.waiting(state.is_waiting())
                        .awaiting(state.awaits_signal().is_some()),
                );
            }
        }
        Ok(())
    }

    /// Reports a line that equals an earlier one except for its labels, priority or retry policy: the
    /// task has those of the earlier line.
    fn compare_options(&mut self, line: u64, record: &TaskRecord, task: &Task) {
        if record.submitted_at < self.started {
            return;
        }
        let options = different_options(task, &record.task);
        if options.is_empty() {
            return;
        }
        let first = match self.live.get(&record.task.id) {
            Some(live) => format!("line {}", live.first),
            None => "an earlier line".to_owned(),
        };
        self.report.other_options(format!(
            "note: line {line}: equals {first} but for {}: the task '{}' has those of {first}; give the line an \
             id of its own to run it as another task",
            options.join(", "),
            record.task.id
        ));
    }

    async fn start_again(&mut self, line: u64, task: &Task) -> Result<(), Failure> {
        let (id, kind) = (task.id.clone(), task.kind.clone());
        self.named.allow(&id);
        self.before.ended(&id, None);
        let retry = || self.client.retry(&id);
        match self.report.screen().ask(self.patience, retry).await {
            // Another process was faster, or our answer was lost: the task is live again.
            Ok(()) | Err(Error::Invalid(_)) => {
                self.adopt(&[task]).await?;
                let live = Live::new(StateKind::Runnable, false, kind).behind(task);
                self.follow(line, id, live);
            }
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
}

/// Returns why a line is refused whose id belongs to other work.
pub(super) fn other_work(id: &TaskId) -> String {
    format!(
        "id '{id}' is also that of an earlier line, with another kind or other props; give it an id of its \
         own"
    )
}
