//! Counts the tasks by kind, with the reasons why tasks are not run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_statemachine::{Bound, Kind, Limit, StateKind};

use super::{
    Client, WaitReason,
    counted::{HeldBack, KindStats, Stats, grouped, sort},
    reasons::{MOST_READ, in_use, mark},
    waits::{CLAIMED_WITHIN, Wanted},
};
use crate::store::{
    Availability, Error, Filter, LimitUse, LimitedBy, NodeRecord, TaskCount, TaskRecord, TaskStats,
    rules::stats::by_state,
};

/// How many tasks of a kind are examined for their labels or limits at most.
const EXAMINED: usize = 1000;

impl Client {
    /// Returns how many tasks there are by kind: how many a node can claim now, how many sleep or wait, and why tasks
    /// that could run do not.
    ///
    /// SQLite and an etcd store with an index in memory (`memory-index=true`) keep counts, so the call takes
    /// milliseconds, however many tasks there are. It reads an index entry for each sleeping task whose time has come,
    /// and up to 2,000 live tasks to find the oldest. Other stores read every task. The reason `labels` is determined
    /// from the first 1,000 live tasks of a kind among the first 10,000 of all, and only if a node of the kind selects labels
    /// and no other node of it has room; so are the reasons of tasks which the node with room does not take, and, while no node of
    /// a kind has a free slot, the tasks one of whose limits is full.
    /// The first 1,000 tasks that wait for others are read, of all kinds together, and at most 10,000 of those that they
    /// wait for: tasks whose waits are over count as available, and for what else holds them back, as in
    /// [`wait_reasons`](Self::wait_reasons). While more tasks are claimed than live nodes have claims, the first 10,000
    /// claimed tasks are read, for the reason `lost`. Each of these is one read, however many kinds there are.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, client::WaitReason, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// client.submit(NewTask::new("report")).await?;
    /// let stats = client.stats().await?;
    /// assert_eq!(stats.kinds[0].available, 1);
    /// assert_eq!(stats.kinds[0].held_back[0].reason, WaitReason::NoNode);
    /// # Ok(()) }
    /// ```
    pub async fn stats(&self) -> Result<Stats, Error> {
        let registry = self.store.registry();
        let nodes = registry.nodes().await?;
        let limits = in_use(self).await?;
        let counted = registry.stats().await?;
        let at = counted.at;
        let mut kinds = kinds(&counted, &nodes, &limits);
        let may_await =
            |of: &KindStats| of.awaiting_signal > 0 || (of.claimed > 0 && registry.keeps_counts());
        if kinds.iter().any(|(of, _)| may_await(of)) {
            self.read_awaiting(&mut kinds, &nodes, at).await?;
        }
        self.read_live(&mut kinds, (&nodes, &limits), at).await?;
        if kinds.iter().any(|(of, _)| of.waiting > 0) {
            self.read_waits(&mut kinds, &nodes, at).await?;
        }
        // Live nodes have no claim of a task whose node has died.
        let claimed: u64 = kinds.iter().map(|(of, _)| of.claimed).sum();
        if claimed > nodes.iter().map(|node| node.claims).sum() {
            self.read_lost(&mut kinds, &nodes, at).await?;
        }
        let mut held = kinds.iter().flat_map(|(of, _)| &of.held_back);
        if held.any(|held| held.reason.is_of_nodes())
            && let Some(mark) = mark(self).await?
        {
            for (of, _) in &mut kinds {
                of.are_copied(&mark);
            }
        }
        Ok(Stats {
            at,
            counts: counts(&counted),
            kinds: kinds.into_iter().map(|(of, _)| of).collect(),
            limits,
            is_scan: !registry.keeps_counts(),
            refused_rows: registry.refused_rows().await?,
        })
    }

