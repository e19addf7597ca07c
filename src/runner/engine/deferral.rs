//! [`Deferral`]: decides which tasks this node defers to other nodes, and for how long.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;
use windlass_statemachine::{Fence, Task, TaskId, TaskState};

use crate::hash::HashMap;
use crate::{
    balancer::{self, Balancer, Cluster, Decision, Peer, Requirements},
    store::{NodeSpec, TaskView},
};

/// How long a task is deferred for each node that ranks before this one, and the total limit.
const STEP: Duration = Duration::from_millis(50);
const LONGEST_STEP: Duration = Duration::from_secs(2);
/// How long after its end a deferral is remembered at most. An older entry is out of date.
const LONGEST_DEFERRED: Duration = Duration::from_secs(10);
/// The longest wait for a task that the balancer takes later.
const LONGEST_IGNORED: Duration = Duration::from_secs(366 * 24 * 3600);
/// When a task that the balancer did not take is tried again, approximately.
const NOT_TAKEN: Duration = Duration::from_secs(1);
/// How many released and ignored tasks are remembered before outdated ones are dropped.
const RELEASED_AT_LEAST: usize = 1024;
/// How many deferred tasks are remembered before outdated ones are dropped.
const DEFERRED_AT_LEAST: usize = 100_000;

/// The other nodes that this node knows, and the tasks that it defers to them.
#[derive(Debug)]
pub(super) struct Deferral {
    balancer: Arc<dyn Balancer>,
    /// This node, as a balancer sees it.
    me: Peer,
    /// The other live nodes, as they were at most a few seconds ago.
    others: Vec<Peer>,
    /// Since when this node knows the cluster.
    known_since: Instant,
    /// Tasks that are deferred to other nodes.
    deferred: Remembered<Wait>,
    /// Tasks that this node has just released.
    released: Remembered<Release>,
    /// Tasks about which the balancer is not asked before a time.
    ignored: Remembered<Ignored>,
}

/// A task is deferred to nodes that rank before this one, or because the balancer takes it later.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Instant,
    until: Instant,
}

/// The balancer does not take the task with this order before `until`.
#[derive(Debug, Clone, Copy)]
struct Ignored {
    order: u64,
    until: Instant,
    /// Whether the balancer was asked about a commanded task.
    commanded: bool,
}

/// The release of a task with this order. The task is deferred to other nodes until `until`. The
/// next task with the same id has another order.
#[derive(Debug, Clone, Copy)]
struct Release {
    order: u64,
    until: Instant,
    /// Whether signals, and no other commands, were queued for it.
    signalled: bool,
    taken: Taken,
}

/// Whether another node has claimed a released task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    No,
    /// The claims of the node, as they were read last, do not include it yet.
    SinceTheRead,
    Yes,
}

/// The state of the node on which the decision about a task depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// How many slots of this node are in use.
    pub(super) active: u32,
    /// How many free tasks this node has put off.
    pub(super) put_off: u64,
    /// How long a claim takes at present.
    pub(super) claim_takes: Duration,
    pub(super) now: Instant,
    /// A random number from 0 to 1.
    pub(super) jitter: f64,
}

/// The tasks that this node is about to release.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Leaving {
    pub(super) tasks: u64,
    /// How many of them use a slot.
    pub(super) active: u32,
}

impl Deferral {
    pub(super) fn new(me: Peer, balancer: Arc<dyn Balancer>) -> Self {
        Self {
            balancer,
            me,
            others: Vec::new(),
            known_since: Instant::now(),
            deferred: Remembered::new(DEFERRED_AT_LEAST),
            released: Remembered::new(RELEASED_AT_LEAST),
            ignored: Remembered::new(RELEASED_AT_LEAST),
        }
    }

    /// Updates the live nodes.
    pub(super) fn set_nodes(&mut self, nodes: impl Iterator<Item = Peer>) {
        let me = &self.me.name;
        self.others = nodes.filter(|node| node.name != *me).collect();
        for release in self.released.entries.values_mut() {
            if release.taken == Taken::SinceTheRead {
                release.taken = Taken::Yes;
            }
        }
    }

    /// Updates the description of this node.
    pub(super) fn set_me(&mut self, spec: NodeSpec) {
        self.me = Peer::from(spec);
    }

    /// Returns whether this node can run such tasks: it has a handler, can read their data, and they
    /// have the labels that it selects.
    pub(super) fn fits(&self, requires: Requirements<'_>) -> bool {
        self.me.fits(requires)
    }

