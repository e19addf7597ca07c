//! [`Before`]: the lines that later lines may wait for, by the result of their submit.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use windlass::{Task, TaskId};

/// Which lines were submitted, which were refused, and which task has the unique key of a line.
///
/// A line that waits for a refused one is not submitted: its wait would end at once.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The lines that are about to be submitted together, with unknown results.
    undecided: HashSet<TaskId>,
    /// The lines with their own id that have a task.
    accepted: HashSet<TaskId>,
    /// The lines without a task.
    refused: HashSet<TaskId>,
    /// The lines whose unique key another task has, each with that task.
    others: HashMap<TaskId, TaskId>,
    /// Tasks in the store that do not belong to an earlier line.
    found: HashSet<TaskId>,
    /// The tasks of lines that did not complete.
    failed: HashSet<TaskId>,
    /// When the tasks of lines ended before this run; `None` for those that this run submits or repeats.
    ended: HashMap<TaskId, Option<Timestamp>>,
}

impl Before {
    /// Adds a line that is to be submitted with the lines before it. Returns whether those must be submitted
    /// first, because the line waits for one of them.
    pub(super) fn follows(&mut self, task: &Task) -> bool {
        let waits = task.waits.iter().flat_map(|waits| &waits.tasks);
        let follows =
            !self.undecided.is_empty() && waits.into_iter().any(|id| self.undecided.contains(id));
        if follows {
            self.undecided.clear();
        }
        self.undecided.insert(task.id.clone());
        follows
    }

    /// Notes that the lines so far have been submitted.
    pub(super) fn decided(&mut self) {
        self.undecided.clear();
    }

    /// Notes a line with its own id that has a task.
    pub(super) fn accepted(&mut self, id: &TaskId) {
        self.refused.remove(id);
        self.accepted.insert(id.clone());
    }

    /// Notes a line without a task, unless another line has a task with that id.
    pub(super) fn refused(&mut self, id: &TaskId) {
        if !self.accepted.contains(id) {
            self.refused.insert(id.clone());
        }
    }

    /// Returns whether the line of this id was refused.
    pub(super) fn is_refused(&self, id: &TaskId) -> bool {
        self.refused.contains(id)
    }

    /// Returns whether the task of this id is known to exist.
    pub(super) fn exists(&self, id: &TaskId) -> bool {
        self.accepted.contains(id) || self.found.contains(id)
    }

    /// Notes a task that is in the store.
    pub(super) fn found(&mut self, id: &TaskId) {
        self.found.insert(id.clone());
    }

    /// Notes that a task ended at this time; `None` when it runs again.
    pub(super) fn ended(&mut self, id: &TaskId, at: Option<Timestamp>) {
        self.ended.insert(id.clone(), at);
    }

    /// Notes a task that did not complete, if a line can name it.
    pub(super) fn failed(&mut self, id: &TaskId) {
        if self.exists(id) {
            self.failed.insert(id.clone());
        }
    }

    /// Returns whether one of these tasks did not complete.
    pub(super) fn any_failed(&self, tasks: &[TaskId]) -> bool {
        tasks.iter().any(|id| self.failed.contains(id))
    }

    /// Returns whether a task that ended at this time has to run again, because a task that it
    /// waits for ended later or runs again.
    pub(super) fn is_newer(&self, task: &Task, ended: Timestamp) -> bool {
        self.any_ended(task, |at| at.is_none_or(|at| at > ended))
    }

    /// Returns whether a task that it waits for runs again, or for the first time.
    pub(super) fn runs_again(&self, task: &Task) -> bool {
        self.any_ended(task, |at| at.is_none())
    }

    fn any_ended(&self, task: &Task, is: impl Fn(Option<Timestamp>) -> bool) -> bool {
        // With a deadline, a task may have run before the tasks that it waits for.
        let waits = task.waits.iter().filter(|waits| waits.deadline.is_none());
        let mut tasks = waits.flat_map(|waits| &waits.tasks);
        tasks.any(|id| self.ended.get(id).is_some_and(|at| is(*at)))
    }

    /// Notes the task that has the unique key of a line.
    pub(super) fn stands_in(&mut self, id: &TaskId, other: &TaskId) {
        self.others.insert(id.clone(), other.clone());
        self.found(other);
    }

    /// Makes a line wait for the tasks that stand in for the tasks it names.
    pub(super) fn resolve(&self, task: &mut Task) {
        let Some(waits) = task.waits.as_mut().filter(|_| !self.others.is_empty()) else {
            return;
        };
        for id in &mut waits.tasks {
            if let Some(other) = self.others.get(id) {
                *id = other.clone();
            }
        }
        let mut seen = HashSet::new();
        waits.tasks.retain(|id| seen.insert(id.clone()));
    }
}

#[cfg(test)]
mod tests {
    use windlass::NewTask;

    use super::*;

    fn task(id: &str, after: &[&str]) -> Task {
        let task = NewTask::new("k").id(id).after(after.iter().copied());
        task.build().unwrap().task
    }

    fn id(name: &str) -> TaskId {
        name.parse().unwrap()
    }

    #[test]
    fn a_line_is_submitted_after_those_that_it_waits_for_and_waits_for_the_tasks_that_stand_in() {
        let mut before = Before::default();
        assert!(!before.follows(&task("a", &[])));
        assert!(!before.follows(&task("b", &["x"])));
        assert!(before.follows(&task("c", &["x", "a"])));
        assert!(!before.follows(&task("d", &["a"])), "it was submitted");
        before.stands_in(&id("a"), &id("x"));
        let mut waiting = task("c", &["x", "a", "b"]);
        before.resolve(&mut waiting);
        assert_eq!(waiting.waits.unwrap().tasks, [id("x"), id("b")]);
        assert!(before.exists(&id("x")) && !before.exists(&id("b")));
    }

    #[test]
    fn a_task_is_older_than_one_before_it_that_ended_later_or_runs_again() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut before = Before::default();
        before.ended(&id("a"), Some(at(5)));
        before.ended(&id("b"), None);
        assert!(!before.is_newer(&task("c", &["a", "x"]), at(5)));
        assert!(before.is_newer(&task("c", &["a"]), at(4)));
        assert!(before.is_newer(&task("c", &["a", "b"]), at(9)));
        assert!(!before.is_newer(&task("c", &[]), at(1)));
    }

    #[test]
    fn a_refused_line_of_an_id_that_another_line_has_hides_nothing() {
        let mut before = Before::default();
        before.refused(&id("a"));
        assert!(before.is_refused(&id("a")));
        before.accepted(&id("a"));
        before.refused(&id("a"));
        assert!(!before.is_refused(&id("a")));
    }
}
