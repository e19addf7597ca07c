//! [`Order`]: checks that each line comes after the lines that its task waits for.

use std::collections::{HashMap, HashSet};

use windlass::{Invalid, Task, TaskId};

/// The ids of the lines that were read, and those that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Order {
    ids: HashSet<TaskId>,
    /// Each id that a line waits for, with the number of the first such line.
    named: HashMap<TaskId, u64>,
}

impl Order {
    /// Takes in the task of a line. `has_id` is whether the line names the task: other lines cannot wait for a
    /// task without a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `id`) when an earlier line waits for this task: it may run already.
    pub(crate) fn check(&mut self, line: u64, task: &Task, has_id: bool) -> Result<(), Invalid> {
        let id = &task.id;
        if let Some(earlier) = self.named.get(id).filter(|_| !self.ids.contains(id)) {
            let reason = format!(
                "'{id}' is a task for which line {earlier} waits; put this line before line {earlier} (lines that \
                 wait for each other in a circle have no order)"
            );
            return Err(Invalid::new("id", reason));
        }
        if has_id {
            self.ids.insert(id.clone());
        }
        for other in task.waits.iter().flat_map(|waits| &waits.tasks) {
            self.named.entry(other.clone()).or_insert(line);
        }
        Ok(())
    }
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
        order.check(3, &task("a", &[]), true).unwrap();
        let refused = order.check(4, &task("b", &["c"]), true).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "id: 'b' is a task for which line 2 waits; put this line before line 2 (lines that wait for each \
             other in a circle have no order)"
        );
    }
}
