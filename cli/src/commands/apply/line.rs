//! Reads a line of `apply`: a [`Line`] with relative times.

use jiff::Timestamp;
use serde_json::value::RawValue;
use windlass::{
    Invalid,
    statemachine::plain,
    store::{Line, Operation, read_line, read_line_at},
};

use crate::{
    changed_props::{check_limits, check_props},
    line,
};

/// Reads a line; times such as `in 5m` count from `now`. A task without an id gets a UUID.
///
/// # Errors
///
/// [`Invalid`] that names the field; also for a command whose props are invalid, and would fail later.
pub(super) fn parse(text: &str, now: Timestamp) -> Result<Line, Invalid> {
    // A text that is not an object, or has a field twice, gets the error of any line.
    let Ok(plain::Fields::<Box<RawValue>>(mut fields)) = plain::object(text) else {
        return read_line(text);
    };
    if fields.get("op").is_some_and(|op| op.get() == r#""submit""#) {
        line::check_names(fields.keys().map(String::as_str))?;
        if fields.get("id").is_none_or(|id| id.get() == "null") {
            let id = raw("id", &uuid::Uuid::now_v7().to_string())?;
            fields.insert("id".to_owned(), id);
        }
    }
    let op = fields.get("op").map(|op| op.get().to_owned());
    let line = raw("line", &fields)?;
    let line = read_line_at(line.get(), now).map_err(|error| with_tip(error, op.as_deref()))?;
    if let Line::Operation(Operation::Submit(submit)) = &line {
        submit.task.check(usize::MAX)?;
        check_props(&submit.task.kind, &submit.task.props)?;
        check_limits(&submit.task)?;
    }
    Ok(line)
}

/// Names the field for a time in place of `in`, the name of an option.
fn with_tip(error: Invalid, op: Option<&str>) -> Invalid {
    let field = match op {
        _ if error.field() != "in" => return error,
        Some(r#""submit""#) => "start_at",
        Some(r#""reschedule""#) => "due",
        Some(r#""send""#) => "until",
        _ => return error,
    };
    let reason =
        format!("'in' is not a field; write \"{field}\":\"in 5m\", or a time in '{field}'");
    Invalid::new("in", reason)
}

fn raw(name: &'static str, value: &impl serde::Serialize) -> Result<Box<RawValue>, Invalid> {
    serde_json::value::to_raw_value(value).map_err(|e| Invalid::new(name, plain::words(&e)))
}

#[cfg(test)]
mod tests {
    use windlass::{
        Command,
        store::{IfExists, Reschedule},
    };

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn every_time_of_a_line_may_be_relative() {
        let text = r#"{"op":"submit","kind":"k","id":"a","after":["b"],"after_deadline":"in 5m","start_by":"in 6m","end_by":"in 7m"}"#;
        let Line::Operation(Operation::Submit(submit)) = parse(text, NOW).unwrap() else {
            panic!("no submit");
        };
        let minutes = |at: Option<Timestamp>| at.map(|at| at.as_second() / 60);
        let task = submit.task;
        let waits = task.waits.unwrap().deadline;
        let times = [waits, task.start_by, task.end_by];
        assert_eq!(times.map(minutes), [Some(5), Some(6), Some(7)]);
    }

    #[test]
    fn other_operations_are_those_of_the_library() {
        let due = NOW + jiff::SignedDuration::from_mins(5);
        let change = Reschedule::new("a".parse().unwrap()).due(due).priority(3);
        let text = r#"{"op":"reschedule","task":"a","due":"in 5m","priority":3}"#;
        let line = Line::Operation(Operation::Reschedule(change));
        assert_eq!(parse(text, NOW).unwrap(), line);
        let text = r#"{"op":"send","task":"a","command":"sleep","until":"now","id":"c"}"#;
        let Line::Operation(Operation::Send(send)) = parse(text, NOW).unwrap() else {
            panic!("no command");
        };
        assert_eq!(send.command, Command::Sleep { until: NOW });
        let text = r#"{"op":"require","task":"a","exists":true,"version":3}"#;
        assert_eq!(parse(text, NOW), windlass::store::read_line(text));
    }

    #[test]
    fn a_submit_has_the_fields_of_a_task() {
        let text = r#"{"op":"submit","id":"a","kind":"k","props":{"n":9007199254740993},"start_at":"in 5m","if_exists":"skip"}"#;
        let Line::Operation(Operation::Submit(submit)) = parse(text, NOW).unwrap() else {
            panic!("a submit");
        };
        assert_eq!(submit.if_exists, IfExists::Skip);
        assert_eq!(submit.task.props.as_str(), r#"{"n":9007199254740993}"#);
        assert!(submit.task.start_at.is_some());
    }

    #[test]
    fn wrong_lines_name_the_field() {
        for (text, says) in [
            ("{", "operation: is not JSON: "),
            ("7", "operation: is 7, not an object"),
            (r#"{"task":"a"}"#, "op: is missing"),
            (
                r#"{"op":"drop","task":"a"}"#,
                "op: 'drop' is not one of submit, send",
            ),
            (r#"{"op":"submit","id":"a"}"#, "kind: is missing"),
            (
                r#"{"op":"submit","kind":"k","prop":1}"#,
                "'prop' is not a field",
            ),
            (
                r#"{"op":"submit","kind":"k","xyz":["b"]}"#,
                "xyz: 'xyz' is not a field; the fields are op, id, kind, props, start_at, priority, labels, retry, \
                 after, after_ok, after_deadline, start_by, end_by, unique, limits, meta, free_id, paused, if_exists",
            ),
            (
                r#"{"op":"submit","kind":"k","command":"ls"}"#,
                "'command' is a field of a command, and belongs in 'props'",
            ),
            (r#"{"op":"submit","kind":"exec"}"#, "props: is null"),
            (
                r#"{"op":"submit","kind":"k","if_exists":"x"}"#,
                "if_exists: 'x' is not one of",
            ),
            (
                r#"{"op":"send","task":"a","command":"stop"}"#,
                "command: 'stop' is not one of",
            ),
            (
                r#"{"op":"send","task":"a","command":"sleep"}"#,
                "until: is missing",
            ),
            (r#"{"op":"reschedule","task":"a"}"#, "due: is missing"),
            (
                r#"{"op":"reschedule","task":"a","due":"soon"}"#,
                "due: 'soon'",
            ),
        ] {
            let error = parse(text, NOW).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_field_that_is_given_twice_is_refused() {
        for text in [
            r#"{"op":"submit","id":"a","id":"b","kind":"k"}"#,
            r#"{"op":"require","task":"a","exists":true,"exists":false}"#,
        ] {
            let error = parse(text, NOW).unwrap_err().to_string();
            assert!(error.contains("is given twice"), "{error}");
        }
    }
}
