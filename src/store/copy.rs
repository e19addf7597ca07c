//! [`Copier`]: copies all tasks of one store into another.

mod mark;
mod pages;
mod report;

use std::collections::{BTreeMap, HashSet};

use windlass_statemachine::{Invalid, Kind, StateKind, TaskId};

pub use mark::{Copied, Outside};
pub use report::{Pair, Problem, Progress, Report};

use pages::Pages;

use super::{Error, Exported, NodeRecord, Store};

/// The most operations outside of tasks that a report names.
const OUTSIDE: u32 = 1000;

/// A copy from one store into another.
///
/// # Flow
///
/// 1. [`check`](Self::check): checks that no node works on either store.
/// 2. [`run`](Self::run): copies the tasks in submit order, up to 200 at a time. Skips a task that the target
///    has already, the same: so an interrupted copy is continued by running it again.
/// 3. [`verify`](Self::verify): reads every task back from both stores and compares them.
/// 4. [`finish`](Self::finish): leaves a mark in the source ([`Copied`]), which then takes no tasks, commands and
///    nodes. Leave this step out for a copy beside a source that stays in use.
///
/// # Guarantees
///
/// Until [`finish`](Self::finish) the source is not changed. The tasks have the same order in the target as in the source, except that
/// a replaced task goes to the end. Fences go on growing: see [`Exported`].
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
    dry_run: bool,
}

/// Returns why a task in the target is not the same as in the source.
fn unlike(sent: &Exported, there: &Exported, what: &str) -> String {
    if sent.is_of_the_submit_of(there) {
        return format!("it was copied before, and has changed since (see its {what})");
    }
    format!("another task has its id in the target (see its {what})")
}

