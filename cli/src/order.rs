//! [`Order`]: checks that each line comes after the lines that its task waits for.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use windlass::{Invalid, Task, TaskId};

/// The ids of the lines that were read, and the ids that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Each id with the number of its first line, and a hash of its work.
    ids: HashMap<TaskId, (u64, u64)>,
    /// Each id that a line waits for, with the number and the task of the first such line.
    named: HashMap<TaskId, (u64, TaskId)>,
}

impl Order {
    /// Adds the task of a line. `has_id`: the line names the task; other lines cannot wait for a task without
    /// a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `id`) when an earlier line waits for this task, because that line may
    /// already run.
    pub(crate) fn check(&mut self, line: u64, task: &Task, has_id: bool) -> Result<(), Invalid> {
        let id = &task.id;
        if let (Some((earlier, _)), None) = (self.named.get(id), self.ids.get(id)) {
            let reason = format!(
                "'{id}' is a task for which line {earlier} waits; put this line before line {earlier} (lines that \
                 wait for each other in a circle have no order)"
            );
            return Err(Invalid::new("id", reason));
        }
        if has_id {
            let work = hash_of_work(task);
            self.ids.entry(id.clone()).or_insert((line, work));
        }
        for other in task.waits.iter().flat_map(|waits| &waits.tasks) {
            let named = self.named.entry(other.clone());
            named.or_insert_with(|| (line, id.clone()));
        }
        Ok(())
    }

    /// Checks that no earlier line has the id of a task with another kind or other props.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `id`).
    pub(crate) fn check_work(&self, task: &Task) -> Result<(), Invalid> {
        let id = &task.id;
        match self.ids.get(id) {
            Some((first, work)) if *work != hash_of_work(task) => {
                let reason = format!(
                    "'{id}' is also that of line {first}, with another kind or other props; give this line an id of \
                     its own"
                );
                Err(Invalid::new("id", reason))
            }
            _ => Ok(()),
        }
    }

    /// Returns each id that a line waits for and that no line has, with the number and the task of the first such
    /// line, in the order of these lines.
    pub(crate) fn unknown(self) -> Vec<(TaskId, u64, TaskId)> {
        let Self { ids, named } = self;
        let named = named.into_iter().filter(|(id, _)| !ids.contains_key(id));
        let mut unknown: Vec<_> = named.map(|(id, (line, task))| (id, line, task)).collect();
        unknown.sort_unstable_by_key(|(_, line, _)| *line);
        unknown
    }
}

fn hash_of_work(task: &Task) -> u64 {
    let mut hasher = DefaultHasher::new();
    (task.kind.as_str(), task.props.as_str()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use windlass::NewTask;

    use super::*;

    fn task(id: &str, after: &[&str]) -> Task {
        let after = after.iter().copied();
        NewTask::new("k").id(id).after(after).build().unwrap().task
    }

    #[test]
    fn a_line_before_the_one_that_it_waits_for_is_refused_there() {
        let mut order = Order::default();
        order.check(1, &task("a", &["elsewhere"]), true).unwrap();
        order.check(2, &task("c", &["a", "b"]), true).unwrap();
        order.check(3, &task("a", &["elsewhere"]), true).unwrap();
        let refused = order.check(4, &task("b", &["c"]), true).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "id: 'b' is a task for which line 2 waits; put this line before line 2 (lines that wait for each \
             other in a circle have no order)"
        );
    }
    #[test]
    fn an_id_with_other_work_is_refused_and_a_name_without_a_line_is_listed() {
        let mut order = Order::default();
        order.check(1, &task("a", &["x"]), true).unwrap();
        order.check(2, &task("b", &["a", "y", "x"]), true).unwrap();
        let other = NewTask::new("k").id("a").props(&1).build().unwrap().task;
        let refused = order.check_work(&other).unwrap_err();
        order.check_work(&task("a", &[])).unwrap();
        assert_eq!(
            refused.to_string(),
            "id: 'a' is also that of line 1, with another kind or other props; give this line an id of its own"
        );
        let unknown = order.unknown().into_iter();
        let unknown: Vec<_> = unknown
            .map(|(id, line, task)| format!("{id} {line} {task}"))
            .collect();
        assert_eq!(unknown, ["x 1 a", "y 2 b"]);
    }
}
