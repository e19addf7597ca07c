//! [`Copier`]: all tasks of one store into another.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use windlass_statemachine::{Invalid, Kind, StateKind, TaskId};

use super::{Error, Exported, Store};

/// How many tasks are copied at a time.
const AT_ONCE: usize = 200;

/// A copy from one store into another.
///
/// # Flow
///
/// 1. [`check`](Self::check): nobody works on either.
/// 2. [`run`](Self::run): tasks come over in submit order, some hundreds at a time. What is there
///    already and the same is left; so a copy that was interrupted is run again.
/// 3. [`verify`](Self::verify): every task is read back from both and compared.
///
/// # Guarantees
///
/// The source is not changed. The order of the tasks in the target is that of the source (one that
/// is replaced goes to the end). Fences go on growing: see [`Exported`].
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
/// assert!(report.is_whole());
/// # Ok(()) }
/// ```
pub struct Copier<'a> {
    from: &'a Store,
    to: &'a Store,
    replace: bool,
    dry_run: bool,
}

/// A task that was not copied, or differs, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Which.
    pub id: TaskId,
    /// In one line.
    pub reason: String,
}

/// How many tasks of a kind and state there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The kind.
    pub kind: Kind,
    /// The state.
    pub state: StateKind,
    /// In the source.
    pub from: u64,
    /// Of these in the target.
    pub to: u64,
}

/// What came of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// How many tasks the source has.
    pub tasks: u64,
    /// How many were copied (or would be).
    pub copied: u64,
    /// How many of these took the place of another one.
    pub replaced: u64,
    /// How many were there already, and the same.
    pub same: u64,
    /// Those that were not copied: unreadable, or not the same in the target.
    pub left: Vec<Problem>,
    /// How many tasks were read back from both and are the same; 0 before they were.
    pub verified: u64,
    /// Those that are not the same, or that this run has appended in another order.
    pub wrong: Vec<Problem>,
    /// How many changes the history of the source has.
    pub history: u64,
    /// How many of these the target keeps.
    pub history_kept: u64,
    /// Both by kind and state, of the tasks that were compared.
    pub counts: Vec<Pair>,
    #[serde(skip)]
    ids: Vec<TaskId>,
    /// Those whose place in the order of submits is not compared: this run has not appended them.
    #[serde(skip)]
    moved: HashSet<TaskId>,
}

impl Report {
    /// Whether every task of the source is in the target, the same as there.
    pub fn is_whole(&self) -> bool {
        self.left.is_empty() && self.wrong.is_empty() && self.verified == self.tasks
    }
}

fn left(id: &TaskId, reason: impl ToString) -> Problem {
    let (id, reason) = (id.clone(), reason.to_string());
    Problem { id, reason }
}

