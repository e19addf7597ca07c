//! [`Line`]: an operation, or the guards of one task, as one JSON object.

mod read;
mod send;
mod submit;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use self::send::SendForm;
pub(super) use self::submit::SubmitForm;
use crate::{
    CommandId, Delete, Fence, Guard, Invalid, Json, Kind, Limit, Operation, Require, Reschedule,
    RetryTask, StateKind, TaskId,
};

/// The fields of a [`Line`] that are times, in any operation.
///
/// `windlass apply` reads relative times in them, and the fingerprint of a transaction leaves their values out.
pub const TIMES: [&str; 6] = [
    "start_at",
    "until",
    "due",
    "after_deadline",
    "start_by",
    "end_by",
];

/// A change, or conditions on one task, as one JSON object: a row of `windlass_inbox`, a line of `windlass apply`,
/// and the input of a transaction's fingerprint.
///
/// | `op` | fields |
/// |---|---|
/// | `submit` | the fields of a [`TaskForm`](super::TaskForm), with the id; `if_exists`: `refuse` (default), `same`, `replace-finished`, `replace-waiting`, `skip` |
/// | `send` | `task`, `command` with the fields of the [`Command`](crate::Command), `id` (default: one that the reader makes), `note` |
/// | `delete` | `task`; `force`: also a task that a node has claimed |
/// | `retry` | `task`; `data` and `props` that it starts with instead of its own; `no_data`, `no_props` |
/// | `reschedule` | `task`; `due`, `priority`, `kind`, `limits`, `data`, `no_data`, `props`, `no_props`: one or more |
/// | `require` | `task`; `exists`, `state`, `version`, `fence`, `kind`, `unclaimed`, `data`, `no_data`: one or more |
///
/// Times are RFC 3339. A field that is `null` is as good as absent: it changes nothing. `"no_data":true` and
/// `"no_props":true` erase. Only the `null` of a `result` or a `payload` is a value. [`Operation`] and [`Guard`] are
/// written in this form.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{CommandId, Operation, wire::Line};
///
/// let read = |text: &str| Line::read(text, || CommandId::new("new"));
/// let text = r#"{"op":"submit","id":"report-7","kind":"report","props":{"month":7}}"#;
/// let line = read(text)?;
/// let Line::Operation(submit @ Operation::Submit(_)) = line else { panic!("{line:?}") };
/// assert_eq!(serde_json::to_string(&submit).unwrap(), text);
/// let wrong = read(r#"{"op":"submit","id":"report-7"}"#).unwrap_err();
/// assert_eq!(wrong.field(), "kind");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every line is an operation"
)]
pub enum Line {
    /// A change of a task.
    Operation(Operation),
    /// Conditions on a task: one or more, of the same task.
    Guards(Vec<Guard>),
}

impl Line {
    /// Reads a JSON object. `new_id` makes the id of a command that has none.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field; the field is `operation` for a text that is not a JSON
    /// object.
    pub fn read(
        text: &str,
        new_id: impl FnOnce() -> Result<CommandId, Invalid>,
    ) -> Result<Self, Invalid> {
        read::read(text, new_id)
    }

    /// Reads a JSON object like [`read`](Self::read). Times may also be relative: `now`, or `in 5m`,
    /// which counts from `now` ([`read_moment`](super::read_moment)).
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    pub fn read_at(
        text: &str,
        now: Timestamp,
        new_id: impl FnOnce() -> Result<CommandId, Invalid>,
    ) -> Result<Self, Invalid> {
        read::read_at(text, now, new_id)
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        LineForm::from(self).serialize(to)
    }
}

impl Serialize for Guard {
    /// Writes the line of a single guard.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        LineForm::from(self).serialize(to)
    }
}

