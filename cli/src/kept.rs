//! What waiting tasks keep when submits replace them: a replacement gives a task its props and its start only.

use std::collections::BTreeSet;

use windlass::{Client, Task, TaskId, store::Submit};

/// The replaced tasks that keep values of their own, although their submits give others.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    tasks: usize,
    fields: BTreeSet<&'static str>,
}

impl Kept {
    /// Adds a submit that has replaced the waiting task `id`. Reads the task only if the submit gives a field that the
    /// task keeps.
    pub(crate) async fn add(&mut self, client: &Client, submit: &Submit, id: &TaskId) {
        let plain = Task::new(id.clone(), submit.task.kind.clone());
        if submit.not_taken_over(&plain).is_empty() {
            return;
        }
        // A task that was deleted since then keeps nothing.
        let Ok(record) = client.get(id).await else {
            return;
        };
        let fields = submit.not_taken_over(&record.task);
        self.tasks += usize::from(!fields.is_empty());
        self.fields.extend(fields);
    }

    /// Returns the note about the tasks; `None` when they keep nothing.
    pub(crate) fn note(&self) -> Option<String> {
        let fields: Vec<&str> = self.fields.iter().copied().collect();
        let fields = fields.join(", ");
        let of = match self.tasks {
            0 => return None,
            1 => format!("1 replaced task keeps its own {fields}"),
            tasks => format!("{tasks} replaced tasks keep their own {fields}"),
        };
        Some(format!(
            "note: {of}: a submit gives a waiting task its props and its start only; `windlass reschedule` changes the \
             priority and the limits"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_names_the_fields_once() {
        assert_eq!(Kept::default().note(), None);
        let fields = BTreeSet::from(["priority", "labels"]);
        let note = |tasks| {
            let fields = fields.clone();
            Kept { tasks, fields }.note().unwrap_or_default()
        };
        assert!(note(1).starts_with("note: 1 replaced task keeps its own labels, priority: "));
        assert!(note(2).starts_with("note: 2 replaced tasks keep their own labels, priority: "));
    }
}
