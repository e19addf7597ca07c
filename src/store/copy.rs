//! [`Copier`]: copies all tasks of one store into another. [`Store::export`] and [`Store::import`] do the same by way
//! of a file.

mod backup;
mod error;
mod export;
mod import;
mod lines;
mod mark;
mod missing;
mod pages;
mod report;
mod target;

use std::collections::HashSet;

use windlass_statemachine::TaskId;

pub use backup::Backup;
pub use error::FileError;
pub use export::Written;
pub use import::Import;
#[cfg(feature = "schema")]
pub use lines::ExportLine;
pub use mark::{Copied, Outside};
pub use report::{Pair, Problem, Progress, Report};

use pages::Pages;
use target::{Counts, Target, compare, pairs};

use super::{Error, Store};

/// The number of the form of all lines of a file.
const FORMAT: u64 = 1;

/// The most operations outside of tasks that a report lists.
pub(crate) const OUTSIDE: u32 = 1000;

/// A copy from one store into another.
///
/// # Flow
///
/// 1. [`check`](Self::check): checks that no node works on either store.
/// 2. [`run`](Self::run): copies the tasks in submit order, up to 200 at a time. Skips a task that the target
///    already has, if it is the same. So an interrupted copy continues when it is run again.
/// 3. [`verify`](Self::verify): reads every task back from both stores and compares them.
/// 4. [`finish`](Self::finish): leaves a mark in the source ([`Copied`]), which then accepts no tasks, commands
///    and nodes. Leave this step out if the source stays in use.
///
/// # Guarantees
///
/// Until [`finish`](Self::finish) the source is not changed. The tasks have the same order in the target as in the
/// source, except that a replaced task goes to the end. Fences continue to grow: see [`Exported`](super::Exported).
///
/// # Example
///
/// ```
/// use windlass::store::{Store, copy::Copier};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let (from, to) = (Store::open("memory:").await?, Store::open("memory:").await?);
/// let copy = Copier::new(&from, &to);
/// copy.check().await?;
/// let mut report = copy.run(|_| ()).await?;
/// copy.verify(&mut report, |_| ()).await?;
/// copy.finish(&mut report, "memory:").await?;
/// assert!(report.is_whole());
/// assert!(from.transfer()?.copied().await?.is_some());
/// # Ok(()) }
/// ```
pub struct Copier<'a> {
    from: &'a Store,
    to: &'a Store,
    replace: bool,
    accept_missing: bool,
    dry_run: bool,
}

impl std::fmt::Debug for Copier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copier")
            .field("replace", &self.replace)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

impl<'a> Copier<'a> {
    /// Prepares a copy of `from` into `to`.
    pub fn new(from: &'a Store, to: &'a Store) -> Self {
        Self {
            from,
            to,
            replace: false,
            accept_missing: false,
            dry_run: false,
        }
    }

    /// Replaces tasks that differ in the target, even tasks that were copied earlier and have
    /// changed in the target since. By default such tasks are skipped and reported.
    #[must_use]
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Leaves out tasks that cannot be read also where other tasks wait for them: these run at once in the target. By
    /// default [`run`](Self::run) refuses such a copy.
    #[must_use]
    pub fn accept_missing(mut self, accept_missing: bool) -> Self {
        self.accept_missing = accept_missing;
        self
    }

    /// Only reports what a copy would do, and writes nothing. Off by default.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Checks that no node works on either store: live nodes of the source are frozen or draining, the
    /// target has no live node, and no task is claimed.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `from` or `to`), which names the nodes; [`Error::Unavailable`].
    pub async fn check(&self) -> Result<(), Error> {
        target::no_node_works(self.from, "from").await?;
        self.target().check().await?;
        target::no_task_is_claimed(self.from, "from").await
    }