    /// Adds the reasons that depend on the labels and the limits of single tasks, of the kinds that may have such tasks. They
    /// are read once for all these kinds.
    async fn read_live(
        &self,
        kinds: &mut [(KindStats, bool)],
        (nodes, limits): (&[NodeRecord], &[LimitUse]),
        now: Timestamp,
    ) -> Result<(), Error> {
        let read = kinds.iter_mut().filter_map(|(of, by_labels)| {
            let by_limits = may_be_limited(of, limits);
            (*by_labels || by_limits).then_some((of, *by_labels, by_limits))
        });
        let mut read: Vec<(&mut KindStats, bool, bool)> = read.collect();
        if read.is_empty() {
            return Ok(());
        }
        let live = StateKind::ALL
            .into_iter()
            .filter(|state| !state.is_terminal());
        let filter = Filter {
            kind: match read.as_slice() {
                [(only, ..)] => Some(only.kind.clone()),
                _ => None,
            },
            states: live.collect(),
            ..Filter::default()
        };
        let records = self.first_of_stats(&filter).await?;
        let is_part = records.len() >= MOST_READ;
        for (of, by_labels, by_limits) in &mut read {
            let of_kind = records.iter().filter(|one| one.task.kind == of.kind);
            let of_kind: Vec<_> = of_kind.take(EXAMINED).collect();
            let at_least = is_part || of_kind.len() >= EXAMINED;
            if *by_labels {
                add_labelled(of, (&of_kind, at_least), nodes, now);
            }
            if *by_limits {
                add_limited(of, (&of_kind, at_least), (nodes, limits), now);
            }
        }
        Ok(())
    }
}

/// Adds the tasks whose labels no node selects, or no node with room.
fn add_labelled(
    of: &mut KindStats,
    (records, at_least): (&[&TaskRecord], bool),
    nodes: &[NodeRecord],
    now: Timestamp,
) {
    let (mut labels, mut others) = (Vec::new(), Vec::new());
    for record in records {
        match WaitReason::of(record, nodes, now) {
            Some(reason @ WaitReason::Labels(_)) => labels.push(reason),
            Some(
                reason @ (WaitReason::NotClaiming(_)
                | WaitReason::Fault { .. }
                | WaitReason::Full(_)),
            ) if group_has_room(record, nodes, now) => others.push(reason),
            _ => {}
        }
    }
    of.labels_hold(grouped(labels.into_iter(), at_least));
    of.also_held(grouped(others.into_iter(), at_least));
}

/// Adds the tasks for which no node has a free slot, and one of whose limits is full as well.
fn add_limited(
    of: &mut KindStats,
    (records, at_least): (&[&TaskRecord], bool),
    (nodes, limits): (&[NodeRecord], &[LimitUse]),
    now: Timestamp,
) {
    let reasons = records.iter().filter_map(|record| {
        let full = WaitReason::of(record, nodes, now)
            .filter(|reason| matches!(reason, WaitReason::Full(_)))?;
        let both = full.with_limits(&record.task.limits, limits);
        matches!(both, WaitReason::Limit(_)).then_some(both)
    });
    of.limits_hold(grouped(reasons, at_least));
}

/// Returns whether tasks of the kind that find no free slot may wait for a limit as well.
fn may_be_limited(of: &KindStats, limits: &[LimitUse]) -> bool {
    let mut held = of.held_back.iter();
    let is_full = |of: &LimitUse| of.limit.as_ref().is_some_and(|l| free(l, of.taken) == 0);
    held.any(|held| matches!(held.reason, WaitReason::Full(_))) && limits.iter().any(is_full)
}

/// Returns whether a node has room for a task of the group of this one: then the group has no reason, and the task may have
/// one because of its labels.
fn group_has_room(record: &TaskRecord, nodes: &[NodeRecord], now: Timestamp) -> bool {
    let state = record.state.as_ref().ok();
    let group = state.map(|state| Wanted::of_group(record, state, now));
    group.is_some_and(|group| WaitReason::for_room(group, nodes).is_ok())
}

/// Returns the counts by kind and state.
fn counts(counted: &TaskStats) -> Vec<TaskCount> {
    let groups = counted.groups.iter();
    by_state(groups.map(|group| {
        let is_claimed = group.availability == Availability::Claimed;
        (&group.kind, group.state, group.tasks, is_claimed)
    }))
}

/// Returns the counts by kind, and for each kind whether labels may hold back some of its tasks.
fn kinds(counted: &TaskStats, nodes: &[NodeRecord], limits: &[LimitUse]) -> Vec<(KindStats, bool)> {
    let mut kinds = BTreeMap::<&Kind, Gathered>::new();
    for group in &counted.groups {
        let of = kinds
            .entry(&group.kind)
            .or_insert_with(|| Gathered::new(&group.kind));
        let stats = &mut of.stats;
        let count = match group.availability {
            Availability::Available => {
                stats.oldest_due = stats.oldest_due.into_iter().chain(group.oldest_due).min();
                let versions = of.available.entry(group.data_version).or_default();
                versions.0 += group.tasks;
                versions.1 = versions.1.into_iter().chain(group.oldest_due).min();
                &mut stats.available
            }
            Availability::Future => &mut stats.future,
            Availability::Waiting => &mut stats.waiting,
            Availability::AwaitsSignal => &mut stats.awaiting_signal,
            Availability::Paused => &mut stats.paused,
            Availability::Claimed => &mut stats.claimed,
            Availability::Ended => &mut stats.ended,
            Availability::Quarantined => &mut stats.quarantined,
        };
        *count += group.tasks;
    }
    let gathered = kinds.into_values();
    gathered
        .map(|of| of.with_reasons(counted, nodes, limits))
        .collect()
}

