//! Lines with the same id.

use std::{
    io::{Read as _, Write as _},
    process::Stdio,
};

use serde_json::json;

use super::*;

fn lines(lines: &[Value]) -> String {
    lines.iter().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "{line}");
        all
    })
}

#[test]
fn lines_that_differ_only_in_labels_or_priority_are_noted() {
    let place = Place::new();
    let t = json!({"id": "t", "shell": "echo t >> starts", "labels": {"team": "a"}});
    let with = |name: &str, value: Value| {
        let mut line = t.clone();
        line[name] = value;
        line
    };
    let input = lines(&[
        json!({"id": "u", "command": "true"}),
        t.clone(),
        t.clone(),
        with("labels", json!({"team": "b"})),
        with("priority", json!(7)),
        with("retry", json!({"policy": "never"})),
    ]);
    let (code, _, err) = place.run_with(&["run", "--batch", "b"], input.as_bytes());
    assert_eq!(code, 0, "{err}");
    let note = "note: line 4: equals line 2 but for labels: the task 't' has those of line 2; give the line \
                an id of its own to run it as another task\n";
    assert!(err.contains(note), "{err}");
    // Further ones are counted.
    assert_eq!(err.matches("but for labels").count(), 2, "{err}");
    let count = "note: 3 lines equal an earlier one but for labels, priority or retry policy; their \
                 tasks have those of the earlier line\n";
    assert!(err.contains(count), "{err}");
    assert_eq!(place.read("starts"), "t\n");
    let task = place.get("t");
    assert_eq!(
        (&task["labels"]["team"], &task["priority"]),
        (&json!("a"), &json!(0))
    );

    // One note says it all.
    let input = lines(&[t.clone(), with("priority", json!(7))]);
    let args = ["run", "--batch", "b", "--again"];
    let (code, _, err) = place.run_with(&args, input.as_bytes());
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("line 2: equals line 1 but for priority: "),
        "{err}"
    );
    assert_eq!(err.matches("but for").count(), 1, "{err}");
    // Tasks of an earlier run keep their options without a note: `--each` gives all lines others.
    let (_, _, err) = place.run_with(
        &["run", "--batch", "b"],
        lines(&[with("priority", json!(7))]).as_bytes(),
    );
    assert!(!err.contains("but for"), "{err}");
}

#[test]
fn again_runs_a_task_of_two_lines_once() {
    let place = Place::new();
    let line = |word: &str| json!({"id": "t", "shell": format!("echo {word} >> starts")});
    let run = |input: &[Value], more: &[&str]| {
        let args = [&["run", "--batch", "b", "-o", "json"], more].concat();
        let (code, out, err) = place.run_with(&args, lines(input).as_bytes());
        (code, summary(&out), err)
    };
    assert_eq!(run(&[line("1")], &[]).0, 0);
    let (code, summary, err) = run(&[line("1"), line("1")], &["--again"]);
    assert_eq!((code, &summary["completed"]), (0, &json!(2)), "{err}");
    assert_eq!(place.read("starts"), "1\n1\n");
    // Other work with the same id is an error, whichever of the two ran before.
    for (first, second) in [("1", "2"), ("2", "1")] {
        fs::remove_file(place.path("starts")).unwrap();
        let more = &["--again", "--keep-going"];
        let (code, summary, err) = run(&[line(first), line(second)], more);
        assert_eq!((code, &summary["wrong"]), (1, &json!(1)), "{err}");
        let says = "line 2: id: 't' is also that of line 1, with another kind or other props; give this line an \
                    id of its own";
        assert!(err.contains(says), "{err}");
        assert_eq!(place.read("starts"), format!("{first}\n"));
    }
}

/// Regression: such a line counted as completed, and its command did not run.
#[test]
fn again_refuses_other_work_with_the_id_of_a_line_that_has_ended() {
    let place = Place::new();
    let line = |word: &str| json!({"id": "t", "shell": format!("echo {word} >> starts")});
    let mut run = place.windlass(&["run", "--keep-going", "--again", "--batch", "b"]);
    let run = run.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.stdout(Stdio::null()).spawn().unwrap();
    let (mut input, mut err) = (run.stdin.take().unwrap(), run.stderr.take().unwrap());
    let run = crate::live::Running::of(run);
    writeln!(input, "{}", line("1")).unwrap();
    until("the first line has ended", || {
        place.read("starts") == "1\n" && place.get("t")["state"] == "completed"
    });
    writeln!(input, "{}", line("2")).unwrap();
    drop(input);
    assert_eq!(run.wait(), Some(1));
    let mut text = String::new();
    err.read_to_string(&mut text).unwrap();
    assert!(
        text.contains("line 2: id: 't' is also that of line 1, with another kind or other props"),
        "{text}"
    );
    assert_eq!(place.read("starts"), "1\n");
}
