use super::{
    tests::{read_line, task_id},
    *,
};
use crate::{IfExists, Submit, Task, plain, wire::TaskForm};

/// Every operation and every guard, with every field.
fn all() -> Vec<(Result<Operation, Guard>, &'static str)> {
    let due: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let json = |text| Json::parse("data", text).unwrap();
    let task = TaskForm::parse(
        r#"{"id":"a","kind":"k","priority":3,"start_at":"2030-01-01T00:00:00Z","start_by":"2030-01-01T00:00:00Z","end_by":"2030-01-01T00:00:00Z"}"#,
    );
    let submit = Submit {
        task: task.unwrap().into_task().unwrap(),
        if_exists: IfExists::Skip,
    };
    let waits = TaskForm::parse(
        r#"{"id":"a","kind":"k","props":{"n":1.50},"labels":{"a":"b"},"retry":"never","after":["u"],"after_deadline":"2030-01-01T00:00:00Z","unique":{"key":"q","within":"1h"},"limits":[{"key":"l","at_once":2}]}"#,
    );
    let waits = Submit::from(waits.unwrap().into_task().unwrap());
    let mut ok = Task::new(task_id(), "k".parse().unwrap());
    ok.waits = Some(Box::new(crate::Waits::new("after_ok", ["u"]).unwrap().ok()));
    let send = |command| {
        Ok(Operation::Send(SendCommand {
            task: task_id(),
            id: CommandId::new("c").unwrap(),
            command,
        }))
    };
    let change = Reschedule::new(task_id())
        .due(due)
        .priority(0)
        .limits([])
        .data(json("null"));
    let guard = |require| {
        Err(Guard {
            task: task_id(),
            require,
        })
    };
    vec![
        (
            Ok(Operation::Submit(submit)),
            r#"{"op":"submit","id":"a","kind":"k","start_at":"2030-01-01T00:00:00Z","priority":3,"start_by":"2030-01-01T00:00:00Z","end_by":"2030-01-01T00:00:00Z","if_exists":"skip"}"#,
        ),
        (
            Ok(Operation::Submit(waits)),
            r#"{"op":"submit","id":"a","kind":"k","props":{"n":1.50},"labels":{"a":"b"},"retry":{"policy":"never"},"after":["u"],"after_deadline":"2030-01-01T00:00:00Z","unique":{"key":"q","within":"1h"},"limits":[{"key":"l","at_once":2}]}"#,
        ),
        (
            Ok(Operation::Submit(ok.into())),
            r#"{"op":"submit","id":"a","kind":"k","after_ok":["u"]}"#,
        ),
        (
            send(Command::Sleep { until: due }),
            r#"{"op":"send","task":"a","id":"c","command":"sleep","until":"2030-01-01T00:00:00Z"}"#,
        ),
        (
            send(Command::Complete {
                result: Some(json("null")),
            }),
            r#"{"op":"send","task":"a","id":"c","command":"complete","result":null}"#,
        ),
        (
            send(Command::signal("go", &1).unwrap()),
            r#"{"op":"send","task":"a","id":"c","command":"signal","name":"go","payload":1}"#,
        ),
        (
            send(Command::Pause),
            r#"{"op":"send","task":"a","id":"c","command":"pause"}"#,
        ),
        (
            Ok(Operation::Delete(task_id().into())),
            r#"{"op":"delete","task":"a"}"#,
        ),
        (
            Ok(Operation::Retry(task_id().into())),
            r#"{"op":"retry","task":"a"}"#,
        ),
        (
            Ok(Operation::Reschedule(change)),
            r#"{"op":"reschedule","task":"a","due":"2030-01-01T00:00:00Z","priority":0,"limits":[],"no_data":true}"#,
        ),
        (
            guard(Require::Exists),
            r#"{"op":"require","task":"a","exists":true}"#,
        ),
        (
            guard(Require::Absent),
            r#"{"op":"require","task":"a","exists":false}"#,
        ),
        (
            guard(Require::State(StateKind::Fault)),
            r#"{"op":"require","task":"a","state":"fault"}"#,
        ),
        (
            guard(Require::Version(3)),
            r#"{"op":"require","task":"a","version":3}"#,
        ),
        (
            guard(Require::Fence(Fence(4))),
            r#"{"op":"require","task":"a","fence":4}"#,
        ),
        (
            guard(Require::Order(7)),
            r#"{"op":"require","task":"a","order":7}"#,
        ),
        (
            guard(Require::Kind("k".parse().unwrap())),
            r#"{"op":"require","task":"a","kind":"k"}"#,
        ),
        (
            guard(Require::Unclaimed),
            r#"{"op":"require","task":"a","unclaimed":true}"#,
        ),
        (
            guard(Require::Data(Some(json("[null]")))),
            r#"{"op":"require","task":"a","data":[null]}"#,
        ),
        (
            guard(Require::Data(None)),
            r#"{"op":"require","task":"a","no_data":true}"#,
        ),
    ]
}

#[test]
fn what_is_written_is_read() {
    for (given, text) in all() {
        let (written, line) = match given {
            Ok(operation) => (
                serde_json::to_string(&operation),
                Line::Operation(operation),
            ),
            Err(guard) => (serde_json::to_string(&guard), Line::Guards(vec![guard])),
        };
        assert_eq!(written.unwrap(), text);
        assert_eq!(read_line(text), Ok(line), "{text}");
    }
}

#[test]
fn every_time_of_a_line_is_listed() {
    let mut times = std::collections::BTreeMap::new();
    for (_, text) in all() {
        let plain::Fields(fields) = plain::object::<plain::Fields<Json>>(text).unwrap();
        let is_time = |value: &Json| value.as_str() == r#""2030-01-01T00:00:00Z""#;
        times.extend(fields.into_iter().filter(|(_, value)| is_time(value)));
    }
    let times: Vec<String> = times.into_keys().collect();
    let mut listed = TIMES;
    listed.sort_unstable();
    assert_eq!(times, listed);
}
