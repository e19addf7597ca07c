use std::time::Duration;

use super::*;
use crate::{AwaitedSignal, Command, Require, Reschedule, Signal, SubmitTask, Task};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn read(text: &str) -> Result<Message, Invalid> {
    read_message(text, NOW, || CommandId::new("new"))
}

fn task(id: &str) -> Task {
    Task::new(id.parse().unwrap(), "k".parse().unwrap())
}

fn json(text: &str) -> Json {
    Json::parse("schema", text).unwrap()
}

/// Every message, with every field.
fn all() -> Vec<(Message, &'static str)> {
    let at: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let mut later = SubmitTask::from(task("later"));
    later.start_in = Some(Duration::from_secs(90));
    later.start_within = Some(Duration::from_secs(120));
    later.end_within = Some(Duration::from_secs(180));
    let mut joins = SubmitTask::from(task("joins"));
    joins.task.waits = Some(Box::new(Waits::new("after", ["later"]).unwrap()));
    joins.after_within = Some(Duration::from_secs(60));
    let signal = Signal::new("s").at(7);
    vec![
        (Message::run(), r#"{"message":"run"}"#),
        (Message::pause(), r#"{"message":"pause"}"#),
        (Message::release(), r#"{"message":"release"}"#),
        (Message::kill(), r#"{"message":"kill"}"#),
        (
            Message::checkpoint().with_data(&1),
            r#"{"message":"checkpoint","data":1}"#,
        ),
        (
            Message::sleep_until(at),
            r#"{"message":"sleep","until":"2030-01-01T00:00:00Z"}"#,
        ),
        (
            Message::sleep_for(Duration::from_millis(5_400_500)),
            r#"{"message":"sleep","until":"in 1h 30m 500ms"}"#,
        ),
        (
            Message::wait_for(["a", "b"]),
            r#"{"message":"sleep","after":["a","b"]}"#,
        ),
        (
            Message::wait_for_ok(["a"]).deadline(at),
            r#"{"message":"sleep","after_ok":["a"],"after_deadline":"2030-01-01T00:00:00Z"}"#,
        ),
        (
            Message::wait_for(["a"]).within(Duration::from_secs(90)),
            r#"{"message":"sleep","after":["a"],"after_deadline":"in 1m 30s"}"#,
        ),
        (
            Message::wait_for_signal("approve").within(Duration::from_secs(3600)),
            r#"{"message":"sleep","until":"in 1h","awaits_signal":{"name":"approve"}}"#,
        ),
        (
            Message::wait_for_signal("approve"),
            r#"{"message":"pause","awaits_signal":{"name":"approve"}}"#,
        ),
        (
            Message::wait_for_signal(
                AwaitedSignal::new("a")
                    .with_text("Go?")
                    .with_schema(json(r#"{"type":"string"}"#)),
            )
            .deadline(at),
            r#"{"message":"sleep","until":"2030-01-01T00:00:00Z","awaits_signal":{"name":"a","text":"Go?","schema":{"type":"string"}}}"#,
        ),
        (
            Message::error("broken"),
            r#"{"message":"error","error":"broken"}"#,
        ),
        (
            Message::fail("broken"),
            r#"{"message":"error","error":"broken","retry":false}"#,
        ),
        (Message::complete(), r#"{"message":"complete"}"#),
        (
            Message::complete_with(()),
            r#"{"message":"complete","result":null}"#,
        ),
        (
            Message::complete_with([1])
                .with_data(&())
                .and_submit(task("child"))
                .and_submit(later)
                .and_submit(joins)
                .and_send("b", "c1", Command::Pause)
                .and_delete("d")
                .and_retry("e")
                .and_reschedule(Reschedule::new("f".parse().unwrap()).due(at))
                .and_require("g", Require::Exists)
                .and_require("g", Require::Version(3))
                .answer(&signal, "thanks")
                .keep_signals(),
            r#"{"message":"complete","result":[1],"no_data":true,"effects":[{"op":"submit","id":"child","kind":"k"},{"op":"submit","id":"later","kind":"k","start_at":"in 1m 30s","start_by":"in 2m","end_by":"in 3m"},{"op":"submit","id":"joins","kind":"k","after":["later"],"after_deadline":"in 1m"},{"op":"send","task":"b","id":"c1","command":"pause"},{"op":"delete","task":"d"},{"op":"retry","task":"e"},{"op":"reschedule","task":"f","due":"2030-01-01T00:00:00Z"},{"op":"require","task":"g","exists":true},{"op":"require","task":"g","version":3}],"replies":[{"signal":7,"reply":"thanks"}],"keep_signals":true}"#,
        ),
    ]
}

#[test]
fn every_message_is_read_as_it_is_written() {
    for (message, text) in all() {
        assert_eq!(serde_json::to_string(&message).unwrap(), text);
        assert_eq!(read(text), Ok(message), "{text}");
    }
    let mut kinds: Vec<_> = all().iter().map(|(message, _)| message.kind()).collect();
    kinds.dedup();
    for kind in ActionKind::ALL {
        assert!(kinds.contains(&kind), "{kind} has no example");
        assert!(NAMES.contains(kind.as_str()), "{kind} is in no list");
    }
}

#[test]
fn a_field_that_is_null_is_as_good_as_absent() {
    let text = r#"{"message":"sleep","until":"now","after":null,"after_ok":null,"after_deadline":null,"effects":null,"replies":null,"keep_signals":null}"#;
    assert_eq!(read(text), Ok(Message::sleep_for(Duration::ZERO)));
}

#[test]
fn relative_times_of_commands_count_from_now() {
    let text = r#"{"message":"run","effects":[{"op":"send","task":"a","command":"sleep","until":"in 1m"}]}"#;
    let message = read(text).unwrap();
    let send = &message.effects().send[0];
    assert_eq!(send.id.as_str(), "new");
    let until = NOW + jiff::SignedDuration::from_mins(1);
    assert_eq!(send.command, Command::Sleep { until });
}

#[test]
fn wrong_messages_name_the_field() {
    for (text, says) in [
        ("", "message: "),
        ("[]", "message: is an array, not an object"),
        ("{}", "message: is missing; write it like"),
        (
            r#"{"message":"signal"}"#,
            "message: 'signal' is not one of run, sleep",
        ),
        (
            r#"{"message":"run","until":"now"}"#,
            "until: 'until' is not a field",
        ),
        (
            r#"{"message":"run","message":"run"}"#,
            "message: 'message' is given twice",
        ),
        (r#"{"message":"sleep"}"#, "until: is missing"),
        (r#"{"message":"sleep","until":7}"#, "until: is 7, not text"),
        (
            r#"{"message":"sleep","until":"in a bit"}"#,
            "until: 'in a bit' is not a time",
        ),
        (
            r#"{"message":"sleep","after":["a"],"after_deadline":"in -5m"}"#,
            "after_deadline: 'in -5m' is negative; write a length of time after 'in'",
        ),
        (
            r#"{"message":"sleep","after":["a"],"after_deadline":300}"#,
            "after_deadline: is 300, not text",
        ),
        (
            r#"{"message":"sleep","after":["a"],"after_deadline":"in 99999999999999999999h"}"#,
            "after_deadline: 'in 99999999999999999999h' is not a time",
        ),
        (
            r#"{"message":"sleep","until":"in -5m","awaits_signal":{"name":"a"}}"#,
            "until: 'in -5m' is negative",
        ),
        (
            r#"{"message":"run","effects":[{"op":"submit","id":"b","kind":"k","end_by":"in -5m"}]}"#,
            "effects[0].end_by: 'in -5m' is negative",
        ),
        // Regression: the field without a name was left out, and the submit accepted.
        (
            r#"{"message":"run","effects":[{"op":"submit","id":"b","kind":"k","":1}]}"#,
            "effects[0]: '' is not a field",
        ),
        (
            r#"{"message":"sleep","until":"now","after":["a"]}"#,
            "until: is given along with tasks to wait for; write it as `after_deadline`",
        ),
        (
            r#"{"message":"sleep","until":"now","after_deadline":"now"}"#,
            "after_deadline: is the end of a wait",
        ),
        (
            r#"{"message":"sleep","after":["a"],"after_ok":["b"]}"#,
            "after_ok: is given along with `after`",
        ),
        (r#"{"message":"sleep","after":["a/b"]}"#, "after: 'a/b'"),
        (r#"{"message":"error"}"#, "error: is missing"),
        (r#"{"message":"run","data":}"#, "message: data: is not JSON"),
        (
            r#"{"message":"run","effects":[7]}"#,
            "effects[0]: is 7, not an object",
        ),
        (
            r#"{"message":"run","effects":[{"op":"retry","task":"a"},{"op":"submit","id":"b"}]}"#,
            "effects[1].kind: is missing",
        ),
        (
            r#"{"message":"run","effects":[{"op":"submit","id":"b","kind":"k","start_at":"soon"}]}"#,
            "effects[0].start_at: 'soon' is not a time",
        ),
        (
            r#"{"message":"run","effects":[{"op":"submit","id":"b","kind":"k","after_deadline":"in 5m"}]}"#,
            "effects[0].after_deadline: is the end of a wait",
        ),
        (
            r#"{"message":"run","effects":[{"op":"delete","task":"b","start_at":"in 5m"}]}"#,
            "effects[0].start_at: 'start_at' is not a field",
        ),
        (
            r#"{"message":"run","replies":[{"reply":1}]}"#,
            "replies[0].signal: is missing",
        ),
        (
            r#"{"message":"run","replies":[{"signal":1}]}"#,
            "replies[0].reply: is missing",
        ),
        (
            r#"{"message":"run","keep_signals":1}"#,
            "keep_signals: is 1, not true or false",
        ),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(says), "{text}: {error}");
    }
}

/// Regression: the note of a command that a handler sends was checked and dropped.
#[test]
fn the_note_of_a_sent_command_is_kept() {
    let message = r#"{"message":"run","effects":[{"op":"send","task":"a","command":"pause","note":"no quota"}]}"#;
    let message = read(message).unwrap();
    let note = message.effects().send[0].note.as_ref().unwrap();
    assert_eq!(note.as_str(), "no quota");
}
