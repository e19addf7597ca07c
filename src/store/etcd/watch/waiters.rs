//! [`Waiters`]: the tasks that wait for others, according to their marks.

use std::collections::{HashMap, HashSet};

use windlass_statemachine::TaskId;

#[derive(Default)]
pub(super) struct Waiters {
    /// The tasks that each waiting task waits for.
    waits: HashMap<TaskId, Vec<TaskId>>,
    /// The tasks that wait for each task.
    waiters: HashMap<TaskId, HashSet<TaskId>>,
    /// The live tasks of kinds that the node does not list; listed tasks may wait for them.
    others: HashSet<TaskId>,
}

impl Waiters {
    /// Records what a task waits for; most do not wait.
    pub(super) fn put(&mut self, id: &TaskId, waits: Vec<TaskId>) {
        self.remove(id);
        for of in &waits {
            self.waiters
                .entry(of.clone())
                .or_default()
                .insert(id.clone());
        }
        if !waits.is_empty() {
            self.waits.insert(id.clone(), waits);
        }
    }

    /// Notes that a task does not wait.
    pub(super) fn remove(&mut self, id: &TaskId) {
        for of in self.waits.remove(id).unwrap_or_default() {
            if let Some(waiters) = self.waiters.get_mut(&of) {
                waiters.remove(id);
                if waiters.is_empty() {
                    self.waiters.remove(&of);
                }
            }
        }
    }

    /// Notes whether a task that the node does not list is live.
    pub(super) fn other(&mut self, id: &TaskId, is_live: bool) {
        if is_live {
            self.others.insert(id.clone());
        } else {
            self.others.remove(id);
        }
    }

    /// Returns whether it is a live task that the node does not list.
    pub(super) fn is_other(&self, id: &TaskId) -> bool {
        self.others.contains(id)
    }

    /// Returns the tasks that wait for this one.
    pub(super) fn of(&self, id: &TaskId) -> Vec<TaskId> {
        let waiters = self.waiters.get(id);
        waiters.map_or_else(Vec::new, |waiters| waiters.iter().cloned().collect())
    }

    /// Returns whether a task waits for a live one; `None` when it does not wait.
    pub(super) fn is_blocked(
        &self,
        id: &TaskId,
        is_listed: impl Fn(&TaskId) -> bool,
    ) -> Option<bool> {
        let waits = self.waits.get(id)?;
        let is_live = |id: &TaskId| self.others.contains(id) || is_listed(id);
        // Tasks often end in the order in which they are named.
        Some(waits.iter().rev().any(is_live))
    }
}
