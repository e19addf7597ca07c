//! [`TaskLine`]: a task as one line of JSON.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer},
};
use windlass::{Invalid, Json, Labels, Limit, NewTask, Retry, Unique, statemachine::plain};

use crate::exec;

/// A task as one line of JSON: the fields of a task, where the id may be missing, and the kind too
/// when a default is given.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskLine {
    /// Its id; a UUID by default.
    pub(crate) id: Option<String>,
    /// Its kind.
    pub(crate) kind: Option<String>,
    /// What it is to work on.
    #[serde(default)]
    pub(crate) props: Json,
    /// Not before this time.
    #[serde(default, deserialize_with = "start_at")]
    pub(crate) start_at: Option<Timestamp>,
    /// Its priority.
    #[serde(default, deserialize_with = "priority")]
    pub(crate) priority: Option<i32>,
    /// Its labels.
    #[serde(default)]
    pub(crate) labels: Labels,
    /// What follows a failed attempt: a policy, or as `--retry` takes it.
    #[serde(default, deserialize_with = "retry")]
    pub(crate) retry: Option<Retry>,
    /// Not before these tasks have ended.
    #[serde(default)]
    pub(crate) after: Vec<String>,
    /// The same; each of them has to complete.
    #[serde(default)]
    pub(crate) after_ok: Vec<String>,
    /// When it goes on at the latest, though they have not ended.
    #[serde(default, deserialize_with = "after_deadline")]
    pub(crate) after_deadline: Option<Timestamp>,
    /// By when a run has to begin.
    #[serde(default, deserialize_with = "start_by")]
    pub(crate) start_by: Option<Timestamp>,
    /// By when it has to end.
    #[serde(default, deserialize_with = "end_by")]
    pub(crate) end_by: Option<Timestamp>,
    /// No other task with this key for a time.
    #[serde(default)]
    pub(crate) unique: Option<Unique>,
    /// How many tasks with the same keys run at once, or start within a period.
    #[serde(default)]
    pub(crate) limits: Vec<Limit>,
}

fn retry<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Retry>, D::Error> {
    from.deserialize_any(Policy)
}

/// Reads a policy: an object, a name or a number of attempts.
struct Policy;

impl<'de> Visitor<'de> for Policy {
    type Value = Option<Retry>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a number of attempts, the name of a policy or an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        exec::read_retry(text).map(Some).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, attempts: u64) -> Result<Self::Value, E> {
        self.visit_str(&attempts.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Retry::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

fn start_at<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    time(from, "start_at")
}

fn start_by<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    time(from, "start_by")
}

fn end_by<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    time(from, "end_by")
}

fn after_deadline<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    time(from, "after_deadline")
}

fn time<'de, D: Deserializer<'de>>(
    from: D,
    field: &'static str,
) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|t| windlass::statemachine::time::parse(field, &t))
        .transpose()
        .map_err(D::Error::custom)
}

fn priority<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i32>, D::Error> {
    let Some(value) = Option::<serde_json::Value>::deserialize(from)? else {
        return Ok(None);
    };
    let number = value.as_i64().and_then(|n| i32::try_from(n).ok());
    number.map(Some).ok_or_else(|| {
        let (least, most) = (i32::MIN, i32::MAX);
        D::Error::custom(format!(
            "priority: {value} is not a whole number from {least} to {most}"
        ))
    })
}

/// The form of a line.
const EXAMPLE: &str = r#"write it like {"id":"a","kind":"exec","props":{…}}"#;

/// The form of a line with a command.
const COMMAND: &str = r#"write it like {"kind":"exec","props":{"command":"ls"}}"#;

impl TaskLine {
    /// The names of the fields.
    pub(crate) const FIELDS: [&str; 14] = [
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
    ];

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that says what is wrong where in the line.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        // serde reads an array too, and reports it by the names of our types.
        if !text.trim_start().starts_with('{') && Json::parse("task", text).is_ok() {
            return Err(Invalid::new(
                "task",
                format!("is not a JSON object; {EXAMPLE}"),
            ));
        }
        if let Ok(fields) = serde_json::from_str::<BTreeMap<&str, IgnoredAny>>(text)
            && let Some(name) = fields.keys().find(|name| exec::FIELDS.contains(name))
        {
            let reason =
                format!("'{name}' is a field of a command, and stands in 'props'; {COMMAND}");
            return Err(Invalid::new("task", reason));
        }
        plain::object(text).map_err(|reason| Invalid::new("task", format!("{reason}; {EXAMPLE}")))
    }

    /// The task; what the line does not say is as in `default`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when neither says the kind.
    pub(crate) fn into_task(self, default: &Self) -> Result<NewTask, Invalid> {
        let Some(kind) = self.kind.or_else(|| default.kind.clone()) else {
            let reason = "is missing; put it in the line, or give --kind";
            return Err(Invalid::new("kind", reason));
        };
        let props = if self.props.is_null() {
            &default.props
        } else {
            &self.props
        };
        let mut task = NewTask::new(kind)
            .props(props)
            .priority(self.priority.or(default.priority).unwrap_or(0));
        if let Some(id) = self.id.or_else(|| default.id.clone()) {
            task = task.id(id);
        }
        if let Some(at) = self.start_at.or(default.start_at) {
            task = task.start_at(at);
        }
        task = waiting(task, [&self.after, &self.after_ok], default)?;
        if let Some(at) = self.after_deadline.or(default.after_deadline) {
            task = task.after_deadline(at);
        }
        if let Some(at) = self.start_by.or(default.start_by) {
            task = task.start_by(at);
        }
        if let Some(at) = self.end_by.or(default.end_by) {
            task = task.end_by(at);
        }
        if let Some(unique) = self.unique.as_ref().or(default.unique.as_ref()) {
            task = task.unique(unique.key(), unique.within());
        }
        let limits = match self.limits.is_empty() {
            true => &default.limits,
            false => &self.limits,
        };
        for limit in limits {
            task = task.limit(limit.clone());
        }
        if let Some(retry) = self.retry.or_else(|| default.retry.clone()) {
            task = task.retry(retry);
        }
        for (name, value) in default.labels.iter().chain(&self.labels) {
            task = task.label(name, value);
        }
        Ok(task)
    }
}