/// A change of a task, or conditions on one.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Operation"))]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum LineForm {
    /// Submits a task.
    Submit(Box<SubmitForm>),
    /// Sends a command to a task.
    Send(SendForm),
    /// Deletes a task with everything that belongs to it.
    Delete(DeleteForm),
    /// Starts an ended task again, or one that is quarantined.
    Retry(RetryForm),
    /// Changes a live task that no node has claimed. One or more of the fields beside `task` are given.
    Reschedule(RescheduleForm),
    /// Requires conditions on a task: if they do not hold, no operation of the transaction changes anything. At least
    /// one field in addition to `task` is required.
    Require(RequireForm),
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct DeleteForm {
    /// The task.
    task: TaskId,
    /// `true`: also when a node has claimed the task. Its handler is stopped. `false` by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    force: bool,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct RetryForm {
    /// The task.
    task: TaskId,
    /// The new data, of the version of the present data: any JSON but `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Json>,
    /// `true`: the task starts without data.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_data: Option<bool>,
    /// The new props: any JSON but `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    props: Option<Json>,
    /// `true`: the task starts without props, with `null` as its props.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_props: Option<bool>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct RescheduleForm {
    /// The task.
    task: TaskId,
    /// The new due time of a runnable or sleeping task.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Timestamp>,
    /// The new priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
    /// The new kind: the task moves to the nodes of that kind under its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    /// The new limits; an empty list removes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Vec<Limit>>,
    /// The new data, of the version of the present data: any JSON but `null`. Also require the data that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Json>,
    /// `true`: removes the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_data: Option<bool>,
    /// The new props: any JSON but `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    props: Option<Json>,
    /// `true`: removes the props: they are `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_props: Option<bool>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct RequireForm {
    /// The task.
    task: TaskId,
    /// `true`: the task exists, live or ended. `false`: no task has the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    exists: Option<bool>,
    /// The task is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateKind>,
    /// Its state has this version: no claim, no retry and no reschedule has written it since that version was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// Its last claim has this fence; 0 for a task that was never claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<Fence>,
    /// It has this submit order: it was not deleted and submitted again since that order was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<u64>,
    /// It has this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    /// `true`: no node has claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unclaimed: Option<bool>,
    /// Its data has this value: any JSON but `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Json>,
    /// `true`: it has no data, or `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_data: Option<bool>,
}

impl From<&Operation> for LineForm {
    fn from(operation: &Operation) -> Self {
        match operation {
            Operation::Submit(submit) => Self::Submit(Box::new(submit.into())),
            Operation::Send(send) => Self::Send(send.into()),
            Operation::Delete(Delete { task, force }) => Self::Delete(DeleteForm {
                task: task.clone(),
                force: *force,
            }),
            Operation::Retry(RetryTask { task, data, props }) => {
                let ((data, no_data), (props, no_props)) = (new(data.clone()), new(props.clone()));
                Self::Retry(RetryForm {
                    task: task.clone(),
                    data,
                    no_data,
                    props,
                    no_props,
                })
            }
            Operation::Reschedule(change) => Self::Reschedule(change.clone().into()),
        }
    }
}

/// Returns a new value and whether it erases, as [`Fields::take_new`](super::fields::Fields::take_new) reads them.
pub(super) fn new(value: Option<Json>) -> (Option<Json>, Option<bool>) {
    match value {
        Some(value) if value.is_null() => (None, Some(true)),
        value => (value, None),
    }
}

impl From<Reschedule> for RescheduleForm {
    fn from(change: Reschedule) -> Self {
        let Reschedule {
            task,
            due,
            priority,
            kind,
            limits,
            data,
            props,
        } = change;
        let ((data, no_data), (props, no_props)) = (new(data), new(props));
        Self {
            task,
            due,
            priority,
            kind,
            limits,
            data,
            no_data,
            props,
            no_props,
        }
    }
}

impl From<&Guard> for LineForm {
    fn from(guard: &Guard) -> Self {
        let mut form = RequireForm {
            task: guard.task.clone(),
            exists: None,
            state: None,
            version: None,
            fence: None,
            order: None,
            kind: None,
            unclaimed: None,
            data: None,
            no_data: None,
        };
        match &guard.require {
            Require::Exists => form.exists = Some(true),
            Require::Absent => form.exists = Some(false),
            Require::State(state) => form.state = Some(*state),
            Require::Version(version) => form.version = Some(*version),
            Require::Fence(fence) => form.fence = Some(*fence),
            Require::Order(order) => form.order = Some(*order),
            Require::Kind(kind) => form.kind = Some(kind.clone()),
            Require::Unclaimed => form.unclaimed = Some(true),
            Require::Data(Some(data)) if !data.is_null() => form.data = Some(data.clone()),
            Require::Data(_) => form.no_data = Some(true),
        }
        Self::Require(form)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod written_tests;
