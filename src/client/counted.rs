//! [`Stats`]: the numbers of tasks and the reasons why tasks are not run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_statemachine::Kind;

use super::waits::WaitReason;
use crate::store::{LimitUse, RefusedRows, TaskCount, copy::Copied};

/// The numbers of a namespace's tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The time of the counts, by the clock of this process.
    pub at: Timestamp,
    /// How many tasks there are by kind and state, in this order.
    pub counts: Vec<TaskCount>,
    /// The kinds that have tasks, by name.
    pub kinds: Vec<KindStats>,
    /// The limits in use.
    pub limits: Vec<LimitUse>,
    /// Whether every task was read for the counts, because the store keeps none.
    pub is_scan: bool,
    /// The rows of the inbox that were refused: their tasks and commands do not exist.
    pub refused_rows: RefusedRows,
}

/// How many tasks of a kind there are. Each task counts in exactly one of the numbers ([`limited`](Self::limited) is a part of
/// [`available`](Self::available)); [`held_back`](Self::held_back)
/// adds why tasks of `available` and `waiting` are not run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStats {
    /// The kind.
    pub kind: Kind,
    /// Tasks that are due and that no node has claimed; also those whose waits have ended, as far as they were read.
    pub available: u64,
    /// Those of them that wait for a slot of a limit, whether a node could otherwise claim them or not: more nodes would not help.
    /// A task waits for a slot once a node has tried to claim it, and when one of its limits is full while no node has a free
    /// slot (as far as tasks were read: the first 1,000 live tasks of the kind).
    pub limited: u64,
    /// Tasks that sleep until a later time.
    pub future: u64,
    /// Tasks that wait for other tasks.
    pub waiting: u64,
    /// Tasks that wait for a signal that their handler has declared.
    pub awaiting_signal: u64,
    /// Tasks that are paused for another reason.
    pub paused: u64,
    /// Tasks that a node has claimed.
    pub claimed: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// Tasks whose record cannot be read.
    pub quarantined: u64,
    /// Since when the first available task could be claimed, if it is known: its due time, or the end of its last claim.
    pub oldest_due: Option<Timestamp>,
    /// Whether an older task may be available. For `oldest_due` SQLite reads only the first 2,000 live
    /// tasks in submit order, and all sleeping tasks that are due.
    pub oldest_at_least: bool,
    /// Why tasks are not run, the reason with the most tasks first. A node will claim an available task without a
    /// reason.
    pub held_back: Vec<HeldBack>,
}

/// Tasks of a kind that are not run for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBack {
    /// The reason.
    pub reason: WaitReason,
    /// The number of tasks.
    pub tasks: u64,
    /// Whether there may be more tasks: only a part was read, since the reason depends on labels or on limits (the
    /// first 1,000 live tasks of the kind), or on more than 10,000 tasks in the lines of limits.
    pub at_least: bool,
}

impl KindStats {
    /// Gives the tasks that a node could claim the mark of a copy as their reason.
    pub(super) fn are_copied(&mut self, mark: &Copied) {
        let (of_nodes, mut rest) = std::mem::take(&mut self.held_back)
            .into_iter()
            .partition::<Vec<HeldBack>, _>(|held| {
                held.reason.is_of_nodes() || matches!(held.reason, WaitReason::Copied(_))
            });
        let tasks = of_nodes.iter().map(|held| held.tasks).sum();
        if tasks > 0 {
            rest.push(HeldBack {
                reason: WaitReason::Copied(mark.clone()),
                tasks,
                at_least: of_nodes.iter().any(|held| held.at_least),
            });
        }
        sort(&mut rest);
        self.held_back = rest;
    }

    /// Moves tasks whose waits of a kind are over to other reasons; the rest of them a node will claim.
    pub(super) fn waits_are_over(
        &mut self,
        over: u64,
        found: impl IntoIterator<Item = HeldBack>,
        is_wait: impl Fn(&WaitReason) -> bool,
    ) {
        for held in &mut self.held_back {
            if is_wait(&held.reason) {
                held.tasks = held.tasks.saturating_sub(over);
            }
        }
        self.held_back.retain(|held| held.tasks > 0);
        self.also_held(found);
    }

    /// Adds the tasks whose labels no node selects. As for a single task, this reason takes precedence over the state of
    /// the nodes, so these tasks no longer count under that.
    pub(super) fn labels_hold(&mut self, found: Vec<HeldBack>) {
        self.moves(found, |reason| {
            matches!(
                reason,
                WaitReason::NotClaiming(_) | WaitReason::Fault { .. } | WaitReason::Full(_)
            )
        });
    }

    /// Moves tasks from the nodes without a free slot to the limits that hold them back as well.
    pub(super) fn limits_hold(&mut self, found: Vec<HeldBack>) {
        let tasks: u64 = found.iter().map(|held| held.tasks).sum();
        self.limited = (self.limited + tasks).min(self.available);
        self.moves(found, |reason| matches!(reason, WaitReason::Full(_)));
    }

    /// Moves tasks to the reasons that were found, from others.
    fn moves(&mut self, found: Vec<HeldBack>, from: impl Fn(&WaitReason) -> bool) {
        let mut tasks: u64 = found.iter().map(|held| held.tasks).sum();
        for held in self.held_back.iter_mut().filter(|held| from(&held.reason)) {
            let moved = held.tasks.min(tasks);
            held.tasks -= moved;
            tasks -= moved;
        }
        self.held_back.retain(|held| held.tasks > 0);
        self.also_held(found);
    }

    /// Adds tasks with reasons of their own.
    pub(super) fn also_held(&mut self, found: impl IntoIterator<Item = HeldBack>) {
        for held in found {
            let mut known = self.held_back.iter_mut();
            match known.find(|known| known.reason == held.reason) {
                Some(known) => {
                    known.tasks += held.tasks;
                    known.at_least |= held.at_least;
                }
                None => self.held_back.push(held),
            }
        }
        sort(&mut self.held_back);
    }
}

impl Stats {
    /// Returns the number of tasks.
    pub fn tasks(&self) -> u64 {
        self.counts.iter().map(|count| count.tasks).sum()
    }
}

/// Sorts reasons, the most tasks first.
/// Counts tasks by their reason.
pub(super) fn grouped(reasons: impl Iterator<Item = WaitReason>, at_least: bool) -> Vec<HeldBack> {
    let mut found = BTreeMap::<String, HeldBack>::new();
    for reason in reasons {
        let none = || HeldBack {
            reason: reason.clone(),
            tasks: 0,
            at_least,
        };
        let held = found.entry(reason.to_string()).or_insert_with(none);
        held.tasks += 1;
    }
    found.into_values().collect()
}

pub(super) fn sort(held_back: &mut [HeldBack]) {
    held_back.sort_by(|a, b| {
        (b.tasks, a.reason.kind().as_str()).cmp(&(a.tasks, b.reason.kind().as_str()))
    });
}
