//! The errors for ids and names that something live has.

use windlass_statemachine::{NodeName, Task, TaskId};

use super::Error;

impl Error {
    /// Returns the error for an id that a live task has.
    pub fn task_exists(id: &TaskId) -> Self {
        Self::exists("task", id.to_string(), None)
    }

    /// Returns the error for an id that a live task has, with how it differs from the new one.
    pub(crate) fn other_task_exists(there: &Task, new: &Task) -> Self {
        Self::exists("task", new.id.to_string(), there.difference(new))
    }

    /// Returns the error for a task that has ended.
    pub fn finished(id: &TaskId) -> Self {
        Self::AlreadyFinished {
            task: id.clone(),
            difference: None,
        }
    }

    /// Returns the error for an id that an ended task has, with how it differs from the new one.
    pub(crate) fn other_task_finished(there: &Task, new: &Task) -> Self {
        Self::AlreadyFinished {
            task: new.id.clone(),
            difference: there.difference(new),
        }
    }

    /// Returns the error for a name that a live node has.
    pub fn node_exists(name: &NodeName) -> Self {
        Self::exists("node", name.to_string(), None)
    }

    fn exists(what: &'static str, name: String, difference: Option<String>) -> Self {
        Self::AlreadyExists {
            what,
            name,
            difference,
        }
    }
}
