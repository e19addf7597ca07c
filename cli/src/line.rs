//! Reads a task from one line of JSON: a [`TaskForm`].

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use windlass::{
    Invalid, Json, NewTask,
    statemachine::{plain, wire::TaskForm},
};

use crate::exec;

/// The example for a line.
const EXAMPLE: &str = r#"write it like {"id":"a","kind":"exec","props":{…}}"#;

/// The example for a line with a command.
const COMMAND: &str = r#"write it like {"kind":"exec","props":{"command":"ls"}}"#;

/// Reads a line.
///
/// # Errors
///
/// [`Invalid`] that says what is wrong, and where in the line.
pub(crate) fn parse(text: &str) -> Result<TaskForm, Invalid> {
    // serde also reads an array, and reports it by the names of Rust types.
    if !text.trim_start().starts_with('{') && Json::parse("task", text).is_ok() {
        return Err(Invalid::new(
            "task",
            format!("is not a JSON object; {EXAMPLE}"),
        ));
    }
    if let Ok(fields) = serde_json::from_str::<BTreeMap<&str, IgnoredAny>>(text) {
        check_names(fields.into_keys())?;
    }
    plain::object(text).map_err(|wrong| {
        // An error of one field says what is right for it; the example has other fields.
        let reason = match wrong.is_whole() {
            true => format!("{wrong}; {EXAMPLE}"),
            false => wrong.to_string(),
        };
        Invalid::new("task", reason)
    })
}

/// Refuses the fields of a command among the fields of a task.
///
/// # Errors
///
/// [`Invalid`] that says where the field belongs.
pub(crate) fn check_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), Invalid> {
    match names.find(|name| exec::FIELDS.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Invalid::new(
            "task",
            format!("'{name}' is a field of a command, and belongs in 'props'; {COMMAND}"),
        )),
    }
}

/// Makes the task of a line, with a UUID if the line has no id.
///
/// # Errors
///
/// [`Invalid`] that names the field, such as a missing kind.
pub(crate) fn new_task(line: TaskForm) -> Result<NewTask, Invalid> {
    if line.kind.is_none() {
        let reason = "is missing; put it in the line, or give --kind";
        return Err(Invalid::new("kind", reason));
    }
    line.try_into()
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
                "priority: is \"high\", not a whole number from -2147483648 to 2147483647",
            ),
            (
                r#"{"kind":"a","priority":2147483648}"#,
                "priority: is 2147483648, not",
            ),
            (
                r#"{"kind":"a","prop":1}"#,
                "task: 'prop' is not a field; write 'props', if that is the one",
            ),
            (
                r#"{"kind":"exec","command":"true"}"#,
                "'command' is a field of a command, and belongs in 'props'; \
                 write it like {\"kind\":\"exec\",\"props\":{\"command\":\"ls\"}}",
            ),
            (
                r#"{"kind":"a","in":"2h"}"#,
                "'in' is not a field; write 'start_at' with a time",
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
                "retry.policy: 'x' is not one of strikes, exponential, never, abandoned",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let none = parse("{}").unwrap();
        let error = new_task(none).unwrap_err();
        assert_eq!(error.field(), "kind");
    }
}
