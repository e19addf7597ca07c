//! Submits the tasks of the lines.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use windlass::{
    StateKind, TaskId,
    client::Handle,
    store::{Error, Filter, IfExists, Page},
};

use super::{
    batch::Batch,
    changed::Ended,
    entry::{BATCH, Entry},
    existing::{Numbering, other_work},
    live::Live,
    settings::Settings,
    source::{Numbered, in_order},
};
use crate::{exit::Failure, waiting::PAUSES};

/// The time limit for counting tasks of earlier runs.
const INTRODUCTION: Duration = Duration::from_millis(500);

/// The result of a submit.
enum Answer {
    /// The task is new and followed, or the line is refused.
    Settled,
    /// The id belongs to a task that may be the same.
    Known(Box<Numbering>),
    /// The id or the unique key belongs to a task with other work, as this error says, unless it is a command of the kind of
    /// other commands than lines.
    Other(Box<Entry>, Error),
}

impl Batch {
    /// Prints the store, and how many tasks of the batch it has from earlier runs.
    pub(super) async fn introduce(&self, url: &str) {
        let filter = Filter::new().labels([(BATCH.to_owned(), Some(self.name.clone()))]);
        let (mut known, mut after) = (0, 0);
        let count = async {
            loop {
                let page = Page::new(1000).after(after);
                let records = self.client.list(&filter, page).await.unwrap_or_default();
                let Some(last) = records.last() else { break };
                after = last.order;
                known += records.len();
            }
        };
        let counted = timeout(INTRODUCTION, count).await.is_ok();
        let known = match (known, counted) {
            (0, true) => "no tasks from earlier runs".to_owned(),
            (1, true) => "1 task from earlier runs".to_owned(),
            (known, true) => format!("{known} tasks from earlier runs"),
            (known, false) => format!("more than {known} tasks from earlier runs"),
        };
        let (url, name) = (windlass::store::without_password(url), &self.name);
        let text = format!("store {url}, batch {name}: {known}");
        self.report.screen().note(text);
    }

    /// Submits the tasks of these lines.
    pub(super) async fn submit(&mut self, chunk: Vec<Numbered>) -> Result<(), Failure> {
        let mut entries = Vec::with_capacity(chunk.len());
        for Numbered { line, entry } in chunk {
            let id = entry.as_ref().ok().map(|e| e.submit.task.id.clone());
            match in_order(entry, line, &mut self.order) {
                Ok(entry) => {
                    if self.before.follows(&entry.submit.task) {
                        self.submit_together(std::mem::take(&mut entries)).await?;
                    }
                    entries.push((line, entry));
                }
                Err(reason) => match id {
                    Some(id) => self.refuse(line, &id, &reason),
                    None => self.report.wrong_line(line, &reason),
                },
            }
        }
        self.before.decided();
        self.submit_together(entries).await
    }

    /// Reports a line without a task. Lines that wait for it are not submitted.
    pub(super) fn refuse(&mut self, line: u64, id: &TaskId, reason: &str) {
        self.before.refused(id);
        self.report.wrong_line(line, reason);
    }

    /// Submits tasks that do not wait for each other.
    async fn submit_together(&mut self, mut entries: Vec<Numbering>) -> Result<(), Failure> {
        for (_, entry) in &mut entries {
            self.before.resolve(&mut entry.submit.task);
        }
        let entries = self.with_tasks_to_wait_for(entries).await?;
        let known = self.send(entries).await?;
        let outdated = self.meet(known, true).await?;
        let known = self.send(outdated).await?;
        self.meet(known, false).await?;
        Ok(())
    }

    /// Submits tasks. Returns those whose id belongs to a task that may be the same.
    async fn send(&mut self, mut entries: Vec<Numbering>) -> Result<Vec<Numbering>, Failure> {
        let (mut known, mut others) = (Vec::new(), Vec::new());
        let mut deadline = Instant::now() + self.patience;
        let mut backoff = PAUSES;
        while !entries.is_empty() {
            for (_, entry) in &entries {
                self.named.allow_new(&entry.submit.task.id);
            }
            let tasks = entries.iter().map(|(_, e)| e.submit.clone());
            let answers = self.client.submit_many(tasks).await;
            let failed = answers.iter().find_map(|answer| answer.as_ref().err());
            self.report.screen().answered(failed);
            let mut again = Vec::new();
            for ((line, entry), answer) in entries.into_iter().zip(answers) {
                match answer {
                    // A repeated submit is the same submit.
                    Err(e) if e.is_retryable() => {
                        if Instant::now() > deadline {
                            if !self.report.screen().waits_for_space(self.patience) {
                                return Err(e.into());
                            }
                            deadline = Instant::now() + self.patience;
                        }
                        again.push((line, entry));
                    }
                    answer => match self.submitted(line, entry, answer) {
                        Answer::Settled => {}
                        Answer::Known(entry) => known.push(*entry),
                        Answer::Other(entry, error) => others.push((line, *entry, error)),
                    },
                }
            }
            entries = again;
            if !entries.is_empty() {
                sleep(backoff.pause()).await;
            }
        }
        for (line, mut entry, error) in others {
            let task = &entry.submit.task;
            let other = match &error {
                Error::NotUnique { task, .. } => task.clone(),
                _ => task.id.clone(),
            };
            match self.is_same_command(task, &other).await? {
                true => {
                    self.stand_in(&mut entry, &other);
                    known.push((line, entry));
                }
                false => self.refuse_other(line, &task.id, error).await?,
            }
        }
        Ok(known)
    }

