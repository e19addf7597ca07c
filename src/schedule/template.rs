//! [`Template`]: what the runs of a schedule have in common.

use serde::{Deserialize, Deserializer, Serialize};
use windlass_statemachine::{Invalid, Json, Kind, Limit, Meta, Retry, Task, TaskId, task::Labels};

use crate::NewTask;

/// What to give instead of a deadline that is a time.
const START_WITHIN: &str = "give the schedule 'start_within', a duration from the time of each run";
const END_WITHIN: &str = "give the schedule 'end_within', a duration from the time of each run";

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a field that may be `null`, which is as good as absent.
pub(super) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// What a run is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Template {
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub(crate) props: Json,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) priority: i32,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub(crate) labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry: Option<Retry>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) limits: Vec<Limit>,
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Meta::is_empty")]
    pub(crate) meta: Meta,
    /// Why the task that the template was made of is wrong.
    #[serde(skip)]
    pub(crate) wrong: Option<Invalid>,
}

impl Template {
    pub(super) fn of<J>(run: NewTask<J>) -> Self {
        match run.build().and_then(|submit| Self::of_task(submit.task)) {
            Ok(template) => template,
            Err(error) => Self {
                kind: String::new(),
                props: Json::null(),
                priority: 0,
                labels: Labels::new(),
                retry: None,
                limits: Vec::new(),
                meta: Meta::new(),
                wrong: Some(error),
            },
        }
    }

    /// Refuses what is the same for every run and so right for at most one.
    fn of_task(task: Task) -> Result<Self, Invalid> {
        let out = "leave it out";
        for (field, is_given, instead) in [
            ("start_at", task.start_at.is_some(), out),
            ("after", task.waits.is_some(), out),
            ("start_by", task.start_by.is_some(), START_WITHIN),
            ("end_by", task.end_by.is_some(), END_WITHIN),
            ("unique", task.unique.is_some(), out),
        ] {
            if is_given {
                let reason = format!(
                    "is not possible for the runs of a schedule, which all have the same; {instead}"
                );
                return Err(Invalid::new(field, reason));
            }
        }
        Ok(Self {
            kind: task.kind.to_string(),
            props: task.props,
            priority: task.priority,
            labels: task.labels,
            retry: task.retry,
            limits: task.limits,
            meta: task.meta,
            wrong: None,
        })
    }

    /// Returns the run with this id, and these labels beside its own.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the template has no valid kind; a checked one has.
    pub(crate) fn task(&self, id: TaskId, labels: Labels) -> Result<Task, Invalid> {
        let mut task = Task::new(id, Kind::new(&self.kind)?);
        task.props = self.props.clone();
        task.priority = self.priority;
        task.labels = self.labels.clone();
        task.labels.extend(labels);
        task.retry = self.retry.clone();
        task.limits = self.limits.clone();
        task.meta = self.meta.clone();
        task.fill_limit_keys()?;
        Ok(task)
    }
}
