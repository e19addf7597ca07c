//! [`Store::import`]: reads a store from a file of lines.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
};

use windlass_statemachine::TaskId;

use super::{
    FileError, Outside, Problem, Progress, Report,
    lines::{Line, Lines},
    target::{self, Target, compare, pairs},
};
use crate::store::{Exported, Limits, Store};

/// The options of [`Store::import`].
///
/// # Example
///
/// ```
/// use windlass::store::copy::{FileError, Import};
///
/// let wrong = Import::new().check("no export".as_bytes()).unwrap_err();
/// assert!(matches!(wrong, FileError::Line { line: 1, .. }));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Import {
    /// Whether to accept a file that names tasks which the export could not read; `false` by default. A task that
    /// waits for one of them gets the outcome `unknown`, and runs at once.
    pub accept_missing: bool,
}

impl Import {
    /// Returns the default options: the file must have all tasks of the store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts a file that names tasks which the export could not read
    /// ([`accept_missing`](Self#structfield.accept_missing)).
    #[must_use]
    pub fn accept_missing(mut self) -> Self {
        self.accept_missing = true;
        self
    }

    /// Checks every line, like the first step of [`Store::import`], but without a store. A program that creates a store
    /// for the import can refuse a file before it creates the store.
    ///
    /// # Errors
    ///
    /// [`FileError`] with the line and the invalid field; [`FileError::Incomplete`].
    pub fn check(&self, file: impl Read) -> Result<(), FileError> {
        let lines = Lines::new(BufReader::new(file))?;
        self.content(lines, Limits::default().max_bytes).map(drop)
    }

    fn content<R: BufRead>(&self, lines: Lines<R>, max_bytes: usize) -> Result<Content, FileError> {
        let content = Content::of(lines, max_bytes)?;
        let left = content.left.iter().map(|one| one.id.to_string());
        let rows = content.outside.iter().filter(|one| one.is_task);
        let missing: Vec<String> = left.chain(rows.map(|one| one.what.clone())).collect();
        match missing.first() {
            Some(first) if !self.accept_missing => Err(FileError::Incomplete {
                count: missing.len(),
                first: first.clone(),
            }),
            _ => Ok(content),
        }
    }
}

/// Reads a file from its beginning.
fn lines(mut file: &File) -> Result<Lines<BufReader<&File>>, FileError> {
    file.seek(SeekFrom::Start(0))
        .map_err(|source| FileError::Io {
            operation: "read",
            source,
        })?;
    Lines::new(BufReader::new(file))
}

impl Store {
    /// Reads the tasks of a file that [`export`](Self::export) has written into this store, which must have no
    /// other tasks.
    ///
    /// # Flow
    ///
    /// 1. Checks every line. Writes nothing if one is invalid, or if the file is truncated.
    /// 2. Writes the tasks in submit order. Skips a task that the store already has, if it is the same. So an
    ///    interrupted import continues when it is run again. Writes nothing if the store has another task with one of
    ///    the ids.
    /// 3. Reads every task back and compares it with the file.
    ///
    /// Calls `progress` for each page of the second step, then for each page of the third.
    ///
    /// # Guarantees
    ///
    /// The guarantees of [`Copier`](super::Copier): the order of submits is kept, and fences continue to grow. The
    /// report lists what is in the store and what is not. It is [whole](Report::is_whole) when the store has every
    /// task of the exported one.
    ///
    /// No node of the store is live. The calling thread reads the file three times.
    ///
    /// # Errors
    ///
    /// [`FileError`]; [`FileError::Incomplete`] unless [`Import::accept_missing`]. After [`FileError::Store`] some tasks
    /// may be in the store: import again.
    pub async fn import(
        &self,
        file: &File,
        how: &Import,
        mut progress: impl FnMut(Progress),
    ) -> Result<Report, FileError> {
        let content = how.content(lines(file)?, self.registry().limits().max_bytes)?;
        let mut target = Target {
            store: self,
            replace: false,
            dry_run: true,
        };
        target.check().await?;
        let there = self.transfer()?.ids().await?;
        content.check_room(&there)?;
        let tasks = content.ids.len() as u64;
        if !there.is_empty() {
            let mut found = Report::default();
            write(&target, file, &mut found, |_| ()).await?;
            if !found.left.is_empty() {
                let mut report = content.report();
                report.same = found.same;
                report.left.extend(found.left);
                return Ok(report);
            }
        }
        target.dry_run = false;
        let mut report = content.report();
        let left = std::mem::take(&mut report.left);
        write(&target, file, &mut report, |done| {
            progress(Progress { done, tasks });
        })
        .await?;
        verify(&target, file, &mut report, |done| {
            progress(Progress { done, tasks });
        })
        .await?;
        let refused: HashSet<&TaskId> = report.left.iter().map(|one| &one.id).collect();
        let ids: Vec<TaskId> = content
            .ids
            .iter()
            .filter(|id| !refused.contains(id))
            .cloned()
            .collect();
        let sent = content.ids.into_iter().collect();
        target.verify_order(&ids, &sent, &mut report).await?;
        report.left.extend(left);
        Ok(report)
    }
}

