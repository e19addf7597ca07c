//! [`StandIns`]: lines whose unique key another task has. Later lines that wait for such a line wait for that task.

use std::collections::{HashMap, HashSet};

use windlass::{Task, TaskId};

/// The ids of lines, each with the task that has the unique key of the line.
#[derive(Debug, Default)]
pub(super) struct StandIns {
    others: HashMap<TaskId, TaskId>,
    /// The lines with unique keys that are to be submitted together.
    undecided: HashSet<TaskId>,
}

impl StandIns {
    /// Takes in a line that is to be submitted with those before it. Returns whether those have to be submitted
    /// first, because the line waits for one of them which may not be submitted.
    pub(super) fn follows_unique(&mut self, task: &Task) -> bool {
        let waits = task.waits.iter().flat_map(|waits| &waits.tasks);
        let follows =
            !self.undecided.is_empty() && waits.into_iter().any(|id| self.undecided.contains(id));
        if follows {
            self.undecided.clear();
        }
        if task.unique.is_some() {
            self.undecided.insert(task.id.clone());
        }
        follows
    }

    /// Notes the task that has the unique key of a line.
    pub(super) fn stands_in(&mut self, id: &TaskId, other: &TaskId) {
        if id != other {
            self.others.insert(id.clone(), other.clone());
        }
    }

    /// Makes a line wait for the tasks that stand in for those that it names.
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
    use std::time::Duration;

    use windlass::NewTask;

    use super::*;

    fn task(id: &str, after: &[&str]) -> Task {
        let task = NewTask::new("k").id(id).after(after.iter().copied());
        task.build().unwrap().task
    }

    #[test]
    fn a_line_behind_a_unique_one_is_submitted_after_it_and_waits_for_the_other_task() {
        let mut stand_ins = StandIns::default();
        let hour = Duration::from_secs(3600);
        let unique = NewTask::new("k").id("a").unique("one", hour);
        assert!(!stand_ins.follows_unique(&unique.build().unwrap().task));
        assert!(!stand_ins.follows_unique(&task("b", &["x"])));
        assert!(stand_ins.follows_unique(&task("c", &["x", "a"])));
        assert!(
            !stand_ins.follows_unique(&task("d", &["a"])),
            "it was submitted"
        );
        let id = |name: &str| name.parse::<TaskId>().unwrap();
        stand_ins.stands_in(&id("b"), &id("b"));
        stand_ins.stands_in(&id("a"), &id("x"));
        let mut waiting = task("c", &["x", "a", "b"]);
        stand_ins.resolve(&mut waiting);
        assert_eq!(waiting.waits.unwrap().tasks, [id("x"), id("b")]);
    }
}