/// Adds the tasks that a task waits for: those of its line, or else the default ones.
fn waiting(
    task: NewTask,
    [after, after_ok]: [&Vec<String>; 2],
    default: &TaskLine,
) -> Result<NewTask, Invalid> {
    let (after, after_ok) = match after.is_empty() && after_ok.is_empty() {
        true => (&default.after, &default.after_ok),
        false => (after, after_ok),
    };
    match (after.is_empty(), after_ok.is_empty()) {
        (false, false) => {
            let reason = "is there beside `after_ok`; put every task into one of them";
            Err(Invalid::new("after", reason))
        }
        (_, true) => Ok(task.after(after)),
        (true, false) => Ok(task.after_ok(after_ok)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (text, says) in [
            ("{", "EOF"),
            ("[]", "task: is not a JSON object; write it like {"),
            ("7", "task: is not a JSON object; write it like {"),
            (
                r#"{"kind":"a","priority":"high"}"#,
                "priority: \"high\" is not a whole number from -2147483648 to 2147483647",
            ),
            (
                r#"{"kind":"a","priority":2147483648}"#,
                "priority: 2147483648 is not",
            ),
            (
                r#"{"kind":"a","prop":1}"#,
                "task: 'prop' is no field; write 'props', if that is the one",
            ),
            (
                r#"{"kind":"exec","command":"true"}"#,
                "'command' is a field of a command, and stands in 'props'; \
                 write it like {\"kind\":\"exec\",\"props\":{\"command\":\"ls\"}}",
            ),
            (
                r#"{"kind":"a","in":"2h"}"#,
                "'in' is no field; write 'start_at' with a time",
            ),
            (r#"{"kind":"a","retry":"often"}"#, "retry: 'often' is not"),
            (
                r#"{"kind":"a","retry":[]}"#,
                "retry: is an array, not a number",
            ),
            (r#"{"kind":"a","retry":0}"#, "retry.attempts: 0 attempts"),
            (
                r#"{"kind":"a","start_at":"soon"}"#,
                "task: start_at: 'soon'",
            ),
            (
                r#"{"kind":"a","retry":{"policy":"x"}}"#,
                "retry.policy: 'x' is none of strikes, exponential, never, abandoned",
            ),
        ] {
            let error = TaskLine::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let none = TaskLine::parse("{}").unwrap();
        let error = none.into_task(&TaskLine::default()).unwrap_err();
        assert_eq!(error.field(), "kind");
    }

    #[test]
    fn the_fields_are_those_that_are_read() {
        for field in TaskLine::FIELDS {
            let text = format!("{{\"{field}\":true}}");
            let error = TaskLine::parse(&text).err().map(|e| e.to_string());
            let unknown = error.is_some_and(|e| e.contains("is no field"));
            assert!(!unknown, "{field}");
        }
    }

    #[test]
    fn a_line_names_a_policy_as_the_option_does() {
        for (text, policy) in [
            (r#""never""#, Some(Retry::Never)),
            (r#""3""#, Some(exec::read_retry("3").unwrap())),
            ("3", Some(exec::read_retry("3").unwrap())),
            (r#"{"policy":"strikes"}"#, Some(Retry::strikes())),
            ("null", None),
        ] {
            let line = TaskLine::parse(&format!("{{\"kind\":\"a\",\"retry\":{text}}}"));
            assert_eq!(line.unwrap().retry, policy, "{text}");
        }
    }

    #[test]
    fn the_line_stands_above_the_default() {
        let default = TaskLine::parse(r#"{"kind":"a","priority":3,"labels":{"x":"1"}}"#).unwrap();
        let line = TaskLine::parse(r#"{"id":"t","props":[1],"labels":{"x":"2"}}"#).unwrap();
        let task = line.into_task(&default).unwrap().build().unwrap().task;
        assert_eq!(
            serde_json::to_string(&task).unwrap(),
            r#"{"id":"t","kind":"a","props":[1],"priority":3,"labels":{"x":"2"}}"#
        );
    }
}
