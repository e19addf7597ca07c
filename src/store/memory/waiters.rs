//! [`Waiters`]: the index of the tasks that wait for others.

use std::collections::{BTreeSet, HashMap};

use windlass_statemachine::{TaskId, TaskState};

use super::row::Saved;
use crate::store::rules::dependencies;

/// The waiting tasks by the tasks that they wait for.
#[derive(Default)]
pub(super) struct Waiters(HashMap<TaskId, BTreeSet<TaskId>>);

impl Waiters {
    pub(super) fn add(&mut self, id: &TaskId, state: &TaskState) {
        for of in dependencies::waited_for(state) {
            self.0.entry(of.clone()).or_default().insert(id.clone());
        }
    }

    pub(super) fn remove(&mut self, id: &TaskId, saved: &Saved) {
        let Saved::State(state) = saved else {
            return;
        };
        for of in dependencies::waited_for(state) {
            if let Some(waiters) = self.0.get_mut(of) {
                waiters.remove(id);
                if waiters.is_empty() {
                    self.0.remove(of);
                }
            }
        }
    }

    /// Returns the tasks that wait for this one.
    pub(super) fn of(&self, id: &TaskId) -> BTreeSet<TaskId> {
        self.0.get(id).cloned().unwrap_or_default()
    }
}