    /// Returns until when this task is deferred to other nodes, if it is: a moment for each node that
    /// ranks before this one, and as the balancer decides.
    pub(super) fn deferred_until(&mut self, view: &TaskView, load: Load) -> Option<Instant> {
        if let Some(until) = self.ignored_until(view, load.now) {
            return Some(until);
        }
        let defers = self.defers(view, load);
        match defers {
            Some(Defers::Waits(wait)) => {
                self.deferred.entries.insert(view.id.clone(), wait);
                self.deferred
                    .forget(|wait| load.now < wait.until + LONGEST_DEFERRED);
                return Some(wait.until);
            }
            Some(Defers::Ignored { until }) => {
                let ignored = Ignored {
                    order: view.order,
                    until,
                    commanded: view.commanded,
                };
                self.ignored.entries.insert(view.id.clone(), ignored);
            }
            Some(Defers::NotTaken { .. }) | None => {}
        }
        self.deferred.entries.remove(&view.id);
        match defers? {
            Defers::Waits(Wait { until, .. })
            | Defers::NotTaken { until }
            | Defers::Ignored { until } => Some(until),
        }
    }

    /// Returns until when the balancer is not asked about the task.
    fn ignored_until(&self, view: &TaskView, now: Instant) -> Option<Instant> {
        let ignored = self.ignored.entries.get(&view.id)?;
        let holds = ignored.order == view.order
            && ignored.until > now
            && ignored.commanded >= view.commanded;
        holds.then_some(ignored.until)
    }

    fn defers(&mut self, view: &TaskView, load: Load) -> Option<Defers> {
        self.me.claims = u64::from(load.active);
        let cluster = Cluster {
            passed_on: load.put_off,
            known_for: load.now.saturating_duration_since(self.known_since),
            ..Cluster::new(&self.me, &self.others)
        };
        let pause = match self.balancer.takes(&cluster, view) {
            Decision::Take => Duration::ZERO,
            Decision::TakeAfter(pause) => pause,
            Decision::NotBefore(until) if until > load.now => {
                return Some(Defers::Ignored { until });
            }
            Decision::NotNow | Decision::NotBefore(_) => {
                let until = load.now + NOT_TAKEN.mul_f64(0.5 + load.jitter);
                return Some(Defers::NotTaken { until });
            }
        };
        let before = match self.others.is_empty() {
            true => 0,
            false => balancer::rank(&cluster, &view.id, view.into()),
        };
        if before == 0 && pause.is_zero() {
            return None;
        }
        let since = self.deferred.entries.get(&view.id).map(|wait| wait.since);
        let since = since.unwrap_or(load.now);
        // When the store is slow, it is slow for the other nodes too, and a second claim of the same
        // task would make it slower. The deferral is computed again with the present duration of a
        // claim.
        let step = STEP.max(load.claim_takes * 2);
        let until = since
            .checked_add(pause)
            .unwrap_or(load.now + LONGEST_IGNORED)
            + (step * before as u32).min(LONGEST_STEP);
        (until > load.now).then_some(Defers::Waits(Wait { since, until }))
    }

    /// Drops the deferral of a task: another node has it, or it is gone.
    pub(super) fn forget_deferred(&mut self, task: &TaskId) {
        self.deferred.entries.remove(task);
        if let Some(release) = self.released.entries.get_mut(task)
            && release.taken == Taken::No
        {
            release.taken = Taken::SinceTheRead;
        }
    }

    /// Defers a task that this node releases.
    pub(super) fn release(&mut self, task: &TaskId, order: u64, until: Instant) {
        let release = Release {
            order,
            until,
            signalled: false,
            taken: Taken::No,
        };
        self.released.entries.insert(task.clone(), release);
    }

    /// Defers a runnable task that this node releases while signals are queued for it. The task needs a
    /// slot like any other runnable task, although the store reports it as commanded.
    pub(super) fn release_with_signals(&mut self, task: &TaskId, order: u64, until: Instant) {
        let release = Release {
            order,
            until,
            signalled: true,
            taken: Taken::No,
        };
        self.released.entries.insert(task.clone(), release);
    }

    /// Returns whether only signals are queued for a runnable task that this node has released.
    pub(super) fn waits_for_room(&self, view: &TaskView, now: Instant) -> bool {
        let release = self.released.entries.get(&view.id);
        let is_runnable = view.due.is_some() && !view.sleeping;
        let here = |r: &Release| r.signalled && r.order == view.order && r.until > now;
        is_runnable && release.is_some_and(here)
    }

    /// Returns until when the task is deferred because this node has released it.
    pub(super) fn released_until(&self, view: &TaskView, now: Instant) -> Option<Instant> {
        let release = self.released.entries.get(&view.id)?;
        (release.order == view.order && release.until > now).then_some(release.until)
    }

