//! [`TaskForm`]: a task to submit, as one JSON object.

mod convert;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Invalid, Json, Labels, Limit, Meta, Retry, Unique, plain};

/// A task to submit, as a line of `windlass submit --lines`, `run` and `apply` and a row of the inbox have it.
///
/// Every field may be missing or `null`; an unknown field is an error. Times are RFC 3339, lengths of time are
/// text such as `1h 30m`.
///
/// # Example
///
/// ```
/// use windlass_statemachine::wire::TaskForm;
///
/// let text = r#"{"id":"sum","kind":"report","after_ok":["page"],"retry":3}"#;
/// let task = TaskForm::parse(text)?.into_task()?;
/// assert!(task.waits.unwrap().ok);
///
/// let wrong = TaskForm::parse(r#"{"priority":"high"}"#).unwrap_err();
/// assert_eq!(wrong.field(), "priority");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskForm {
    /// The name, unique in its namespace. The reader of the form may have a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The kind, which selects the handler. The reader of the form may have a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The input of the handler: any JSON; `null` by default.
    #[serde(default)]
    #[serde(skip_serializing_if = "Json::is_null")]
    pub props: Json,
    /// The earliest time at which the task starts; at once by default. Not allowed together with
    /// `after` and `after_ok`.
    #[serde(default, deserialize_with = "crate::time::start_at")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// The priority: tasks with a greater one are claimed first; 0 by default.
    #[serde(default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Labels to find the task by and to choose nodes by: an object of text; none by default.
    #[serde(default, deserialize_with = "once_or_default")]
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// What follows a failed attempt: an object with the field `policy`, the name of a policy, or a number of
    /// attempts ([`read_retry`](super::read_retry)); the policy of the kind by default.
    #[serde(default, deserialize_with = "super::policy::field")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::schema::RetryForm>")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The ids of tasks that must end before this one starts, whatever their outcomes are: up to 1,000; none
    /// by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Like `after`, but each of the tasks has to complete. Not allowed together with `after`.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_ok: Vec<String>,
    /// When the task stops waiting for other tasks; never by default. Only allowed with `after` or
    /// `after_ok`.
    #[serde(default, deserialize_with = "crate::time::after_deadline")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_deadline: Option<Timestamp>,
    /// The time by which the first run must have begun, otherwise the task fails; no such time by
    /// default.
    #[serde(default, deserialize_with = "crate::time::start_by")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<Timestamp>,
    /// The time by which the task must have ended, otherwise it fails; no such time by default.
    #[serde(default, deserialize_with = "crate::time::end_by")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_by: Option<Timestamp>,
    /// The key that no other task may have for a period: `{"key":"mail","within":"1h"}`; none by default.
    #[serde(default)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// How many tasks with the same key run at once, or start within a period: `{"key":"api","at_once":3}`,
    /// `{"key":"api","starts":100,"within":"1m"}`; up to 8, none by default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Text that travels with it, such as `traceparent`: an object of text; none by default.
    #[serde(default, deserialize_with = "once_or_default")]
    #[serde(skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Whether its id is free again when it has completed: a later submit makes a new task in its place; `false` by
    /// default.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub free_id: bool,
    /// Whether it is paused from its submit on, until it is resumed; `false` by default. Not allowed together with
    /// `start_at`, `after` and `after_ok`.
    #[serde(default, deserialize_with = "or_default")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// Reads an object with each field once; null is an empty one.
fn once_or_default<'de, D>(from: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let fields = Option::<plain::Fields<String>>::deserialize(from)?;
    Ok(fields.map_or_else(BTreeMap::new, |plain::Fields(fields)| fields))
}

fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl TaskForm {
    /// The names of the fields, in the order in which errors list them.
    pub const FIELDS: [&str; 17] = [
        "id",
        "kind",
        "props",
        "start_at",
        "priority",
        "labels",
        "retry",
        "after",
        "after_ok",
        "after_deadline",
        "start_by",
        "end_by",
        "unique",
        "limits",
        "meta",
        "free_id",
        "paused",
    ];

    /// Reads a JSON object.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field; the field is `task` for a text that is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        crate::plain::object(text).map_err(|wrong| wrong.into_invalid("task"))
    }

    /// Returns this form with the fields of `default` where it has none. Labels and meta of both are joined; the tasks
    /// to wait for come from one of them.
    #[must_use]
    pub fn or(mut self, default: &Self) -> Self {
        fn fill<T: Clone>(own: &mut Option<T>, default: &Option<T>) {
            if own.is_none() {
                own.clone_from(default);
            }
        }
        fill(&mut self.id, &default.id);
        fill(&mut self.kind, &default.kind);
        fill(&mut self.start_at, &default.start_at);
        fill(&mut self.priority, &default.priority);
        fill(&mut self.retry, &default.retry);
        fill(&mut self.after_deadline, &default.after_deadline);
        fill(&mut self.start_by, &default.start_by);
        fill(&mut self.end_by, &default.end_by);
        fill(&mut self.unique, &default.unique);
        if self.props.is_null() {
            self.props = default.props.clone();
        }
        if self.after.is_empty() && self.after_ok.is_empty() {
            self.after.clone_from(&default.after);
            self.after_ok.clone_from(&default.after_ok);
        }
        self.free_id |= default.free_id;
        self.paused |= default.paused;
        if self.limits.is_empty() {
            self.limits.clone_from(&default.limits);
        }
        for (own, default) in [
            (&mut self.labels, &default.labels),
            (&mut self.meta, &default.meta),
        ] {
            for (name, value) in default {
                let entry = own.entry(name.clone());
                entry.or_insert_with(|| value.clone());
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    #[test]
    fn the_list_of_fields_is_the_one_that_is_read() {
        let wrong = TaskForm::parse(r#"{"xyzzy":1}"#).unwrap_err();
        let (_, fields) = wrong.reason().split_once("the fields are ").unwrap();
        assert_eq!(fields, TaskForm::FIELDS.join(", "));
    }

    #[test]
    fn every_field_reaches_the_task() {
        let text = r#"{"id":"t","kind":"k","props":[1],"priority":3,"labels":{"a":"b"},"retry":"never",
            "after_ok":["u"],"after_deadline":"2030-01-01T00:00:00Z","start_by":"2030-01-02T00:00:00Z",
            "end_by":"2030-01-03T00:00:00Z","unique":{"key":"q","within":"1h"},
            "limits":[{"key":"l","at_once":2}],"meta":{"m":"n"}}"#;
        let task = TaskForm::parse(text).unwrap().into_task().unwrap();
        assert_eq!(
            serde_json::to_string(&task).unwrap(),
            r#"{"id":"t","kind":"k","props":[1],"priority":3,"labels":{"a":"b"},"retry":{"policy":"never"},"waits":{"tasks":["u"],"ok":true,"deadline":"2030-01-01T00:00:00Z"},"limits":[{"key":"l","at_once":2}],"start_by":"2030-01-02T00:00:00Z","end_by":"2030-01-03T00:00:00Z","unique":{"key":"q","within":"1h"},"meta":{"m":"n"}}"#
        );
        let text = r#"{"id":"t","kind":"k","start_at":"2030-01-01T00:00:00Z"}"#;
        let task = TaskForm::parse(text).unwrap().into_task().unwrap();
        assert!(task.start_at.is_some());
        let text = r#"{"id":"t","kind":"k","free_id":true,"paused":true}"#;
        let task = TaskForm::parse(text).unwrap().into_task().unwrap();
        assert_eq!(serde_json::to_string(&task).unwrap(), text);
    }

    #[test]
    fn a_name_that_is_given_twice_is_refused_at_any_depth() {
        for (text, says) in [
            (r#"{"kind":"a","kind":"b"}"#, "kind: is given twice"),
            (
                r#"{"labels":{"a":"1","a":"1"}}"#,
                "labels: 'a' is given twice",
            ),
            (r#"{"meta":{"m":"1","m":"2"}}"#, "meta: 'm' is given twice"),
        ] {
            let error = TaskForm::parse(text).unwrap_err().to_string();
            assert!(error.contains("is given twice"), "{text}: {error}");
            assert!(error.contains(&says[..4]), "{text}: {error}");
            let stored = text.replacen('{', r#"{"id":"t","kind":"k","#, 1);
            assert!(serde_json::from_str::<Task>(&stored).is_err(), "{stored}");
        }
    }

    #[test]
    fn a_field_that_is_null_is_as_good_as_absent() {
        for field in TaskForm::FIELDS {
            let form = TaskForm::parse(&format!(r#"{{"{field}":null}}"#));
            assert_eq!(form, Ok(TaskForm::default()), "{field}");
        }
    }

    #[test]
    fn every_field_has_a_default() {
        let at = "\"2030-01-01T00:00:00Z\"";
        for field in TaskForm::FIELDS {
            let value = match field {
                "id" | "kind" => "\"a\"",
                "props" => "[1]",
                "priority" | "retry" => "3",
                "labels" | "meta" => r#"{"a":"b"}"#,
                "after" | "after_ok" => r#"["u"]"#,
                "unique" => r#"{"key":"q","within":"1h"}"#,
                "limits" => r#"[{"key":"l","at_once":2}]"#,
                "free_id" | "paused" => "true",
                _ => at,
            };
            let default = TaskForm::parse(&format!(r#"{{"{field}":{value}}}"#)).unwrap();
            assert_ne!(default, TaskForm::default(), "{field}");
            assert_eq!(TaskForm::default().or(&default), default, "{field}");
        }
    }

    #[test]
    fn the_form_stands_above_the_default() {
        let default =
            TaskForm::parse(r#"{"priority":3,"after":["u"],"labels":{"x":"1","y":"1"}}"#).unwrap();
        let form = TaskForm::parse(
            r#"{"id":"t","kind":"k","priority":0,"after_ok":["v"],"labels":{"x":"2"}}"#,
        );
        let task = form.unwrap().or(&default).into_task().unwrap();
        assert_eq!(
            serde_json::to_string(&task).unwrap(),
            r#"{"id":"t","kind":"k","labels":{"x":"2","y":"1"},"waits":{"tasks":["v"],"ok":true}}"#
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("{", "task: is not JSON: "),
            ("[]", "task: is an array, not an object"),
            (r#"{"retry":-1}"#, "retry: is -1, not a number of attempts"),
            (
                r#"{"retry":"often"}"#,
                "retry: 'often' is not a number of attempts",
            ),
            (r#"{"start_at":"soon"}"#, "start_at: 'soon' is not a time;"),
            (
                r#"{"priority":2147483648}"#,
                "priority: is 2147483648, not a whole number from -2147483648 to 2147483647",
            ),
            (
                r#"{"kind":"k"}"#,
                r#"id: is missing; write it like {"id":"a","kind":"report"}"#,
            ),
            (r#"{"id":"a"}"#, "kind: is missing"),
            (r#"{"id":"a/b","kind":"k"}"#, "id: "),
            (
                r#"{"after":["a"],"after_ok":["b"]}"#,
                "after_ok: is given together with `after`; put every task into one of them",
            ),
            (
                r#"{"after_deadline":"2030-01-01T00:00:00Z"}"#,
                "after_deadline: is the end of a wait",
            ),
        ] {
            let error = TaskForm::parse(text).and_then(TaskForm::into_task);
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with(says), "{text}: {error}");
        }
    }
}
