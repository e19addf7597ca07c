//! Bodies that are operations.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::value::RawValue;
use uuid::Uuid;
use windlass::{
    Invalid, TaskId,
    statemachine::plain,
    store::{Line, Operation, Submit, read_line_at},
};

use crate::problem::Problem;

/// The field of a submit, and the parameter of a request, with which the tasks that a task waits for need not exist.
pub(crate) const ALLOW_MISSING: &str = "allow_missing";

/// The fields of a body.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Reads a body as the fields of an operation. `op`, and `task` unless it is a submit, are not in the body. Times may be
/// relative. A new task without an id gets `id`, or a UUID.
pub(crate) fn operation(
    op: &'static str,
    (task, id): (Option<&TaskId>, Option<&str>),
    body: &[u8],
    now: Timestamp,
) -> Result<Operation, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::invalid("body", "is not UTF-8"))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    let plain::Fields::<Box<RawValue>>(mut fields) =
        plain::object(text).map_err(|error| Problem::invalid("body", error))?;
    let mut set = vec![("op", op)];
    set.extend(task.map(|task| ("task", task.as_str())));
    for (name, value) in set {
        if fields.insert(name.to_owned(), raw(value)?).is_some() {
            let what = "is not a field of this body: the request says it";
            return Err(Problem::invalid(name, what));
        }
    }
    if op == "submit" {
        give_id(&mut fields, id)?;
    }
    let line = serde_json::to_string(&fields).map_err(|e| Problem::invalid("body", e))?;
    match read_line_at(&line, now).map_err(without_line)? {
        Line::Operation(operation) => Ok(operation),
        Line::Guards(_) => Err(Problem::invalid("op", "is not an operation")),
    }
}

/// Reads a body as a task to submit, and whether the tasks that it waits for need not exist.
pub(crate) fn submit(
    id: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(Submit, bool), Problem> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::invalid("body", "is not UTF-8"))?;
    // A text that is not an object gets the error of any body.
    let fields = plain::object::<plain::Fields<Box<RawValue>>>(text);
    let mut fields = fields.map(|fields| fields.0).unwrap_or_default();
    let (allow_missing, body) = match fields.remove(ALLOW_MISSING) {
        None => (false, body.to_vec()),
        Some(value) => {
            let allow = match value.get() {
                "true" => true,
                "false" | "null" => false,
                _ => return Err(Problem::invalid(ALLOW_MISSING, "is not true or false")),
            };
            let body = serde_json::to_vec(&fields);
            (allow, body.map_err(|e| Problem::invalid("body", e))?)
        }
    };
    match operation("submit", (None, id), &body, now)? {
        Operation::Submit(submit) => Ok((submit, allow_missing)),
        _ => Err(Problem::invalid("body", "is not a task")),
    }
}

/// Returns whether a body has an id.
pub(crate) fn has_id(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let fields = plain::object::<plain::Fields<Box<RawValue>>>(text);
    fields.is_ok_and(|fields| fields.0.get("id").is_some_and(|id| id.get() != "null"))
}

/// Gives a task without an id this one, or a UUID.
fn give_id(fields: &mut Fields, id: Option<&str>) -> Result<(), Problem> {
    if fields.get("id").is_none_or(|id| id.get() == "null") {
        let id = id.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
        fields.insert("id".to_owned(), raw(&id)?);
    }
    Ok(())
}

/// Removes the example of a whole line from an error: a body has no `op` and no `task`.
fn without_line(error: Invalid) -> Problem {
    let reason = error.reason();
    let reason = reason.split("; write it like {\"op\"").next();
    let reason = reason
        .unwrap_or_default()
        .replace("the fields are op, ", "the fields are ")
        .replace(", if_exists", &format!(", if_exists, {ALLOW_MISSING}"));
    Problem::invalid(error.field(), reason)
}

/// Reads an operation, or guards, as `windlass apply` does: a new task without an id gets `id`, or a UUID.
pub(crate) fn line_of(text: &str, id: Option<&str>, now: Timestamp) -> Result<Line, Problem> {
    // A text that is not an object gets the error of any line.
    let Ok(plain::Fields::<Box<RawValue>>(mut fields)) = plain::object(text) else {
        return Ok(read_line_at(text, now)?);
    };
    if fields.get("op").is_some_and(|op| op.get() == r#""submit""#) {
        give_id(&mut fields, id)?;
    }
    let line = serde_json::to_string(&fields).map_err(|e| Problem::invalid("body", e))?;
    Ok(read_line_at(&line, now)?)
}

fn raw(text: &str) -> Result<Box<RawValue>, Problem> {
    serde_json::value::to_raw_value(text).map_err(|error| Problem::invalid("body", error))
}
