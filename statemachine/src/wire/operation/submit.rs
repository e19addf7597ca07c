//! The submit of a task, as one JSON object.

use std::time::Duration;

use serde::Serialize;

use crate::{
    IfExists, Submit, Wake,
    message::Times,
    wire::{TaskForm, moment},
};

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct SubmitForm {
    #[serde(flatten)]
    task: TaskForm,
    /// What to do when the id is taken; `refuse` by default.
    #[serde(default, skip_serializing_if = "is_refuse")]
    if_exists: IfExists,
    /// The times that count from when a message is applied, in place of the task's.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    times: RelativeTimes,
}

/// Times that count from when a message is applied: `in` and a length of time.
#[derive(Default, Serialize)]
struct RelativeTimes {
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_by: Option<String>,
}

impl From<&Submit> for SubmitForm {
    fn from(submit: &Submit) -> Self {
        Self {
            task: submit.task.clone().into(),
            if_exists: submit.if_exists,
            times: RelativeTimes::default(),
        }
    }
}

impl SubmitForm {
    /// Sets the times of an effect that count from when its message is applied.
    pub(in crate::wire) fn set(&mut self, times: Times) {
        let text = |wait: Option<Duration>| wait.map(|wait| moment::text(Wake::After(wait)));
        self.times = RelativeTimes {
            start_at: text(times.start_at),
            after_deadline: text(times.after_deadline),
            start_by: text(times.start_by),
            end_by: text(times.end_by),
        };
        for (own, relative) in [
            (&mut self.task.start_at, &self.times.start_at),
            (&mut self.task.after_deadline, &self.times.after_deadline),
            (&mut self.task.start_by, &self.times.start_by),
            (&mut self.task.end_by, &self.times.end_by),
        ] {
            if relative.is_some() {
                *own = None;
            }
        }
    }
}

fn is_refuse(rule: &IfExists) -> bool {
    *rule == IfExists::Refuse
}