    /// Drops the release of a task.
    pub(super) fn forget_release(&mut self, task: &TaskId) {
        self.released.entries.remove(task);
    }

    /// Drops what is remembered of a task with this order, or of an earlier one with its id: it is gone.
    pub(super) fn forget_upto(&mut self, task: &TaskId, order: u64) {
        let ignored = self.ignored.entries.get(task);
        if ignored.is_some_and(|ignored| ignored.order <= order) {
            self.ignored.entries.remove(task);
        }
        let released = self.released.entries.get(task);
        if released.is_some_and(|release| release.order <= order) {
            self.released.entries.remove(task);
        }
    }

    /// Drops outdated entries when many are remembered.
    pub(super) fn forget_past(&mut self, now: Instant) {
        self.released.forget(|release| release.until > now);
        self.ignored.forget(|ignored| ignored.until > now);
    }

    /// Returns the tasks that the balancer releases for other nodes. The balancer compares this node
    /// with the nodes that could take the same tasks, group by group, until it releases any.
    pub(super) fn released_by_balancer<'a>(
        &mut self,
        running: impl Iterator<Item = Running<'a>>,
        leaving: Leaving,
        load: Load,
    ) -> Vec<TaskId> {
        self.me.claims = u64::from(load.active.saturating_sub(leaving.active));
        let (mut free, mut taken) = (0, 0);
        let released = self.released.entries.values();
        for release in released.filter(|release| release.until > load.now) {
            free += u64::from(release.taken == Taken::No);
            taken += u64::from(release.taken == Taken::SinceTheRead);
        }
        // A released task is put off as soon as the store reports that it is free.
        let passed_on = leaving.tasks + load.put_off.max(free) + taken;
        let known_for = load.now.saturating_duration_since(self.known_since);
        let mut groups = self.groups(running);
        if groups.is_empty() {
            groups.insert(vec![true; self.others.len()], Vec::new());
        }
        for (able, mine) in groups {
            let others = self.others.iter().zip(able).filter(|(_, able)| *able);
            let others: Vec<Peer> = others.map(|(other, _)| other.clone()).collect();
            let mine: Vec<TaskId> = mine.into_iter().map(|(_, task)| task).collect();
            let cluster = Cluster {
                passed_on,
                known_for,
                ..Cluster::new(&self.me, &others)
            };
            let back = self.balancer.releases(&cluster, &mine, load.jitter);
            if !back.is_empty() {
                return back;
            }
        }
        Vec::new()
    }

    /// Groups tasks by the other nodes that could take them, oldest claim first. A task that no other
    /// node could take belongs to no group. While no other node is known, all tasks are one group.
    fn groups<'a>(
        &self,
        running: impl Iterator<Item = Running<'a>>,
    ) -> BTreeMap<Vec<bool>, Vec<(Fence, TaskId)>> {
        let mut groups = BTreeMap::<_, Vec<_>>::new();
        for Running { fence, task, state } in running {
            let requires = Requirements::new(task, state);
            let could_take = |other: &Peer| other.could_take(requires);
            let able: Vec<bool> = self.others.iter().map(could_take).collect();
            if able.is_empty() || able.contains(&true) {
                groups
                    .entry(able)
                    .or_default()
                    .push((fence, task.id.clone()));
            }
        }
        groups.values_mut().for_each(|mine| mine.sort_unstable());
        groups
    }
}

/// A task that runs here.
pub(super) struct Running<'a> {
    pub(super) fence: Fence,
    pub(super) task: &'a Task,
    pub(super) state: &'a TaskState,
}

/// Why a task is deferred.
#[derive(Debug, Clone, Copy)]
enum Defers {
    /// Nodes rank before this one, or the balancer takes it later.
    Waits(Wait),
    /// The balancer does not take it.
    NotTaken { until: Instant },
    /// The balancer is not asked again before this time.
    Ignored { until: Instant },
}

/// A map that drops outdated entries when it has grown.
#[derive(Debug)]
struct Remembered<V> {
    entries: HashMap<TaskId, V>,
    at_least: usize,
    forget_at: usize,
}

impl<V> Remembered<V> {
    fn new(at_least: usize) -> Self {
        Self {
            entries: HashMap::default(),
            at_least,
            forget_at: at_least,
        }
    }

    /// Checks all entries, but only after as many were added as were kept the last time.
    fn forget(&mut self, keep: impl Fn(&V) -> bool) {
        if self.entries.len() >= self.forget_at {
            self.entries.retain(|_, entry| keep(entry));
            self.forget_at = (self.entries.len() * 2).max(self.at_least);
        }
    }
}

#[cfg(test)]
#[path = "deferral_tests.rs"]
mod tests;
