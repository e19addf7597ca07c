//! A task of its form, and the form of a task.

use super::TaskForm;
use crate::{
    Invalid, Kind, Task, TaskId,
    waits::{Waits, deadline_without_wait},
};

impl TaskForm {
    /// Makes the task. Keys of limits with places (`{label:site}`) are not filled
    /// ([`Task::fill_limit_keys`]), and sizes not checked ([`Task::check`]).
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field: `id` or `kind` that is missing or wrong, and waits that contradict
    /// each other.
    pub fn into_task(self) -> Result<Task, Invalid> {
        let waits = self.waits()?;
        let missing = |field| {
            let reason = r#"is missing; write it like {"id":"a","kind":"report"}"#;
            Invalid::new(field, reason)
        };
        let id = TaskId::new(self.id.ok_or_else(|| missing("id"))?)?;
        let kind = Kind::new(self.kind.ok_or_else(|| missing("kind"))?)?;
        Ok(Task {
            id,
            kind,
            props: self.props,
            start_at: self.start_at,
            priority: self.priority.unwrap_or_default(),
            labels: self.labels,
            retry: self.retry,
            waits: waits.map(Box::new),
            limits: self.limits,
            start_by: self.start_by,
            end_by: self.end_by,
            unique: self.unique,
            meta: self.meta,
            free_id: self.free_id,
            paused: self.paused,
        })
    }

    /// Returns the tasks that the new task waits for.
    fn waits(&self) -> Result<Option<Waits>, Invalid> {
        let mut waits = match (self.after.as_slice(), self.after_ok.as_slice()) {
            ([], []) if self.after_deadline.is_none() => return Ok(None),
            ([], []) => return Err(deadline_without_wait()),
            (ids, []) => Waits::new("after", ids.iter().cloned())?,
            ([], ids) => Waits::new("after_ok", ids.iter().cloned())?.ok(),
            _ => {
                let reason = "is given together with `after`; put every task into one of them";
                return Err(Invalid::new("after_ok", reason));
            }
        };
        waits.deadline = self.after_deadline;
        Ok(Some(waits))
    }
}

impl From<Task> for TaskForm {
    /// Returns the form that the task is submitted with.
    fn from(task: Task) -> Self {
        let waits = task.waits.map(|waits| *waits);
        let (mut after, mut after_ok, mut after_deadline) = (Vec::new(), Vec::new(), None);
        if let Some(waits) = waits {
            let ids = waits.tasks.into_iter().map(String::from).collect();
            *(if waits.ok { &mut after_ok } else { &mut after }) = ids;
            after_deadline = waits.deadline;
        }
        Self {
            id: Some(task.id.into()),
            kind: Some(task.kind.into()),
            props: task.props,
            start_at: task.start_at,
            priority: Some(task.priority).filter(|priority| *priority != 0),
            labels: task.labels,
            retry: task.retry,
            after,
            after_ok,
            after_deadline,
            start_by: task.start_by,
            end_by: task.end_by,
            unique: task.unique,
            limits: task.limits,
            meta: task.meta,
            free_id: task.free_id,
            paused: task.paused,
        }
    }
}
