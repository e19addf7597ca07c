use jiff::Timestamp;

use super::{
    read::{WAITS, example},
    *,
};
use crate::{
    Command, IfExists, Retry, Submit, Task, operation::SendCommand, plain, wire::TaskForm,
};

pub(super) fn read_line(text: &str) -> Result<Line, Invalid> {
    Line::read(text, || CommandId::new("new"))
}

pub(super) fn task_id() -> TaskId {
    "a".parse().unwrap()
}

#[test]
fn every_operation_is_read() {
    let due: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let mut task = Task::new(task_id(), "k".parse().unwrap());
    task.priority = 3;
    task.props = crate::Json::parse("props", r#"{"n":12345678901234567890123}"#).unwrap();
    let guard = |require| Guard {
        task: task_id(),
        require,
    };
    for (text, line) in [
        (
            r#"{"op":"submit","id":"a","kind":"k","priority":3,"props":{"n":12345678901234567890123},"if_exists":"same"}"#,
            Line::Operation(Operation::Submit(Submit {
                task,
                if_exists: IfExists::Same,
            })),
        ),
        (
            r#"{"op":"send","task":"a","id":"c","command":"sleep","until":"2030-01-01T00:00:00Z"}"#,
            Line::Operation(Operation::Send(SendCommand::new(
                task_id(),
                CommandId::new("c").unwrap(),
                Command::Sleep { until: due },
            ))),
        ),
        (
            r#"{"op":"delete","task":"a"}"#,
            Line::Operation(Operation::Delete(task_id().into())),
        ),
        (
            r#"{"op":"retry","task":"a"}"#,
            Line::Operation(Operation::Retry(task_id().into())),
        ),
        (
            r#"{"op":"reschedule","task":"a","limits":[{"key":"k","at_once":2}]}"#,
            Line::Operation(Operation::Reschedule(
                Reschedule::new(task_id()).limits([crate::Limit::at_once("k", 2).unwrap()]),
            )),
        ),
        (
            r#"{"op":"reschedule","task":"a","due":"2030-01-01T00:00:00Z","priority":3}"#,
            Line::Operation(Operation::Reschedule(
                Reschedule::new(task_id()).due(due).priority(3),
            )),
        ),
        (
            r#"{"op":"require","task":"a","exists":true,"state":"paused","version":3,"fence":4,"kind":"k","unclaimed":true}"#,
            Line::Guards(vec![
                guard(Require::Exists),
                guard(Require::State(StateKind::Paused)),
                guard(Require::Version(3)),
                guard(Require::Fence(Fence(4))),
                guard(Require::Kind("k".parse().unwrap())),
                guard(Require::Unclaimed),
            ]),
        ),
    ] {
        assert_eq!(read_line(text).unwrap(), line, "{text}");
    }
}

#[test]
fn a_wrong_field_is_named() {
    for (text, field) in [
        ("", "operation"),
        ("{", "operation"),
        ("[1]", "operation"),
        ("7", "operation"),
        ("{}", "op"),
        (
            r#"{"op":"require","task":"a","exists":true,"exists":false}"#,
            "operation",
        ),
        (r#"{"op":"dance"}"#, "op"),
        (r#"{"op":7}"#, "op"),
        (r#"{"op":"submit","kind":"k"}"#, "id"),
        (r#"{"op":"submit","id":"a"}"#, "kind"),
        (r#"{"op":"submit","id":"a/b","kind":"k"}"#, "id"),
        (
            r#"{"op":"submit","id":"a","kind":"k","priority":"high"}"#,
            "priority",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","start_at":"soon"}"#,
            "start_at",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","labels":[]}"#,
            "labels",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","retry":{"policy":"hope"}}"#,
            "retry",
        ),
        (r#"{"op":"submit","id":"a","kind":"k","prios":1}"#, "prios"),
        // Regression: a submit with it was accepted.
        (r#"{"op":"submit","id":"a","kind":"k","":1}"#, "operation"),
        (r#"{"op":"delete","task":"a","":1}"#, "operation"),
        (
            r#"{"op":"submit","id":"a","kind":"k","if_exists":"maybe"}"#,
            "if_exists",
        ),
        (r#"{"op":"send","command":"run"}"#, "task"),
        (r#"{"op":"send","task":"a"}"#, "command"),
        (r#"{"op":"send","task":"a","command":"dance"}"#, "command"),
        (r#"{"op":"send","task":"a","command":7}"#, "command"),
        (r#"{"op":"send","task":"a","command":"sleep"}"#, "until"),
        (
            r#"{"op":"send","task":"a","command":"sleep","until":"soon"}"#,
            "until",
        ),
        (
            r#"{"op":"send","task":"a","command":"pause","untill":1}"#,
            "untill",
        ),
        (r#"{"op":"send","task":"a","command":"run","id":""}"#, "id"),
        (r#"{"op":"delete","task":"a","why":1}"#, "why"),
        (r#"{"op":"delete","task":""}"#, "task"),
        (r#"{"op":"reschedule","task":"a"}"#, "due"),
        (r#"{"op":"reschedule","task":"a","due":"soon"}"#, "due"),
        (r#"{"op":"require","task":"a"}"#, "require"),
        (r#"{"op":"require","task":"a","state":"dancing"}"#, "state"),
        (r#"{"op":"require","task":"a","colour":1}"#, "colour"),
        (
            r#"{"op":"require","task":"a","unclaimed":false}"#,
            "unclaimed",
        ),
        (r#"{"op":"require","task":"a","no_data":false}"#, "no_data"),
    ] {
        let error = read_line(text).unwrap_err();
        assert_eq!(error.field(), field, "{text}: {error}");
    }
}

/// A generator that writes null for each absent field erased the data and the props.
#[test]
fn a_null_changes_nothing_and_no_data_erases() {
    let text = r#"{"op":"reschedule","task":"a","due":null,"priority":3,"kind":null,"limits":null,"data":null,"no_data":null,"props":null,"no_props":null}"#;
    let Line::Operation(Operation::Reschedule(change)) = read_line(text).unwrap() else {
        panic!("no reschedule")
    };
    assert_eq!(change, Reschedule::new("a".parse().unwrap()).priority(3));
    let text = r#"{"op":"retry","task":"a","data":null,"props":null}"#;
    let Line::Operation(Operation::Retry(retry)) = read_line(text).unwrap() else {
        panic!("no retry")
    };
    assert!(!retry.is_edited());
    for text in [
        r#"{"op":"retry","task":"a","no_data":true,"no_props":true}"#,
        r#"{"op":"reschedule","task":"a","no_data":true,"no_props":true}"#,
    ] {
        let (data, props) = match read_line(text).unwrap() {
            Line::Operation(Operation::Retry(retry)) => (retry.data, retry.props),
            Line::Operation(Operation::Reschedule(change)) => (change.data, change.props),
            other => panic!("{other:?}"),
        };
        assert_eq!((data, props), (Some(Json::null()), Some(Json::null())));
        let both = text.replace("\"no_data\"", "\"data\":7,\"no_data\"");
        assert_eq!(read_line(&both).unwrap_err().field(), "no_data");
    }
    let only = r#"{"op":"reschedule","task":"a","data":null}"#;
    assert_eq!(read_line(only).unwrap_err().field(), "due");
}

#[test]
fn a_wrong_type_is_named_in_the_words_of_json() {
    for (text, says) in [
        (
            "[1]",
            "operation: is an array, not an object; write it like {",
        ),
        ("{", "operation: is not JSON: "),
        (r#"{"op":7}"#, "op: is 7, not text in quotes"),
        (
            r#"{"op":"send","task":"a"}"#,
            r#"command: is missing; write it like {"op":"send","task":"a","command":"pause"}"#,
        ),
        (
            r#"{"op":"delete","task":true}"#,
            "task: is true, not text in quotes",
        ),
        (
            r#"{"task":"a"}"#,
            r#"op: is missing; it is one of submit, send, delete, retry, reschedule, require: write it like {"op":"submit""#,
        ),
        (
            r#"{"op":"submit","kind":"k"}"#,
            r#"id: is missing; write it like {"op":"submit","id":"a","kind":"report"}"#,
        ),
        (
            r#"{"op":"send","command":"run"}"#,
            r#"task: is missing; write it like {"op":"send","task":"a","command":"pause"}"#,
        ),
        (
            r#"{"op":"send","task":"a","command":"sleep"}"#,
            r#"until: is missing; a sleep needs a time to wake; write it like {"op":"send","task":"a","command":"sleep","until":"2030-"#,
        ),
        (
            r#"{"op":"send","task":"a","command":"signal"}"#,
            r#"name: is missing; a signal needs a name; write it like {"op":"send","task":"a","command":"signal","name":"approve","#,
        ),
        (
            r#"{"op":"require","exists":true}"#,
            r#"task: is missing; write it like {"op":"require","task":"a","state":"completed"}"#,
        ),
        (
            r#"{"op":"reschedule","due":null}"#,
            r#"task: is missing; write it like {"op":"reschedule","#,
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","xyz":["b"]}"#,
            "xyz: 'xyz' is not a field; the fields are op, id, kind, props, start_at, priority, labels, retry, after, \
             after_ok, after_deadline, start_by, end_by, unique, limits, meta, free_id, paused, if_exists",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","retry":"often"}"#,
            "retry: 'often' is not a number of attempts (1 or more), 'exponential', 'strikes', 'never', 'abandoned'",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","limits":[{"key":"b","at_once":0}]}"#,
            "limits: [0]: limits.at_once: 0 is not from 1 to 10000",
        ),
        (
            r#"{"op":"delete","task":"a","due":1}"#,
            "due: 'due' is not a field; the fields are op, task",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","priority":"high"}"#,
            r#"priority: is "high", not a whole number from -2147483648 to 2147483647"#,
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","labels":{"x":1}}"#,
            "labels: x: is 1, not text in quotes",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","if_exists":"maybe"}"#,
            "if_exists: 'maybe' is not one of refuse, same, replace-finished, replace-waiting, skip",
        ),
        (
            r#"{"op":"submit","id":"a","kind":"k","prop":1}"#,
            "prop: 'prop' is not a field; write 'props', if that is the one",
        ),
        (r#"{"op":"submit","id":"a"}"#, "kind: is missing"),
        (
            r#"{"op":"submit","id":"a","kind":"k","after":{"a":1}}"#,
            "after: is an object, not an array",
        ),
        (
            r#"{"op":"send","task":"a","command":"dance"}"#,
            "command: 'dance' is not one of ",
        ),
        (
            r#"{"op":"send","task":"a","command":"sleep","until":7}"#,
            "until: is 7, not ",
        ),
        (
            r#"{"op":"send","task":"a","command":"pause","resutl":1}"#,
            "resutl: 'resutl' is not a field; the fields are op, task, command, id",
        ),
        (
            r#"{"op":"require","task":"a","exists":"yes"}"#,
            r#"exists: is "yes", not true or false"#,
        ),
        (
            r#"{"op":"require","task":"a","version":-1}"#,
            "version: is -1, not a whole number, 0 or more",
        ),
    ] {
        let error = read_line(text).unwrap_err().to_string();
        assert!(error.starts_with(says), "{text}: {error}");
        for word in ["struct", "enum", "integer", "map", "sequence", "`"] {
            assert!(!error.contains(word), "{error}");
        }
    }
}

/// An unknown field is refused before the task is read, so this fails for a field of a task that the list lacks.
#[test]
fn every_field_of_a_task_can_be_submitted() {
    let wrong = plain::object::<Task>(r#"{"xyzzy":1}"#)
        .unwrap_err()
        .to_string();
    let (_, fields) = wrong.split_once("the fields are ").unwrap();
    for field in fields.split(", ") {
        let is_read = field == WAITS || TaskForm::FIELDS.contains(&field);
        assert!(is_read, "{field}");
    }
}

#[test]
fn the_examples_are_read() {
    let json = |text: &str| text[text.find('{').unwrap()..].to_owned();
    for op in ["submit", "delete", "retry", "reschedule", "require"] {
        assert!(read_line(&json(example(op, ""))).is_ok(), "{op}");
    }
    for command in ["sleep", "signal", "pause"] {
        assert!(
            read_line(&json(example("send", command))).is_ok(),
            "{command}"
        );
    }
}

#[test]
fn a_policy_has_the_form_of_a_line() {
    for (text, policy) in [
        (r#""never""#, Retry::Never),
        (r#"{"policy":"never"}"#, Retry::Never),
        ("8", Retry::default()),
    ] {
        let text = format!(r#"{{"op":"submit","id":"a","kind":"k","retry":{text}}}"#);
        let Line::Operation(Operation::Submit(submit)) = read_line(&text).unwrap() else {
            panic!("{text}");
        };
        assert_eq!(submit.task.retry, Some(policy), "{text}");
    }
}

#[test]
fn the_stored_form_of_a_wait_is_read() {
    for (fields, first) in [
        (r#""waits":{"tasks":["b"]}"#, "b"),
        (r#""waits":{"tasks":["b"]},"after":["c"]"#, "c"),
    ] {
        let text = format!(r#"{{"op":"submit","id":"a","kind":"k",{fields}}}"#);
        let Line::Operation(Operation::Submit(submit)) = read_line(&text).unwrap() else {
            panic!("{text}");
        };
        assert_eq!(submit.task.waits.unwrap().tasks[0].as_str(), first);
    }
}
