//! [`Task`]: the immutable envelope of a unit of work.

mod terms;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Invalid, Json, Kind, Limit, Meta, Retry, TaskId, Unique, meta,
    text::{is_blank, is_unprintable},
    waits::Waits,
};

/// Labels of a task: short names with short values, to find tasks by and to choose nodes by.
pub type Labels = BTreeMap<String, String>;

/// How many labels a task may have.
pub const MAX_LABELS: usize = 32;
/// The longest name or value of a label, in bytes.
pub const MAX_LABEL_BYTES: usize = 128;

/// A unit of work as it was submitted. Its attempts never change it, only a reschedule or a retry with other props; its
/// [`TaskState`](crate::TaskState) changes.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Json, Task};
///
/// let mut task = Task::new("nightly".parse()?, "report".parse()?);
/// task.props = Json::parse("props", r#"{"customer":7}"#)?;
/// task.priority = 10;
/// assert_eq!(
///     serde_json::to_string(&task).unwrap(),
///     r#"{"id":"nightly","kind":"report","props":{"customer":7},"priority":10}"#,
/// );
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The id of the task, unique in its namespace.
    pub id: TaskId,
    /// The kind, which selects the handler.
    pub kind: Kind,
    /// The input of the handler; `null` by default.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub props: Json,
    /// The earliest time at which the task starts; at once by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::start_at"
    )]
    pub start_at: Option<Timestamp>,
    /// The priority: tasks with a greater one are claimed first; 0 by default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Labels to find the task by and to choose nodes by.
    #[serde(
        default,
        skip_serializing_if = "Labels::is_empty",
        deserialize_with = "crate::plain::fields"
    )]
    pub labels: Labels,
    /// The retry policy, which decides what follows a failed attempt; the kind's policy by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The other tasks that the task waits for before its first run; none by default. A store moves them
    /// into the [state](crate::TaskState::waits) of the task: a task that is read from a store has none
    /// here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Box<Waits>>,
    /// The limits that the task shares with other tasks: how many of them run at once, or start within a
    /// period; no limits by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// The time by which the first run must have begun, otherwise the task fails; no such time by
    /// default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::start_by"
    )]
    pub start_by: Option<Timestamp>,
    /// The time by which the task must have ended, otherwise it fails; no such time by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::end_by"
    )]
    pub end_by: Option<Timestamp>,
    /// The key that no other task may have for a period; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// Text that travels with the task, such as `traceparent`; none by default.
    #[serde(
        default,
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "crate::plain::fields"
    )]
    pub meta: Meta,
    /// Whether its id is free again when it has completed: each later submit of the id makes a new task in its place,
    /// whatever the submit's rule for existing ids is; `false` by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free_id: bool,
    /// Whether it is paused from its submit on, until a command resumes it; `false` by default. A store moves it into
    /// the [state](crate::TaskState::status) of the task: in a task that is read from a store this field is `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

impl Task {
    /// Returns a task of a kind, with the defaults for everything else.
    pub fn new(id: TaskId, kind: Kind) -> Self {
        Self {
            id,
            kind,
            props: Json::null(),
            start_at: None,
            priority: 0,
            labels: Labels::new(),
            retry: None,
            waits: None,
            limits: Vec::new(),
            start_by: None,
            end_by: None,
            unique: None,
            meta: Meta::new(),
            free_id: false,
            paused: false,
        }
    }

    /// Returns whether another task is the same work: the same kind, and props of the same value
    /// ([`Json::same_value`]). Labels, priority, start time, retry policy and `meta` are not
    /// compared.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::{Json, Task};
    ///
    /// let mut one = Task::new("a".parse()?, "report".parse()?);
    /// one.props = Json::parse("props", r#"{"year":2030,"team":"x"}"#)?;
    /// let mut again = one.clone();
    /// again.props = Json::parse("props", r#"{"team": "x", "year": 2030}"#)?;
    /// assert!(one.is_same_work(&again));
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn is_same_work(&self, other: &Self) -> bool {
        self.kind == other.kind && self.props.same_value(&other.props)
    }

