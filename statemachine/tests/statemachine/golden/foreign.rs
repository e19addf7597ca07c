//! What other writers store: Metafora, and writers that are wrong.

use super::*;

#[test]
fn states_by_metafora() {
    let read = |text: &str| serde_json::from_str::<TaskState>(text).unwrap();

    let asleep = read(concat!(
        r#"{"state":"sleeping","until":"2030-01-02T03:04:05.123456789-08:00","#,
        r#""errors":[{"timestamp":"2029-12-31T23:00:00+01:00","error":"disk full"}]}"#
    ));
    let until = time("2030-01-02T11:04:05.123456789Z");
    assert_eq!(asleep.status, TaskStatus::Sleeping { until });
    assert_eq!(asleep.errors.entries().len(), 1);
    assert_eq!(asleep.errors.total(), 1);
    assert_eq!(asleep.errors.last().unwrap().error, "disk full");
    assert_eq!(asleep.since, time("2029-12-31T22:00:00Z"), "its last error");
    assert_eq!(asleep.fence, Fence(0));

    let mut plain = TaskState::new(Timestamp::UNIX_EPOCH);
    for (text, status) in [
        (r#"{"state":"runnable"}"#, TaskStatus::Runnable),
        (r#"{"state":"paused"}"#, TaskStatus::Paused),
        (r#"{"state":"killed"}"#, TaskStatus::Killed),
        (r#"{"state":"failed","errors":[]}"#, TaskStatus::Failed),
        (
            r#"{"state":"completed"}"#,
            TaskStatus::Completed { result: None },
        ),
        // It keeps an `until` beside a state that has no use for it.
        (
            r#"{"state":"paused","until":"2030-01-02T03:04:05Z"}"#,
            TaskStatus::Paused,
        ),
        // A field that we do not know yet.
        (r#"{"state":"fault","novelty":[1]}"#, TaskStatus::Fault),
    ] {
        plain.status = status;
        assert_eq!(read(text), plain, "{text}");
    }
}

#[test]
fn states_that_no_writer_should_have_written() {
    for (text, says) in [
        ("", "EOF"),
        ("null", "invalid type: null"),
        ("{}", "missing field `state`"),
        (r#"{"state":"Runnable"}"#, "unknown variant `Runnable`"),
        (r#"{"state":"sleeping"}"#, "until: is missing"),
        (r#"{"state":"paused","claims":-1}"#, "-1"),
        (
            r#"{"state":"paused","fence":18446744073709551616}"#,
            "invalid type",
        ),
        (
            r#"{"state":"paused","state":"paused"}"#,
            "duplicate field `state`",
        ),
        (r#"{"state":"paused"} x"#, "trailing characters"),
        (
            r#"{"state":"paused","last_command":{"order":1}}"#,
            "outcome",
        ),
    ] {
        let error = serde_json::from_str::<TaskState>(text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn commands_by_metafora() {
    let read = |text: &str| serde_json::from_str::<Command>(text).unwrap();
    assert_eq!(read(r#"{"message":"pause"}"#), Command::Pause);
    assert_eq!(
        read(r#"{"message":"sleep","until":"2030-01-02T03:04:05.5+02:00"}"#),
        Command::Sleep {
            until: time("2030-01-02T01:04:05.5Z")
        }
    );
    // What has no meaning for a command is not read.
    assert_eq!(
        read(r#"{"message":"kill","until":"whenever","error":{}}"#),
        Command::Kill
    );
}