/// Returns how many slots of a limit are free.
fn free(limit: &Limit, taken: u32) -> u64 {
    let (Bound::AtOnce(most) | Bound::Starts { most, .. }) = limit.bound();
    most.saturating_sub(taken).into()
}

/// The counts of a kind, and its available tasks by data version, with the first due time.
struct Gathered {
    stats: KindStats,
    available: BTreeMap<u32, (u64, Option<Timestamp>)>,
}

impl Gathered {
    fn new(kind: &Kind) -> Self {
        let stats = KindStats {
            kind: kind.clone(),
            available: 0,
            limited: 0,
            future: 0,
            waiting: 0,
            awaiting_signal: 0,
            paused: 0,
            claimed: 0,
            ended: 0,
            quarantined: 0,
            oldest_due: None,
            oldest_at_least: false,
            held_back: Vec::new(),
        };
        Self {
            stats,
            available: BTreeMap::new(),
        }
    }

    /// Determines the reasons of the groups. As for a single task, a limit is the reason only for tasks that
    /// a node could otherwise claim.
    fn with_reasons(
        mut self,
        counted: &TaskStats,
        nodes: &[NodeRecord],
        limits: &[LimitUse],
    ) -> (KindStats, bool) {
        let kind = self.stats.kind.clone();
        self.stats.oldest_at_least = !counted.oldest_is_complete && self.stats.available > 0;
        let mut by_labels = false;
        let (mut takeable, mut full) = (0, None);
        for (version, (tasks, oldest)) in std::mem::take(&mut self.available) {
            let due = oldest.unwrap_or(counted.at);
            let wanted = Wanted {
                kind: &kind,
                version,
                labels: None,
                overdue: counted.at.duration_since(due) >= CLAIMED_WITHIN,
            };
            match WaitReason::for_room(wanted, nodes) {
                Err(reason @ WaitReason::Full(_)) => {
                    takeable += tasks;
                    let (of_full, _) = full.get_or_insert((0, reason));
                    *of_full += tasks;
                }
                Err(reason) => self.hold(reason, tasks, false),
                Ok(()) => takeable += tasks,
            }
            by_labels |= wanted.depends_on_labels(nodes);
        }
        for held in counted.held.iter().filter(|held| held.kind == kind) {
            let mut uses = limits.iter();
            let of = uses.find(|of| of.key == held.key && of.form == held.form);
            let found = of.and_then(|of| Some((of.limit.clone()?, of.taken, of.next)));
            let Some((limit, taken, until)) = found else {
                continue;
            };
            self.stats.limited += held.tasks.saturating_sub(free(&limit, taken));
            let tasks = held.tasks.min(takeable);
            takeable -= tasks;
            let mut limited = LimitedBy {
                until,
                ..LimitedBy::new(limit)
            };
            if let Some((_, WaitReason::Full(nodes))) = &full {
                limited.full.clone_from(nodes);
            }
            self.hold(WaitReason::Limit(limited), tasks, !counted.held_is_complete);
        }
        self.stats.limited = self.stats.limited.min(self.stats.available);
        if let Some((tasks, reason)) = full {
            self.hold(reason, tasks.min(takeable), false);
        }
        let (waiting, awaiting) = (self.stats.waiting, self.stats.awaiting_signal);
        self.hold(WaitReason::Signal(None), awaiting, false);
        self.hold(WaitReason::Tasks(Vec::new()), waiting, false);
        sort(&mut self.stats.held_back);
        (self.stats, by_labels)
    }

    fn hold(&mut self, reason: WaitReason, tasks: u64, at_least: bool) {
        if tasks == 0 {
            return;
        }
        let mut known = self.stats.held_back.iter_mut();
        // Tasks with different versions of their data may have the same reason.
        if let Some(same) = known.find(|held| held.reason == reason) {
            same.tasks += tasks;
            return;
        }
        self.stats.held_back.push(HeldBack {
            reason,
            tasks,
            at_least,
        });
    }
}

#[cfg(test)]
mod tests;