    /// Returns how its work differs from that of a new task with its id, as the end of a sentence about this task; `None` if
    /// it [is the same](Self::is_same_work).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Task;
    ///
    /// let task = Task::new("a".parse()?, "mail".parse()?);
    /// let mut new = task.clone();
    /// assert_eq!(task.difference(&new), None);
    /// new.props = serde_json::json!({"to": "ann"}).into();
    /// assert_eq!(task.difference(&new).unwrap(), "its props are others");
    /// new.kind = "call".parse()?;
    /// assert_eq!(task.difference(&new).unwrap(), "its kind is 'mail', not 'call'");
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn difference(&self, new: &Self) -> Option<String> {
        if self.kind != new.kind {
            return Some(format!("its kind is '{}', not '{}'", self.kind, new.kind));
        }
        let differs = !self.is_same_work(new);
        differs.then(|| "its props are others".to_owned())
    }

    /// Checks everything that the types do not: sizes, nesting, labels, the numbers of the retry
    /// policy.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the field and its range; for props that are too large, with both
    /// sizes.
    pub fn check(&self, max_bytes: usize) -> Result<(), Invalid> {
        if self.props.len() > max_bytes {
            return Err(Invalid::new(
                "props",
                format!(
                    "have {} bytes; at most {max_bytes} are allowed",
                    self.props.len()
                ),
            ));
        }
        self.props.check_depth("props")?;
        check_labels(&self.labels)?;
        meta::check(&self.meta)?;
        if let Some(waits) = &self.waits {
            self.check_waits(waits)?;
        }
        if self.paused && (self.start_at.is_some() || self.waits.is_some()) {
            let reason = "has no effect together with 'start_at', 'after' or 'after_ok': the command that resumes a task starts it; \
                          leave one of them out";
            return Err(Invalid::new("paused", reason));
        }
        self.check_terms()?;
        self.retry.as_ref().map_or(Ok(()), Retry::check)
    }

    fn check_waits(&self, waits: &Waits) -> Result<(), Invalid> {
        let field = if waits.ok { "after_ok" } else { "after" };
        waits.check(field)?;
        waits.check_other(field, &self.id)?;
        if self.start_at.is_some() {
            let reason = "has no effect on a task that waits for others; leave it out, or submit the task without `after`";
            return Err(Invalid::new("start_at", reason));
        }
        Ok(())
    }
}

