//! [`NamedTasks`]: the tasks that the input of this run names, and those of its batch that it does not.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use windlass::{
    TaskId,
    balancer::{Balancer, Cluster, Decision},
    store::TaskView,
};

/// The tasks that the node of a run may claim: tasks of its batch only if a line of this input
/// names them. A line that was removed from the input since an earlier run does not run. Clones
/// share their state.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedTasks {
    names: Arc<Mutex<Names>>,
}

#[derive(Debug, Default)]
struct Names {
    /// Tasks that are named and have not ended: at most as many as the run follows at a time.
    live: HashSet<TaskId>,
    /// Tasks that were live before this run began, and are not named so far.
    earlier: HashSet<TaskId>,
}

impl NamedTasks {
    fn lock(&self) -> MutexGuard<'_, Names> {
        // Nothing panics between two steps of a change.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the tasks that were live before any line was read.
    pub(super) fn were_live(&self, ids: impl IntoIterator<Item = TaskId>) {
        self.lock().earlier.extend(ids);
    }

    /// Allows a task that is about to be submitted. An existing task with its id may be a different
    /// one: the store has to compare them first, see [`allow`](Self::allow).
    pub(super) fn allow_new(&self, id: &TaskId) {
        let mut names = self.lock();
        if !names.earlier.contains(id) {
            names.live.insert(id.clone());
        }
    }

    /// Allows the task of a line.
    pub(super) fn allow(&self, id: &TaskId) {
        let mut names = self.lock();
        names.earlier.remove(id);
        names.live.insert(id.clone());
    }

    /// Removes a task that has ended, or is not the task of its line.
    pub(super) fn forget(&self, id: &TaskId) {
        self.lock().live.remove(id);
    }

    /// Returns whether a task of an earlier run was not named.
    pub(super) fn leaves_some(&self) -> bool {
        !self.lock().earlier.is_empty()
    }

    /// Returns how many of these live tasks belong to an earlier run and were not named.
    pub(super) fn left_out(&self, live: &[TaskId]) -> u64 {
        let names = self.lock();
        let left = live.iter().filter(|id| names.earlier.contains(*id));
        left.count() as u64
    }
}

/// Takes the named tasks only, as another balancer decides.
#[derive(Debug)]
pub(super) struct NamedOnly {
    pub(super) named: NamedTasks,
    pub(super) balancer: Arc<dyn Balancer>,
}

impl Balancer for NamedOnly {
    fn takes(&self, cluster: &Cluster<'_>, task: &TaskView) -> Decision {
        match self.named.lock().live.contains(&task.id) {
            true => self.balancer.takes(cluster, task),
            false => Decision::NotNow,
        }
    }

    fn releases(&self, cluster: &Cluster<'_>, mine: &[TaskId], jitter: f64) -> Vec<TaskId> {
        self.balancer.releases(cluster, mine, jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TaskId {
        text.parse().unwrap()
    }

    #[test]
    fn a_task_of_an_earlier_run_is_allowed_once_it_was_compared() {
        let named = NamedTasks::default();
        named.were_live([id("a"), id("b")]);
        let is_live = |text| named.lock().live.contains(&id(text));
        named.allow_new(&id("a"));
        named.allow_new(&id("c"));
        assert!(!is_live("a") && is_live("c"));
        named.allow(&id("a"));
        assert!(is_live("a"));
        named.forget(&id("a"));
        assert!(!is_live("a"));
        assert!(named.leaves_some());
        assert_eq!(named.left_out(&[id("a"), id("b"), id("c")]), 1);
    }
}