    /// Returns the number of claimed tasks in the source.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn claimed(&self) -> Result<u64, Error> {
        target::claimed(self.from).await
    }

    fn target(&self) -> Target<'_> {
        Target {
            store: self.to,
            replace: self.replace,
            dry_run: self.dry_run,
        }
    }

    /// Copies the tasks. Calls `progress` at the start and after each call to the stores.
    ///
    /// # Errors
    ///
    /// The errors of either store that concern all tasks; [`Error::Invalid`] (field `from`) when a task waits for one that
    /// cannot be read, unless [`accept_missing`](Self::accept_missing). The report has the errors of single tasks.
    pub async fn run(&self, mut progress: impl FnMut(Progress)) -> Result<Report, Error> {
        if !self.accept_missing {
            missing::check(self.from).await?;
        }
        let ids = self.from.transfer()?.ids().await?;
        let mut report = Report {
            tasks: ids.len() as u64,
            ..Report::default()
        };
        progress(Progress {
            done: 0,
            tasks: report.tasks,
        });
        let mut pages = Pages::new(&ids);
        while let Some(page) = pages.next() {
            let sent = self.from.transfer()?.export(page).await;
            pages.sized(&sent);
            self.target().take(page, sent, &mut report).await?;
            progress(Progress {
                done: report.copied + report.same + report.left.len() as u64,
                tasks: report.tasks,
            });
        }
        report.ids = ids;
        report.outside = self.from.transfer()?.outside(OUTSIDE).await?;
        Ok(report)
    }

    /// Leaves the mark of the copy in the source if the report is whole. `to` is the URL of the target, for the errors
    /// of programs that still use the source. If the source has changed during the copy, reports what has changed and
    /// leaves no mark: run the copy again. A source that may have changed since [`verify`](Self::verify) is compared once
    /// more, now that the mark keeps it as it is; on etcd that is every source.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub async fn finish(&self, report: &mut Report, to: &str) -> Result<(), Error> {
        if self.dry_run || !report.is_whole() {
            return Ok(());
        }
        let source = self.from.transfer()?;
        let mark = Copied::new(to, self.from.clock().now());
        // From now on the source accepts nothing more.
        source.set_copied(Some(mark)).await?;
        let known: HashSet<&TaskId> = report.ids.iter().collect();
        let now = source.ids().await?;
        let late = now.iter().filter(|id| !known.contains(id));
        let reason = "it was submitted while the others were copied; run the copy again";
        let late: Vec<Problem> = late.map(|id| Problem::new(id, reason)).collect();
        report.left.extend(late);
        report.outside = source.outside(OUTSIDE).await?;
        if report.is_whole() && report.position != Some(self.from.registry().newest_change().await?)
        {
            self.verify_again(report).await?;
        }
        if !report.is_whole() {
            source.set_copied(None).await?;
        }
        Ok(())
    }

    /// Compares the source, which nothing changes any more, with the target.
    async fn verify_again(&self, report: &mut Report) -> Result<(), Error> {
        let mut again = Report {
            ids: report.ids.clone(),
            tasks: report.tasks,
            moved: report.moved.clone(),
            ..Report::default()
        };
        self.verify(&mut again, |_| ()).await?;
        report.wrong = again.wrong;
        report.verified = again.verified;
        Ok(())
    }

    /// Reads every task that a run has copied, or found in the target, back from both stores. Compares
    /// the tasks and their order. Calls `progress` after each call to the stores.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run).
    pub async fn verify(
        &self,
        report: &mut Report,
        mut progress: impl FnMut(Progress),
    ) -> Result<(), Error> {
        report.position = Some(self.from.registry().newest_change().await?);
        let not_there: HashSet<TaskId> = report.left.iter().map(|l| l.id.clone()).collect();
        let mut ids = std::mem::take(&mut report.ids);
        ids.retain(|id| !not_there.contains(id));
        let mut counts = Counts::new();
        let mut pages = Pages::new(&ids);
        while let Some(page) = pages.next() {
            let (sent, came) = (
                self.from.transfer()?.export(page).await,
                self.to.transfer()?.export(page).await,
            );
            pages.sized(&sent);
            let now = self.to.clock().now();
            compare(page, sent, came, report, (&mut counts, now))?;
            progress(Progress {
                done: report.verified + report.wrong.len() as u64,
                tasks: ids.len() as u64,
            });
        }
        report.counts = pairs(counts);
        let sent = self.from.transfer()?.ids().await?.into_iter().collect();
        self.target().verify_order(&ids, &sent, report).await?;
        report.ids = ids;
        Ok(())
    }
}