fn check_labels(labels: &Labels) -> Result<(), Invalid> {
    if labels.len() > MAX_LABELS {
        let reason = format!("are {}; at most {MAX_LABELS} are allowed", labels.len());
        return Err(Invalid::new("labels", reason));
    }
    for (name, value) in labels {
        let bad = |text: &str| text.len() > MAX_LABEL_BYTES || text.chars().any(is_unprintable);
        if is_blank(name) || bad(name) || name.contains(['=', ',']) {
            let reason = format!(
                "the name {name:?} is not 1 to {MAX_LABEL_BYTES} bytes of printable text without '=' and ','"
            );
            return Err(Invalid::new("labels", reason));
        }
        if bad(value) || value.contains(',') {
            let reason = format!(
                "the value of {name:?} is not printable text of at most {MAX_LABEL_BYTES} bytes without ','"
            );
            return Err(Invalid::new("labels", reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task::new("t".parse().unwrap(), "k".parse().unwrap())
    }

    #[test]
    fn golden_json() {
        let mut full = task();
        full.props = serde_json::json!({"n": 1}).into();
        full.start_at = Some("2030-01-02T03:04:05Z".parse().unwrap());
        full.priority = -3;
        full.labels.insert("team".into(), "a".into());
        full.retry = Some(Retry::Never);
        for (task, text) in [
            (task(), r#"{"id":"t","kind":"k"}"#),
            (
                full,
                r#"{"id":"t","kind":"k","props":{"n":1},"start_at":"2030-01-02T03:04:05Z","priority":-3,"labels":{"team":"a"},"retry":{"policy":"never"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&task).unwrap(), text);
            assert_eq!(serde_json::from_str::<Task>(text).unwrap(), task);
        }
    }

    #[test]
    fn an_unknown_field_is_named() {
        let error = serde_json::from_str::<Task>(r#"{"id":"t","kind":"k","prios":1}"#).unwrap_err();
        assert!(
            error.to_string().contains("unknown field `prios`"),
            "{error}"
        );
    }

    #[test]
    fn the_error_of_too_large_props_names_both_sizes() {
        let mut task = task();
        task.props = Json::new("props", &"x".repeat(100)).unwrap();
        let error = task.check(50).unwrap_err();
        assert_eq!(error.field(), "props");
        assert!(
            error.to_string().contains("102") && error.to_string().contains("50"),
            "{error}"
        );
        assert_eq!(task.check(102), Ok(()));
    }

    #[test]
    fn props_that_are_nested_too_deep_are_refused() {
        let mut task = task();
        let text = format!("{}{}", "[".repeat(101), "]".repeat(101));
        task.props = Json::parse("props", &text).unwrap();
        assert_eq!(task.check(1000).unwrap_err().field(), "props");
    }

    #[test]
    fn bad_labels_are_refused() {
        let (long, longest) = ("x".repeat(129), "x".repeat(128));
        for (name, value, is_legal) in [
            ("", "x", false),
            ("a=b", "x", false),
            ("a,b", "x", false),
            ("a\nb", "x", false),
            ("a", "x\ny", false),
            ("a", "x\u{202e}y", false),
            ("a\u{2066}b", "x", false),
            ("a", "x,y", false),
            (&long, "x", false),
            ("a", &long, false),
            (&longest, &longest, true),
            ("a", "", true),
            ("a", "x=y", true),
        ] {
            let mut task = task();
            task.labels.insert(name.into(), value.into());
            let refused = task.check(100).err();
            let field = refused.as_ref().map(Invalid::field);
            assert_eq!(field, (!is_legal).then_some("labels"), "{name}={value}");
        }
    }

    #[test]
    fn a_task_has_32_labels_at_most() {
        let mut task = task();
        for n in 0..MAX_LABELS {
            task.labels.insert(format!("l{n}"), "x".into());
        }
        assert_eq!(task.check(100), Ok(()));
        task.labels.insert("one more".into(), "x".into());
        let error = task.check(100).unwrap_err();
        assert_eq!(error.to_string(), "labels: are 33; at most 32 are allowed");
    }

    #[test]
    fn a_bad_wait_is_refused() {
        let mut own = task();
        own.waits = Some(Box::new(Waits::new("after", ["a", "t"]).unwrap()));
        let refused = own.check(100).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "after: names the task 't' itself; name other tasks"
        );
        let mut starts = task();
        starts.waits = Some(Box::new(Waits::new("after", ["a"]).unwrap().ok()));
        assert_eq!(starts.check(100), Ok(()));
        starts.start_at = Some("2030-01-02T03:04:05Z".parse().unwrap());
        assert_eq!(starts.check(100).unwrap_err().field(), "start_at");
        starts.start_at = None;
        if let Some(waits) = &mut starts.waits {
            waits.tasks.clear();
        }
        assert_eq!(starts.check(100).unwrap_err().field(), "after_ok");
    }

    #[test]
    fn the_same_work_has_the_same_kind_and_the_same_props() {
        let one = task();
        let mut other_kind = task();
        other_kind.kind = "other".parse().unwrap();
        let mut other_props = task();
        other_props.props = serde_json::json!(1).into();
        let mut elsewhere = task();
        elsewhere.id = "elsewhere".parse().unwrap();
        elsewhere.priority = 7;
        assert!(one.is_same_work(&elsewhere));
        assert!(!one.is_same_work(&other_kind));
        assert!(!one.is_same_work(&other_props));
    }
}
