//! [`Done`]: a task that has ended.

use windlass_statemachine::{StateKind, Task, TaskState};

use crate::store::{Error, TaskRecord};

/// A task that has ended, with its last state.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Done {
    /// The task.
    pub task: Task,
    /// Its last state.
    pub state: TaskState,
}

impl Done {
    pub(crate) fn from_record(record: TaskRecord) -> Result<Self, Error> {
        Ok(Self {
            task: record.task,
            state: record.state?,
        })
    }

    /// Returns how the task ended: completed, failed or killed.
    pub fn code(&self) -> StateKind {
        self.state.code()
    }

    /// Returns whether the task completed.
    pub fn is_completed(&self) -> bool {
        self.code() == StateKind::Completed
    }

    /// Returns the task's last error, if it had one.
    pub fn error(&self) -> Option<&str> {
        self.state.errors.last().map(|e| e.error.as_str())
    }
}