/// The content of a file, without the tasks.
struct Content {
    ids: Vec<TaskId>,
    left: Vec<Problem>,
    outside: Vec<Outside>,
}

impl Content {
    /// Reads and checks every line, for a store that accepts tasks of this size.
    fn of<R: BufRead>(mut lines: Lines<R>, max_bytes: usize) -> Result<Self, FileError> {
        lines.is_strict = true;
        let (mut known, mut commands) = (HashSet::new(), HashSet::new());
        let mut content = Self {
            ids: Vec::new(),
            left: Vec::new(),
            outside: Vec::new(),
        };
        while let Some(line) = lines.next()? {
            match line {
                Line::Task(task) => {
                    if !known.insert(task.task.id.clone()) {
                        let reason = format!("task: '{}' is in a line before, too", task.task.id);
                        return Err(lines.wrong(reason));
                    }
                    if let Err(error) = task.check_fits(max_bytes) {
                        return Err(lines.wrong(error.to_string()));
                    }
                    for command in &task.commands {
                        if !commands.insert(command.id.clone()) {
                            let reason =
                                format!("commands: '{}' is in a line before, too", command.id);
                            return Err(lines.wrong(reason));
                        }
                    }
                    content.ids.push(task.task.id);
                }
                Line::Left(mut problem) => {
                    problem.reason = format!("the file does not have it: {}", problem.reason);
                    content.left.push(problem);
                }
                Line::Outside(outside) => content.outside.push(outside),
            }
        }
        Ok(content)
    }

    /// Checks that the store has no task that is not in the file.
    fn check_room(&self, there: &[TaskId]) -> Result<(), FileError> {
        let ours: HashSet<&TaskId> = self.ids.iter().collect();
        let mut others = there.iter().filter(|id| !ours.contains(id));
        let Some(first) = others.next() else {
            return Ok(());
        };
        Err(FileError::NotEmpty {
            count: others.count() + 1,
            first: first.clone(),
        })
    }

    /// Returns the report of an import that has not begun.
    fn report(&self) -> Report {
        Report {
            tasks: (self.ids.len() + self.left.len()) as u64,
            left: self.left.clone(),
            outside: self.outside.clone(),
            ..Report::default()
        }
    }
}

fn ids_of(page: &[Exported]) -> Vec<TaskId> {
    page.iter().map(|one| one.task.id.clone()).collect()
}

async fn write(
    target: &Target<'_>,
    file: &File,
    report: &mut Report,
    mut progress: impl FnMut(u64),
) -> Result<(), FileError> {
    let mut lines = lines(file)?;
    loop {
        let page = lines.page()?;
        if page.is_empty() {
            return Ok(());
        }
        let ids = ids_of(&page);
        let sent = page.into_iter().map(Ok).collect();
        target.take(&ids, sent, report).await?;
        progress(report.copied + report.same + report.left.len() as u64);
    }
}

/// Reads every task that was written or skipped back, and compares it.
async fn verify(
    target: &Target<'_>,
    file: &File,
    report: &mut Report,
    mut progress: impl FnMut(u64),
) -> Result<(), FileError> {
    let refused: HashSet<TaskId> = report.left.iter().map(|one| one.id.clone()).collect();
    let (mut lines, mut counts) = (lines(file)?, target::Counts::new());
    loop {
        let mut page = lines.page()?;
        if page.is_empty() {
            report.counts = pairs(counts);
            return Ok(());
        }
        page.retain(|one| !refused.contains(&one.task.id));
        let ids = ids_of(&page);
        let came = target.store.transfer()?.export(&ids).await;
        let sent = page.into_iter().map(Ok).collect();
        let now = target.store.clock().now();
        compare(&ids, sent, came, report, (&mut counts, now))?;
        progress(report.verified + report.wrong.len() as u64);
    }
}
