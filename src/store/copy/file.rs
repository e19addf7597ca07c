//! A store as a file of lines: [`Store::export`] and [`Store::import`].

use std::{
    collections::HashSet,
    io::{self, Write},
    path::Path,
};

use serde::Serialize;
use windlass_statemachine::TaskId;

use super::{
    OUTSIDE, Outside, Problem, Progress, Report,
    lines::{self, Counts, FORMAT, Head, Line, Lines},
    pages::Pages,
    target::{self, Target, compare, pairs, settled},
};
use crate::store::{Error, Exported, Limits, Store};

/// Why a store could not be written to a file, or read from one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The file could not be written or read.
    #[error("could not {operation} the file: {source}")]
    Io {
        /// `write` or `read`.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The field, and what is wrong with it.
        reason: String,
    },
    /// The file ends before its last line.
    #[error(
        "the file is cut: it ends after line {lines}, without its last line; export the store again, or fetch the \
         whole file"
    )]
    Cut {
        /// The number of whole lines.
        lines: u64,
    },
    /// A newer version has written the file.
    #[error(
        "a newer windlass wrote the file (format {0}; this program reads {FORMAT}); update this program"
    )]
    Newer(u64),
    /// The store has tasks of its own.
    #[error(
        "the store has {count} tasks that the file does not have, '{first}' for example; import into an empty store"
    )]
    NotEmpty {
        /// The number of these tasks.
        count: usize,
        /// The first of them.
        first: TaskId,
    },
}

/// What an export has written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Written {
    /// The number of tasks in the file.
    pub tasks: u64,
    /// The tasks that could not be read. The file names them.
    pub left: Vec<Problem>,
    /// What is committed in the store and is in no task. The file names it.
    pub outside: Vec<Outside>,
    /// The number of tasks that were deleted while the file was written: it does not have them.
    pub gone: u64,
}

impl Written {
    /// Returns whether everything in the store is in the file.
    pub fn is_whole(&self) -> bool {
        self.left.is_empty() && self.outside.is_empty()
    }
}

impl Store {
    /// Writes every task to a file, with state, data, result, errors, commands and history: one JSON object a line, in
    /// submit order ([`Exported`]).
    ///
    /// # Guarantees
    ///
    /// The last line has the number of tasks, so that a file which was cut is refused by [`import`](Self::import). The
    /// store is not changed. A task that cannot be read is named in the file, and in the result.
    ///
    /// # Assumptions
    ///
    /// No node works on the store: its live nodes are frozen or draining, and no task is claimed. A task that is
    /// submitted meanwhile is not in the file. Writes on the calling thread, up to 200 tasks at a time.
    ///
    /// # Errors
    ///
    /// [`FileError::Store`]: [`Error::Invalid`] (field `store`) naming the nodes that work, [`Error::Unsupported`],
    /// [`Error::Unavailable`]. [`FileError::Io`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::{Store, copy::FileError}};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let store = Store::open("memory:").await?;
    /// Client::new(&store).submit(NewTask::new("report")).await?;
    /// let mut file = tempfile::NamedTempFile::new()?;
    /// let written = store.export(&mut file, |_| ()).await?;
    /// assert!(written.is_whole());
    ///
    /// let other = Store::open("memory:").await?;
    /// let report = other.import(file.path(), |_| ()).await?;
    /// assert!(report.is_whole());
    /// assert_eq!(report.copied, 1);
    /// # Ok(()) }
    /// ```
    pub async fn export(
        &self,
        mut to: impl Write,
        mut progress: impl FnMut(Progress),
    ) -> Result<Written, FileError> {
        target::is_at_rest(self, "store").await?;
        let part = self.transfer()?;
        let ids = part.ids().await?;
        let tasks = ids.len() as u64;
        lines::write(&mut to, &Head::new(self.clock().now(), tasks))?;
        let (mut written, mut pages) = (Written::default(), Pages::new(&ids));
        while let Some(page) = pages.next() {
            let sent = part.export(page).await;
            pages.sized(&sent);
            for (id, sent) in page.iter().zip(sent) {
                match settled(sent)? {
                    Ok(task) => {
                        lines::write(&mut to, &task)?;
                        written.tasks += 1;
                    }
                    // It was deleted meanwhile.
                    Err(Error::NotFound { what: "task", .. }) => written.gone += 1,
                    Err(error) => written.left.push(Problem::new(id, error)),
                }
            }
            progress(Progress {
                done: written.tasks + written.left.len() as u64,
                tasks,
            });
        }
        written.outside = part.outside(OUTSIDE).await?;
        for left in &written.left {
            lines::write(&mut to, &serde_json::json!({ "left": left }))?;
        }
        for outside in &written.outside {
            lines::write(&mut to, &serde_json::json!({ "outside": outside }))?;
        }
        let counts = Counts {
            tasks: written.tasks,
            left: written.left.len() as u64,
            outside: written.outside.len() as u64,
            gone: written.gone,
        };
        lines::write_end(&mut to, counts)?;
        to.flush().map_err(|source| FileError::Io {
            operation: "write",
            source,
        })?;
        Ok(written)
    }

