//! [`Deferral`]: decides which tasks this node defers to other nodes, and for how long.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use windlass_statemachine::{Fence, Task, TaskId, TaskState};

use crate::{
    balancer::{self, Balancer, Cluster, Peer, Requirements},
    store::{NodeSpec, TaskView},
};

/// How long a task is deferred for each node that ranks before this one, and the total limit.
const STEP: Duration = Duration::from_millis(50);
const LONGEST_STEP: Duration = Duration::from_secs(2);
/// The longest deferral. An older entry is out of date.
const LONGEST_DEFERRED: Duration = Duration::from_secs(10);
/// When a task that the balancer did not take is tried again, approximately.
const NOT_TAKEN: Duration = Duration::from_secs(1);
/// How many released tasks are remembered before outdated ones are dropped.
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
    /// Tasks that are deferred to nodes that rank before this one, with the start of the deferral.
    deferred: Remembered<Instant>,
    /// Tasks that this node has just released.
    released: Remembered<Release>,
}

/// The release of a task with this order. The task is deferred to other nodes until `until`. The
/// next task with the same id has another order.
#[derive(Debug, Clone, Copy)]
struct Release {
    order: u64,
    until: Instant,
    /// Whether signals, and no other commands, were queued for it.
    signalled: bool,
}

/// The state of the node on which the decision about a task depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// How many slots of this node are in use.
    pub(super) active: u32,
    /// How long a claim takes at present.
    pub(super) claim_takes: Duration,
    pub(super) now: Instant,
    /// A random number from 0 to 1.
    pub(super) jitter: f64,
}

impl Deferral {
    pub(super) fn new(me: Peer, balancer: Arc<dyn Balancer>) -> Self {
        Self {
            balancer,
            me,
            others: Vec::new(),
            deferred: Remembered::new(DEFERRED_AT_LEAST),
            released: Remembered::new(RELEASED_AT_LEAST),
        }
    }

    /// Updates the live nodes.
    pub(super) fn set_nodes(&mut self, nodes: impl Iterator<Item = Peer>) {
        let me = &self.me.name;
        self.others = nodes.filter(|node| node.name != *me).collect();
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
    /// ranks before this one, and about a second when the balancer does not take it.
    pub(super) fn deferred_until(&mut self, view: &TaskView, load: Load) -> Option<Instant> {
        let until = self.defers(view, load);
        match until {
            Some(Defers::Waits { since, until }) => {
                self.deferred.entries.insert(view.id.clone(), since);
                self.deferred
                    .forget(|since| load.now.duration_since(*since) < LONGEST_DEFERRED);
                Some(until)
            }
            Some(Defers::NotTaken { until }) => {
                self.deferred.entries.remove(&view.id);
                Some(until)
            }
            None => {
                self.deferred.entries.remove(&view.id);
                None
            }
        }
    }

    fn defers(&mut self, view: &TaskView, load: Load) -> Option<Defers> {
        self.me.claims = u64::from(load.active);
        let cluster = Cluster {
            me: &self.me,
            others: &self.others,
        };
        if !self.balancer.takes(&cluster, view) {
            let until = load.now + NOT_TAKEN.mul_f64(0.5 + load.jitter);
            return Some(Defers::NotTaken { until });
        }
        if self.others.is_empty() {
            return None;
        }
        let before = balancer::rank(&cluster, &view.id, view.into());
        if before == 0 {
            return None;
        }
        let since = self.deferred.entries.get(&view.id).copied();
        let since = since.unwrap_or(load.now);
        // When the store is slow, it is slow for the other nodes too, and a second claim of the same
        // task would make it slower. The deferral is computed again with the present duration of a
        // claim.
        let step = STEP.max(load.claim_takes * 2);
        let until = since + (step * before as u32).min(LONGEST_STEP);
        (until > load.now).then_some(Defers::Waits { since, until })
    }

    /// Drops the deferral of a task: another node has it, or it is gone.
    pub(super) fn forget_deferred(&mut self, task: &TaskId) {
        self.deferred.entries.remove(task);
    }

    /// Defers a task that this node releases.
    pub(super) fn release(&mut self, task: &TaskId, order: u64, until: Instant) {
        let release = Release {
            order,
            until,
            signalled: false,
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

    /// Drops the release of a task with this order, or of an earlier one with its id.
    pub(super) fn forget_release_upto(&mut self, task: &TaskId, order: u64) {
        let released = self.released.entries.get(task);
        if released.is_some_and(|release| release.order <= order) {
            self.released.entries.remove(task);
        }
    }

    /// Drops outdated releases when many are remembered.
    pub(super) fn forget_past(&mut self, now: Instant) {
        self.released.forget(|release| release.until > now);
    }

    /// Returns the tasks that the balancer releases for other nodes. The balancer compares this node
    /// with the nodes that could take the same tasks, group by group, until it releases any.
    pub(super) fn released_by_balancer<'a>(
        &mut self,
        running: impl Iterator<Item = Running<'a>>,
        load: Load,
    ) -> Vec<TaskId> {
        self.me.claims = u64::from(load.active);
        let mut groups = self.groups(running);
        if groups.is_empty() {
            groups.insert(vec![true; self.others.len()], Vec::new());
        }
        for (able, mine) in groups {
            let others = self.others.iter().zip(able).filter(|(_, able)| *able);
            let others: Vec<Peer> = others.map(|(other, _)| other.clone()).collect();
            let mine: Vec<TaskId> = mine.into_iter().map(|(_, task)| task).collect();
            let cluster = Cluster {
                me: &self.me,
                others: &others,
            };
            let back = self.balancer.gives_back(&cluster, &mine, load.jitter);
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
enum Defers {
    /// Nodes rank before this one.
    Waits { since: Instant, until: Instant },
    /// The balancer does not take it.
    NotTaken { until: Instant },
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
            entries: HashMap::new(),
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