/// Returns the answer for one task. An error that a retry may fix ends the whole copy.
fn settled(answer: Result<Exported, Error>) -> Result<Result<Exported, Error>, Error> {
    match answer {
        Err(error) if error.is_retryable() => Err(error),
        answer => Ok(answer),
    }
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
            dry_run: false,
        }
    }

    /// Replaces tasks that differ in the target, even those that were copied before and have changed
    /// there since. By default such tasks are skipped and reported.
    #[must_use]
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Writes nothing; the report says what a copy would do. Off by default.
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
    /// [`Error::Invalid`] (field `from` or `to`), naming the nodes; [`Error::Unavailable`].
    pub async fn check(&self) -> Result<(), Error> {
        let names = |nodes: Vec<NodeRecord>| {
            let names: Vec<_> = nodes.iter().map(|n| n.spec.name.to_string()).collect();
            names.join(", ")
        };
        let mut working = self.from.registry().nodes().await?;
        working.retain(|node| !node.status.frozen && !node.status.draining);
        if !working.is_empty() {
            let reason = format!(
                "has nodes that work: {}; stop them, or drain them first",
                names(working)
            );
            return Err(Invalid::new("from", reason).into());
        }
        let living = self.to.registry().nodes().await?;
        if !living.is_empty() {
            let reason = format!("has nodes that live: {}; stop them first", names(living));
            return Err(Invalid::new("to", reason).into());
        }
        let mut claimed = self.claimed().await?;
        if claimed > 0 {
            // Listing the ids ends the claims of expired leases.
            self.from.transfer()?.ids().await?;
            claimed = self.claimed().await?;
        }
        if claimed > 0 {
            let nodes = names(self.from.registry().nodes().await?);
            let who = if nodes.is_empty() {
                "nodes that have ended, whose leases have not expired yet".to_owned()
            } else {
                nodes
            };
            let reason = format!("has {claimed} tasks that are claimed by {who}; drain or wait");
            return Err(Invalid::new("from", reason).into());
        }
        Ok(())
    }

    /// Returns the number of claimed tasks in the source.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn claimed(&self) -> Result<u64, Error> {
        let counts = self.from.registry().counts().await?;
        Ok(counts.iter().map(|count| count.claimed).sum())
    }

    /// Copies the tasks. Calls `progress` at the start and after each call to the stores.
    ///
    /// # Errors
    ///
    /// The errors of either store that concern all tasks. The report has the errors of single tasks.
    pub async fn run(&self, mut progress: impl FnMut(Progress)) -> Result<Report, Error> {
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
            self.copy_some(page, sent, &mut report).await?;
            progress(Progress {
                done: report.copied + report.same + report.left.len() as u64,
                tasks: report.tasks,
            });
        }
        report.ids = ids;
        report.outside = self.from.transfer()?.outside(OUTSIDE).await?;
        Ok(report)
    }

    /// Leaves the mark of the copy in the source, if the report is whole. `to` is the URL of the target, for the
    /// errors of programs that use the source from now on. Reports tasks and operations that have come into the source
    /// while it was copied: then there is no mark, and the copy has to run again.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn finish(&self, report: &mut Report, to: &str) -> Result<(), Error> {
        if self.dry_run || !report.is_whole() {
            return Ok(());
        }
        let source = self.from.transfer()?;
        let mark = Copied {
            to: to.to_owned(),
            at: self.from.clock().now(),
        };
        // From now on nothing more comes.
        source.set_copied(Some(mark)).await?;
        let known: HashSet<&TaskId> = report.ids.iter().collect();
        let now = source.ids().await?;
        let late = now.iter().filter(|id| !known.contains(id));
        let reason = "it was submitted while the others were copied; run the copy again";
        let late: Vec<Problem> = late.map(|id| Problem::new(id, reason)).collect();
        report.left.extend(late);
        report.outside = source.outside(OUTSIDE).await?;
        if !report.is_whole() {
            source.set_copied(None).await?;
        }
        Ok(())
    }

    async fn copy_some(
        &self,
        ids: &[TaskId],
        sent: Vec<Result<Exported, Error>>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let there = self.to.transfer()?.export(ids).await;
        let (mut coming, mut replaced) = (Vec::new(), Vec::new());
        for (id, (sent, there)) in ids.iter().zip(sent.into_iter().zip(there)) {
            let mut sent = match settled(sent)? {
                Ok(sent) => sent,
                Err(error) => {
                    report.left.push(Problem::new(id, error));
                    continue;
                }
            };
            let difference = match settled(there)? {
                Err(Error::NotFound { .. }) => {
                    coming.push(sent);
                    continue;
                }
                Ok(there) => {
                    sent.fence = sent.fence.max(there.fence);
                    sent.replaces = Some(there.order);
                    let what = sent.difference(&there);
                    what.map(|what| unlike(&sent, &there, what))
                }
                Err(error) => Some(format!("its id is taken in the target: {error}")),
            };
            match difference {
                None => {
                    report.same += 1;
                    // An earlier run may have replaced another task with it.
                    report.moved.insert(id.clone());
                }
                Some(_) if self.replace => {
                    if sent.replaces.is_none() {
                        let there = self.to.registry().get(id).await;
                        sent.replaces = there.ok().map(|record| record.order);
                    }
                    replaced.push(sent);
                }
                Some(reason) => report.left.push(Problem::new(id, reason)),
            }
        }
        report.copied += (coming.len() + replaced.len()) as u64;
        report.replaced += replaced.len() as u64;
        let moved = replaced.iter().map(|e| e.task.id.clone());
        report.moved.extend(moved);
        if self.dry_run {
            return Ok(());
        }
        // The import replaces the old task in one step: if it is refused, the target stays as it was.
        coming.extend(replaced);
        self.import(coming, report).await
    }

    async fn import(&self, tasks: Vec<Exported>, report: &mut Report) -> Result<(), Error> {
        let ids = tasks.iter();
        let ids = ids.map(|e| (e.task.id.clone(), e.replaces.is_some()));
        let ids: Vec<(TaskId, bool)> = ids.collect();
        for ((id, replaces), answer) in ids.iter().zip(self.to.transfer()?.import(tasks).await) {
            match answer {
                Ok(()) => {}
                Err(Error::Invalid(wrong)) if wrong.field() == "namespace" => {
                    return Err(wrong.into());
                }
                Err(
                    error @ (Error::TooLarge { .. }
                    | Error::Invalid(_)
                    | Error::AlreadyExists { .. }
                    | Error::AlreadyFinished(_)),
                ) => {
                    report.copied -= 1;
                    report.replaced -= u64::from(*replaces);
                    report.left.push(Problem::new(id, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads every task that a run has copied or found in the target back from both stores, and compares
    /// the tasks and their order. Calls `progress` after each call to the stores.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn verify(
        &self,
        report: &mut Report,
        mut progress: impl FnMut(Progress),
    ) -> Result<(), Error> {
        let not_there: HashSet<TaskId> = report.left.iter().map(|l| l.id.clone()).collect();
        let mut ids = std::mem::take(&mut report.ids);
        ids.retain(|id| !not_there.contains(id));
        let mut counts = BTreeMap::<(Kind, StateKind), (u64, u64)>::new();
        let mut pages = Pages::new(&ids);
        while let Some(page) = pages.next() {
            let (sent, came) = (
                self.from.transfer()?.export(page).await,
                self.to.transfer()?.export(page).await,
            );
            pages.sized(&sent);
            for (id, (sent, came)) in page.iter().zip(sent.into_iter().zip(came)) {
                let sent = match settled(sent)? {
                    Ok(sent) => sent,
                    Err(error) => {
                        let reason = format!("it has changed in the source meanwhile: {error}");
                        report.wrong.push(Problem::new(id, reason));
                        continue;
                    }
                };
                let key = |e: &Exported| (e.task.kind.clone(), e.state.code());
                counts.entry(key(&sent)).or_default().0 += 1;
                match settled(came)? {
                    Ok(came) => {
                        counts.entry(key(&came)).or_default().1 += 1;
                        report.history += sent.len();
                        report.history_kept += came.len();
                        let history = || (!came.has_history_of(&sent)).then_some("history");
                        match sent.difference(&came).or_else(history) {
                            None => report.verified += 1,
                            Some(what) => report
                                .wrong
                                .push(Problem::new(id, format!("{what} differs"))),
                        }
                    }
                    Err(error) => report.wrong.push(Problem::new(id, error)),
                }
            }
            progress(Progress {
                done: report.verified + report.wrong.len() as u64,
                tasks: ids.len() as u64,
            });
        }
        let pairs = counts.into_iter().map(|((kind, state), (from, to))| Pair {
            kind,
            state,
            from,
            to,
        });
        report.counts = pairs.collect();
        self.verify_order(&ids, report).await?;
        report.ids = ids;
        Ok(())
    }

    async fn verify_order(&self, ids: &[TaskId], report: &mut Report) -> Result<(), Error> {
        let ours: HashSet<&TaskId> = ids
            .iter()
            .filter(|id| !report.moved.contains(*id))
            .collect();
        let mut came = self.to.transfer()?.ids().await?;
        let sent: HashSet<TaskId> = self.from.transfer()?.ids().await?.into_iter().collect();
        let only_there = came.iter().filter(|id| !sent.contains(*id));
        report.only_there = only_there.cloned().collect();
        came.retain(|id| ours.contains(id));
        let sent = ids.iter().filter(|id| ours.contains(id));
        let out_of_place = sent.zip(&came).find(|(sent, came)| sent != came);
        if let Some((sent, came)) = out_of_place {
            let reason = format!("'{came}' is in its place in the order of submits");
            report.wrong.push(Problem::new(sent, reason));
        }
        Ok(())
    }
}
