//! Deadlines of `submit`: how they are given, and those that have passed.

use crate::env::Env;

#[test]
fn a_deadline_that_has_passed_is_noted_and_promises_no_run() {
    let env = Env::new();
    let past = "2020-01-01T00:00:00Z";
    let submit = |words: &[&str]| env.run(&[&["submit", "k"], words].concat()).ok();
    for (option, says) in [
        (
            "--start-by",
            "note: the task did not start by 2020-01-01T00:00:00Z; it fails without a run",
        ),
        (
            "--end-by",
            "note: the task did not end by 2020-01-01T00:00:00Z; it fails without a run",
        ),
    ] {
        let ran = submit(&[option, past]);
        assert!(ran.err.contains(says), "{ran:?}");
        assert!(
            ran.err
                .contains("no live node handles kind 'k'; it fails when one starts"),
            "{ran:?}"
        );
    }
    let ran = submit(&["--id", "other", "--start-at", past, "--start-by", "1h"]);
    assert!(
        !ran.err.contains("fails") && ran.err.contains("it runs when one starts"),
        "{ran:?}"
    );
    let ran = submit(&["--after", "other", "--after-deadline", past]);
    assert!(
        ran.err
            .contains("has passed; this task does not wait for the others"),
        "{ran:?}"
    );
    // Of lines.
    let late = format!(r#"{{"kind":"k","start_by":"{past}"}}"#);
    let lines = env.write("lines", &format!("{late}\n{{\"kind\":\"k\"}}\n"));
    let ran = env.run(&["submit", "--lines", &lines]).ok();
    let says = "note: 1 task has a start_by or end_by that has passed; it fails without a run";
    assert!(
        ran.err.contains(says) && ran.err.contains("they run when"),
        "{ran:?}"
    );
    let lines = env.write("lines", &format!("{late}\n{late}\n"));
    let ran = env.run(&["submit", "--lines", &lines]).ok();
    assert!(
        ran.err.contains("2 tasks have") && ran.err.contains("they fail when"),
        "{ran:?}"
    );
    let line = format!(r#"{{"op":"submit","id":"applied","kind":"k","end_by":"{past}"}}"#);
    let ran = env.run(&["apply", &env.write("changes", &line)]).ok();
    assert!(ran.err.contains(says), "{ran:?}");
}

#[test]
fn deadlines_are_times_or_durations() {
    let env = Env::new();
    let at = "2030-01-02T03:04:05Z";
    let with = |more: &[&str]| env.run(&[&["submit", "k"], more].concat());
    with(&[
        "--id",
        "a",
        "--start-by",
        at,
        "--end-by",
        "2031-01-01T00:00:00Z",
    ])
    .ok();
    let got = env.json(&["get", "a"]);
    assert_eq!(got["start_by"], at);
    assert_eq!(got["end_by"], "2031-01-01T00:00:00Z");
    let late = with(&["--id", "b", "--start-by", "0s", "--end-by", "1h"]).ok();
    assert!(
        late.err.contains("note: the task did not start by "),
        "{late:?}"
    );
    let shown = env.run(&["get", "b"]).ok();
    assert!(
        shown.out.contains("did not start by") && shown.out.contains("a node of its kind fails it"),
        "{shown:?}"
    );
    with(&["--start-by", "-5m"]).fails(2, &["'-5m' is negative"]);
    with(&["--in", "-5m"]).fails(2, &["'-5m' is negative"]);
    with(&["--start-by", "soon"]).fails(2, &["neither a time nor a duration"]);
    with(&["--start-by", "2h", "--end-by", "1h"]).fails(2, &["--end-by: ", "is before start_by"]);
    with(&["--in", "2h", "--start-by", "1h"]).fails(2, &["--start-by: ", "is before start_at"]);
    let file = env.write("lines", r#"{"kind":"k","end_by":"soon"}"#);
    env.run(&["submit", "--lines", &file])
        .fails(2, &["end_by: 'soon'"]);
    let line = format!(r#"{{"id":"c","kind":"k","end_by":"{at}"}}"#);
    let file = env.write("lines", &line);
    env.run(&["submit", "--lines", &file]).ok();
    assert_eq!(env.json(&["get", "c"])["end_by"], at);
}
