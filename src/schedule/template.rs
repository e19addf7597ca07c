//! [`Template`]: the part that all runs of a schedule have in common.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use windlass_statemachine::{Invalid, Task, TaskId, task::Labels, wire::TaskForm};

use crate::NewTask;

/// The advice for a deadline that is a time.
const START_WITHIN: &str = "give the schedule 'start_within', a duration from the time of each run";
const END_WITHIN: &str = "give the schedule 'end_within', a duration from the time of each run";

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a field for which `null` counts as absent.
pub(super) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The template of runs: a task to submit, without the fields that can only be right for one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Template {
    pub(crate) form: TaskForm,
    /// Why the template is invalid, if it is.
    #[serde(skip)]
    pub(crate) wrong: Option<Invalid>,
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = TaskForm::deserialize(from)?;
        match form.kind {
            Some(_) => Ok(form.into()),
            None => Err(D::Error::missing_field("kind")),
        }
    }
}

impl From<TaskForm> for Template {
    fn from(mut form: TaskForm) -> Self {
        let wrong = check(&form).err();
        // The default is removed, so that equal templates have one form.
        form.priority = form.priority.filter(|priority| *priority != 0);
        Self { form, wrong }
    }
}

/// Refuses fields that would be the same for every run, and so could be right for at most one.
fn check(form: &TaskForm) -> Result<(), Invalid> {
    let out = "leave it out";
    let waits = !form.after.is_empty() || !form.after_ok.is_empty();
    for (field, is_given, instead) in [
        ("id", form.id.is_some(), out),
        ("start_at", form.start_at.is_some(), out),
        ("after", waits || form.after_deadline.is_some(), out),
        ("start_by", form.start_by.is_some(), START_WITHIN),
        ("end_by", form.end_by.is_some(), END_WITHIN),
        ("unique", form.unique.is_some(), out),
        ("free_id", form.free_id, out),
        ("paused", form.paused, "create the schedule paused"),
    ] {
        if is_given {
            let reason = format!(
                "is not possible for the runs of a schedule, which all have the same; {instead}"
            );
            return Err(Invalid::new(field, reason));
        }
    }
    Ok(())
}

impl Template {
    /// Returns the template of runs like this task. Its id is not used.
    pub(super) fn of<J>(run: NewTask<J>) -> Self {
        match run.build() {
            Ok(submit) => Self::from(TaskForm {
                id: None,
                ..submit.task.into()
            }),
            Err(error) => Self {
                form: TaskForm::default(),
                wrong: Some(error),
            },
        }
    }

    /// Returns the run with this id, and with these labels in addition to its own.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the template has no valid kind. A checked template has one.
    pub(crate) fn task(&self, id: TaskId, labels: Labels) -> Result<Task, Invalid> {
        let mut form = self.form.clone();
        form.id = Some(id.into());
        form.labels.extend(labels);
        let mut task = form.into_task()?;
        task.fill_limit_keys()?;
        Ok(task)
    }
}
