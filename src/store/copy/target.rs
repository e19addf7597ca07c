//! [`Target`]: the store that receives the tasks, and the comparison with their origin.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use windlass_statemachine::{Invalid, Kind, StateKind, TaskId, text::counted};

use super::{Pair, Problem, Report};
use crate::store::{Error, Exported, NodeRecord, Store};

/// The store that receives the tasks.
pub(super) struct Target<'a> {
    pub(super) store: &'a Store,
    /// Whether to replace tasks that differ.
    pub(super) replace: bool,
    /// Whether to write nothing.
    pub(super) dry_run: bool,
}

/// The compared tasks by kind and state: the number in the source, and in the target.
pub(super) type Counts = BTreeMap<(Kind, StateKind), (u64, u64)>;

pub(super) fn pairs(counts: Counts) -> Vec<Pair> {
    let pairs = counts.into_iter().map(|((kind, state), (from, to))| Pair {
        kind,
        state,
        from,
        to,
    });
    pairs.collect()
}

/// Checks that no node works on a store from which tasks are read: its live nodes are frozen or draining, and no task
/// is claimed. `field` names the store in the error.
pub(super) async fn is_at_rest(store: &Store, field: &'static str) -> Result<(), Error> {
    no_node_works(store, field).await?;
    no_task_is_claimed(store, field).await
}

/// Like [`is_at_rest`], of the nodes and the number of claims at one moment: a node may have joined since the store was
/// checked.
pub(super) fn was_at_rest(
    (nodes, claimed): (&[NodeRecord], u64),
    field: &'static str,
) -> Result<(), Error> {
    refuse_nodes(nodes.to_vec(), field)?;
    refuse_claims(claimed, nodes, field)
}

fn names(nodes: &[NodeRecord]) -> String {
    let names: Vec<_> = nodes.iter().map(|n| n.spec.name.to_string()).collect();
    names.join(", ")
}

/// Checks that the live nodes of a store are frozen or draining.
pub(super) async fn no_node_works(store: &Store, field: &'static str) -> Result<(), Error> {
    refuse_nodes(store.registry().nodes().await?, field)
}

fn refuse_nodes(mut working: Vec<NodeRecord>, field: &'static str) -> Result<(), Error> {
    // A server of remote workers claims nothing for itself, and its workers are nodes.
    let claims = |node: &NodeRecord| {
        node.spec
            .kinds
            .as_ref()
            .is_none_or(|kinds| !kinds.is_empty())
    };
    working.retain(|node| claims(node) && !node.status.frozen && !node.status.draining);
    if working.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "has nodes that work: {}; stop them, or drain them first",
        names(&working)
    );
    Err(Invalid::new(field, reason).into())
}

/// Returns the number of claimed tasks.
pub(super) async fn claimed(store: &Store) -> Result<u64, Error> {
    let counts = store.registry().counts().await?;
    Ok(counts.iter().map(|count| count.claimed).sum())
}

/// Checks that no task of a store is claimed.
pub(super) async fn no_task_is_claimed(store: &Store, field: &'static str) -> Result<(), Error> {
    let mut claims = claimed(store).await?;
    if claims > 0 {
        // Listing the ids ends the claims of expired leases.
        store.transfer()?.ids().await?;
        claims = claimed(store).await?;
    }
    if claims == 0 {
        return Ok(());
    }
    refuse_claims(claims, &store.registry().nodes().await?, field)
}

fn refuse_claims(claims: u64, nodes: &[NodeRecord], field: &'static str) -> Result<(), Error> {
    if claims == 0 {
        return Ok(());
    }
    let nodes = names(nodes);
    let who = if nodes.is_empty() {
        "nodes that have ended, whose leases have not expired yet".to_owned()
    } else {
        nodes
    };
    let tasks = counted(claims, "task");
    let reason = format!("has {tasks} claimed by {who}; drain or wait");
    Err(Invalid::new(field, reason).into())
}

/// Returns how a task in the target differs from the one in the source.
fn unlike(sent: &Exported, there: &Exported, what: &str) -> String {
    if sent.is_of_the_submit_of(there) {
        return format!("it was copied before, and has changed since (see its {what})");
    }
    format!("another task has its id in the target (see its {what})")
}

/// Returns the result for one task. An error that a retry may fix ends the whole copy.
pub(super) fn settled(answer: Result<Exported, Error>) -> Result<Result<Exported, Error>, Error> {
    match answer {
        Err(error) if error.is_retryable() => Err(error),
        answer => Ok(answer),
    }
}

/// Compares a page of tasks: as they were sent, and as they were read back.
///
/// # Errors
///
/// An error of a store that a retry may fix.
pub(super) fn compare(
    page: &[TaskId],
    sent: Vec<Result<Exported, Error>>,
    came: Vec<Result<Exported, Error>>,
    report: &mut Report,
    (counts, now): (&mut Counts, Timestamp),
) -> Result<(), Error> {
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
                match sent.difference_at(&came, now).or_else(history) {
                    None => report.verified += 1,
                    Some(what) => report
                        .wrong
                        .push(Problem::new(id, format!("{what} differs"))),
                }
            }
            Err(error) => report.wrong.push(Problem::new(id, error)),
        }
    }
    Ok(())
}

impl Target<'_> {
    /// Checks that no node lives on the store.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let living = self.store.registry().nodes().await?;
        if living.is_empty() {
            return Ok(());
        }
        let reason = format!("has nodes that live: {}; stop them first", names(&living));
        Err(Invalid::new("to", reason).into())
    }

    /// Imports the tasks of a page that are missing in the target.
    ///
    /// # Errors
    ///
    /// The errors of the store that concern all tasks. The report has those of single tasks.
    pub(super) async fn take(
        &self,
        ids: &[TaskId],
        sent: Vec<Result<Exported, Error>>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let there = self.store.transfer()?.export(ids).await;
        let now = self.store.clock().now();
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
                    let what = sent.difference_at(&there, now);
                    what.map(|what| unlike(&sent, &there, what))
                }
                Err(error) => Some(format!("its id is taken in the target: {error}")),
            };
            match difference {
                None => {
                    report.same += 1;
                    // An earlier run may have replaced another task with this one.
                    report.moved.insert(id.clone());
                }
                Some(_) if self.replace => {
                    if sent.replaces.is_none() {
                        let there = self.store.registry().get(id).await;
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
        for ((id, replaces), answer) in ids.iter().zip(self.store.transfer()?.import(tasks).await) {
            match answer {
                Ok(()) => {}
                Err(Error::Invalid(wrong)) if wrong.field() == "namespace" => {
                    return Err(wrong.into());
                }
                Err(
                    error @ (Error::TooLarge { .. }
                    | Error::Invalid(_)
                    | Error::AlreadyExists { .. }
                    | Error::AlreadyFinished { .. }),
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

    /// Compares the order of these tasks with their order in the store. `sent` are all tasks of the
    /// source.
    pub(super) async fn verify_order(
        &self,
        ids: &[TaskId],
        sent: &HashSet<TaskId>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let ours: HashSet<&TaskId> = ids
            .iter()
            .filter(|id| !report.moved.contains(*id))
            .collect();
        let mut came = self.store.transfer()?.ids().await?;
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
