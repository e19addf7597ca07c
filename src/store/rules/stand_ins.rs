//! [`StandIns`]: refuses tasks that wait for a submit which is not made, because another task has its unique key.

use std::collections::HashMap;

use windlass_statemachine::{Invalid, Task, TaskId};

use crate::store::{Part, Reason, Refusal};

/// The submits of one write.
#[derive(Debug, Default)]
pub(super) struct StandIns<'a> {
    /// The ids that are not submitted, each with the task that has the unique key.
    others: HashMap<&'a TaskId, TaskId>,
    /// The new tasks that wait for others.
    waiting: Vec<(Part, &'a Task)>,
}

impl<'a> StandIns<'a> {
    /// Notes a task that is submitted.
    pub(super) fn submitted(&mut self, part: Part, task: &'a Task) {
        if task.waits.is_some() {
            self.waiting.push((part, task));
        }
    }

    /// Notes a submit that is not made, because another task has its unique key.
    pub(super) fn stands_in(&mut self, id: &'a TaskId, other: &TaskId) {
        self.others.insert(id, other.clone());
    }

    /// Returns a refusal for each task that waits for an id which is not submitted: the task would not wait
    /// at all.
    pub(super) fn refusals(self) -> Vec<Refusal> {
        let Self { others, waiting } = self;
        let refused = waiting.into_iter().filter_map(|(part, task)| {
            let waits = task.waits.as_deref()?;
            let mut found = waits.tasks.iter().filter_map(|id| others.get_key_value(id));
            let (id, other) = found.next()?;
            let field = if waits.ok { "after_ok" } else { "after" };
            let reason = format!(
                "names '{id}', which is not submitted: task '{other}' has its unique key; wait for '{other}'"
            );
            Some(Refusal {
                part,
                task: task.id.clone(),
                reason: Reason::Invalid(Invalid::new(field, reason)),
            })
        });
        refused.collect()
    }
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::Waits;

    use super::*;

    fn task(id: &str, after: &[&str]) -> Task {
        let mut task = Task::new(id.parse().unwrap(), "k".parse().unwrap());
        if !after.is_empty() {
            let after = after.iter().copied();
            task.waits = Some(Box::new(Waits::new("after", after).unwrap()));
        }
        task
    }

    #[test]
    fn a_wait_for_an_id_that_another_task_stands_in_for_is_refused() {
        let [a, b, c] = [task("a", &[]), task("b", &["x", "a"]), task("c", &["x"])];
        let other = "other".parse().unwrap();
        let mut submits = StandIns::default();
        for (index, task) in [&b, &c].into_iter().enumerate() {
            submits.submitted(Part::Operation(index), task);
        }
        submits.stands_in(&a.id, &other);
        let refused = submits.refusals();
        let text: Vec<_> = refused.iter().map(ToString::to_string).collect();
        let says = "task 'b': after: names 'a', which is not submitted: task 'other' has its unique key; wait for \
                    'other'";
        assert_eq!(text, [says]);
        assert_eq!(refused[0].part, Part::Operation(0));
    }
}