    /// Reads the tasks of a file that [`export`](Self::export) has written into this store, which has no tasks.
    ///
    /// # Flow
    ///
    /// 1. Checks every line. Nothing is written when one is wrong, or the file was cut.
    /// 2. Writes the tasks in submit order. Skips a task that is there already, the same: so an interrupted import is
    ///    continued by running it again. When the store has another task with one of the ids, nothing is written.
    /// 3. Reads every task back and compares it with the file.
    ///
    /// Calls `progress` for each page of the second step, then for each of the third.
    ///
    /// # Guarantees
    ///
    /// As those of [`Copier`](super::Copier): the order of submits is kept, and fences go on growing. The report
    /// lists what is in the store and what is not. It is [whole](Report::is_whole) when every task of the exported
    /// store is there.
    ///
    /// # Assumptions
    ///
    /// No node lives on the store. Reads on the calling thread.
    ///
    /// # Errors
    ///
    /// [`FileError`]. After [`FileError::Store`] some tasks may be in the store: import again.
    pub async fn import(
        &self,
        file: &Path,
        mut progress: impl FnMut(Progress),
    ) -> Result<Report, FileError> {
        let content = Content::of(file, self.registry().limits().max_bytes)?;
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

/// Checks every line of a file of [`Store::export`], as [`Store::import`] does first. Needs no store: a program that makes
/// one for the import makes none for a file that is refused.
///
/// # Errors
///
/// [`FileError`] with the line and the field that is wrong.
///
/// # Example
///
/// ```
/// let error = windlass::store::copy::check_file("no-such-file.jsonl".as_ref()).unwrap_err();
/// assert!(matches!(error, windlass::store::copy::FileError::Io { .. }));
/// ```
pub fn check_file(file: &Path) -> Result<(), FileError> {
    Content::of(file, Limits::default().max_bytes).map(drop)
}

/// What a file holds, beside the tasks themselves.
struct Content {
    ids: Vec<TaskId>,
    left: Vec<Problem>,
    outside: Vec<Outside>,
}

impl Content {
    /// Reads and checks every line, for a store that takes tasks of this size.
    fn of(file: &Path, max_bytes: usize) -> Result<Self, FileError> {
        let mut lines = Lines::open(file)?;
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

    /// Checks that all tasks of the store are those of the file.
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
    file: &Path,
    report: &mut Report,
    mut progress: impl FnMut(u64),
) -> Result<(), FileError> {
    let mut lines = Lines::open(file)?;
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

/// Reads every task that was written, or was there, back and compares it.
async fn verify(
    target: &Target<'_>,
    file: &Path,
    report: &mut Report,
    mut progress: impl FnMut(u64),
) -> Result<(), FileError> {
    let refused: HashSet<TaskId> = report.left.iter().map(|one| one.id.clone()).collect();
    let (mut lines, mut counts) = (Lines::open(file)?, target::Counts::new());
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
        compare(&ids, sent, came, report, &mut counts)?;
        progress(report.verified + report.wrong.len() as u64);
    }
}