/// Why a task in the target is not the same as in the source.
fn unlike(sent: &Exported, there: &Exported, what: &str) -> String {
    if sent.is_of_the_submit_of(there) {
        return format!("it was copied before, and has changed since (see its {what})");
    }
    format!("another task has its id in the target (see its {what})")
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
    /// A copy of `from` into `to`.
    pub fn new(from: &'a Store, to: &'a Store) -> Self {
        Self {
            from,
            to,
            replace: false,
            dry_run: false,
        }
    }

    /// What is not the same in the target is replaced, also what was copied before and has gone on
    /// there; otherwise it is left, and reported.
    #[must_use]
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Nothing is written; the report says what would be.
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Whether nobody works on either store: no node lives on the source unless it is frozen, none
    /// lives on the target, and nothing is claimed.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `from` or `to`), naming the nodes; [`Error::Unavailable`].
    pub async fn check(&self) -> Result<(), Error> {
        let names = |nodes: Vec<super::NodeRecord>| {
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
            // Claims of lost nodes have expired by the time that the ids are reported.
            self.from.transfer()?.ids().await?;
            claimed = self.claimed().await?;
        }
        if claimed > 0 {
            let nodes = names(self.from.registry().nodes().await?);
            let who = if nodes.is_empty() {
                "nodes that are gone, whose leases are not over yet".to_owned()
            } else {
                nodes
            };
            let reason = format!("has {claimed} tasks that are claimed by {who}; drain or wait");
            return Err(Invalid::new("from", reason).into());
        }
        Ok(())
    }

    /// How many tasks of the source are still claimed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    pub async fn claimed(&self) -> Result<u64, Error> {
        let counts = self.from.registry().counts().await?;
        Ok(counts.iter().map(|count| count.claimed).sum())
    }

    /// Copies; `progress` receives the number of tasks so far.
    ///
    /// # Errors
    ///
    /// What either store answers for all; what is said of one task is in the report.
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
        for chunk in ids.chunks(AT_ONCE) {
            self.copy_some(chunk, &mut report).await?;
            progress(Progress {
                done: report.copied + report.same + report.left.len() as u64,
                tasks: report.tasks,
            });
        }
        report.ids = ids;
        Ok(report)
    }

    async fn copy_some(&self, ids: &[TaskId], report: &mut Report) -> Result<(), Error> {
        let sent = self.from.transfer()?.export(ids).await;
        let there = self.to.transfer()?.export(ids).await;
        let (mut coming, mut replaced) = (Vec::new(), Vec::new());
        for (id, (sent, there)) in ids.iter().zip(sent.into_iter().zip(there)) {
            let mut sent = match sent {
                Ok(sent) => sent,
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    report.left.push(left(id, error));
                    continue;
                }
            };
            let difference = match there {
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
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => Some(format!("its id is taken in the target: {error}")),
            };
            match difference {
                None => {
                    report.same += 1;
                    // An earlier run may have put it in the place of another one.
                    report.moved.insert(id.clone());
                }
                Some(_) if self.replace => {
                    if sent.replaces.is_none() {
                        let there = self.to.registry().get(id).await;
                        sent.replaces = there.ok().map(|record| record.order);
                    }
                    replaced.push(sent);
                }
                Some(reason) => report.left.push(left(id, reason)),
            }
        }
        report.copied += (coming.len() + replaced.len()) as u64;
        report.replaced += replaced.len() as u64;
        let moved = replaced.iter().map(|e| e.task.id.clone());
        report.moved.extend(moved);
        if self.dry_run {
            return Ok(());
        }
        // The import replaces: what it refuses leaves the target as it was.
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
                    report.left.push(left(id, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads every task that a run has copied, or found there, back from both and compares them, and
    /// their order. `progress` as in [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// What either store answers for all.
    pub async fn verify(
        &self,
        report: &mut Report,
        mut progress: impl FnMut(Progress),
    ) -> Result<(), Error> {
        let not_there: HashSet<TaskId> = report.left.iter().map(|l| l.id.clone()).collect();
        let mut ids = std::mem::take(&mut report.ids);
        ids.retain(|id| !not_there.contains(id));
        let mut counts = BTreeMap::<(Kind, StateKind), (u64, u64)>::new();
        for chunk in ids.chunks(AT_ONCE) {
            let (sent, came) = (
                self.from.transfer()?.export(chunk).await,
                self.to.transfer()?.export(chunk).await,
            );
            for (id, (sent, came)) in chunk.iter().zip(sent.into_iter().zip(came)) {
                let sent = match sent {
                    Ok(sent) => sent,
                    Err(error) if error.is_retryable() => return Err(error),
                    Err(error) => {
                        let reason = format!("it has changed in the source meanwhile: {error}");
                        report.wrong.push(left(id, reason));
                        continue;
                    }
                };
                let key = |e: &Exported| (e.task.kind.clone(), e.state.code());
                counts.entry(key(&sent)).or_default().0 += 1;
                match came {
                    Ok(came) => {
                        counts.entry(key(&came)).or_default().1 += 1;
                        report.history += sent.len();
                        report.history_kept += came.len();
                        match sent.difference(&came) {
                            None => report.verified += 1,
                            Some(what) => report.wrong.push(left(id, format!("{what} differs"))),
                        }
                    }
                    Err(error) if error.is_retryable() => return Err(error),
                    Err(error) => report.wrong.push(left(id, error)),
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
        self.verify_order(&ids, report).await
    }

    async fn verify_order(&self, ids: &[TaskId], report: &mut Report) -> Result<(), Error> {
        let ours: HashSet<&TaskId> = ids
            .iter()
            .filter(|id| !report.moved.contains(*id))
            .collect();
        let mut came = self.to.transfer()?.ids().await?;
        came.retain(|id| ours.contains(id));
        let sent = ids.iter().filter(|id| ours.contains(id));
        let out_of_place = sent.zip(&came).find(|(sent, came)| sent != came);
        if let Some((sent, came)) = out_of_place {
            let reason = format!("'{came}' is in its place in the order of submits");
            report.wrong.push(left(sent, reason));
        }
        Ok(())
    }
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// So many tasks are done.
    pub done: u64,
    /// Of so many.
    pub tasks: u64,
}