    /// Handles the answer to a submit.
    fn submitted(&mut self, line: u64, mut entry: Entry, answer: Result<Handle, Error>) -> Answer {
        let task = &entry.submit.task;
        let Settings {
            again,
            retry_failed,
            ..
        } = self.settings;
        let replaces = again || retry_failed || entry.submit.if_exists == IfExists::ReplaceFinished;
        let reason = match answer {
            Ok(new) if new.is_new() => {
                let (id, kind) = (task.id.clone(), task.kind.clone());
                if !entry.derived {
                    self.before.accepted(&id);
                    self.before.ended(&id, None);
                }
                let live = match task.waits {
                    Some(_) => Live::new(StateKind::Sleeping, false, kind).waiting(true),
                    None => Live::new(StateKind::Runnable, false, kind),
                };
                let live = live.behind(task);
                self.follow(line, id, live);
                return Answer::Settled;
            }
            Ok(there) => {
                self.stand_in(&mut entry, there.id());
                return Answer::Known(Box::new((line, entry)));
            }
            // The same work with other options: the task stays as it was submitted first.
            Err(Error::AlreadyExists { .. } | Error::AlreadyFinished { .. }) if entry.derived => {
                return Answer::Known(Box::new((line, entry)));
            }
            Err(Error::AlreadyFinished { .. }) if replaces => {
                return Answer::Known(Box::new((line, entry)));
            }
            // The answer to an earlier submit was lost.
            Err(Error::AlreadyExists { .. })
                if entry.submit.if_exists == IfExists::ReplaceFinished =>
            {
                return Answer::Known(Box::new((line, entry)));
            }
            Err(
                e @ (Error::AlreadyExists { .. }
                | Error::AlreadyFinished { .. }
                | Error::NotUnique { .. }),
            ) => return Answer::Other(Box::new(entry), e),
            Err(e) => e.to_string(),
        };
        self.refuse(line, &entry.submit.task.id, &reason);
        self.forget(&entry.submit.task.id);
        Answer::Settled
    }

    /// Follows the task that has the unique key of a line, if that is another one.
    fn stand_in(&mut self, entry: &mut Entry, other: &TaskId) {
        if entry.submit.task.id != *other {
            self.before.stands_in(&entry.submit.task.id, other);
            entry.has_stand_in = true;
            entry.submit.task.id = other.clone();
        }
    }

    /// Refuses a line whose id or unique key a task with other work has.
    async fn refuse_other(&mut self, line: u64, id: &TaskId, error: Error) -> Result<(), Failure> {
        let reason = match error {
            Error::AlreadyFinished { .. } => return self.refuse_changed(line, id).await,
            Error::AlreadyExists { .. } if self.live.contains_key(id) => other_work(id),
            Error::AlreadyExists { name, .. } => format!(
                "task '{name}' exists already, with another kind or other props than the line, and has not \
                 ended; {}",
                self.room(id)
            ),
            error => error.to_string(),
        };
        self.refuse(line, id, &reason);
        self.forget(id);
        Ok(())
    }

    /// Refuses a line whose task has ended in an earlier run, with other work.
    async fn refuse_changed(&mut self, line: u64, id: &TaskId) -> Result<(), Failure> {
        let ended = match self.read(id).await {
            Ok(record) => Ended::of(&record, &self.name),
            Err(Error::NotFound { .. } | Error::Corrupt { .. }) => Ended::unreadable(id.clone()),
            Err(error) => return Err(error.into()),
        };
        let reason = self.changed.reason(line, &ended);
        self.refuse(line, id, &reason);
        self.forget(id);
        Ok(())
    }

    /// Returns how to make room for a line whose id another task has.
    pub(super) fn room(&self, id: &TaskId) -> String {
        let delete = self.hint.on_task("delete", id);
        format!("`{delete}` makes room for the line, another id makes another task")
    }

    /// Makes the node forget a task without a line, unless another line has it and is waited for.
    pub(super) fn forget(&mut self, id: &TaskId) {
        if !self.live.contains_key(id) {
            self.named.forget(id);
        }
    }

    pub(super) fn follow(&mut self, line: u64, id: TaskId, live: Live) {
        self.named.allow(&id);
        let live = self.live.entry(id).or_insert(live);
        live.lines += 1;
        if live.lines == 1 {
            live.first = line;
        }
    }
}
