//! `windlass apply`: several changes as one transaction.

use serde_json::json;

use crate::env::Env;

/// A store with the tasks `a` and `b`.
fn with_tasks() -> Env {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    env.run(&["submit", "k", "--id", "b"]).ok();
    env
}

const CHANGES: &str = r#"{"op":"require","task":"a","state":"runnable","unclaimed":true}

{"op":"delete","task":"a"}
{"op":"submit","id":"c","kind":"k","props":{"n":12345678901234567890123}}
{"op":"reschedule","task":"b","due":"in 5m","priority":3}
"#;

#[test]
fn every_line_is_applied_in_one_transaction() {
    let env = with_tasks();
    let file = env.write("changes.jsonl", CHANGES);
    let ran = env.run(&["apply", &file]).ok();
    assert_eq!(
        ran.out,
        "1 task deleted, 1 task submitted, 1 task rescheduled\n"
    );
    env.run(&["get", "a"])
        .fails(3, &["task 'a' does not exist"]);
    let b = env.json(&["get", "b"]);
    assert_eq!(
        (&b["state"], &b["priority"]),
        (&json!("sleeping"), &json!(3))
    );
    let c = env.run(&["get", "c", "-o", "json"]).ok();
    assert!(c.out.contains("12345678901234567890123"), "{c:?}");
}

#[test]
fn standard_input_is_a_file_too_and_json_names_each_line() {
    let env = with_tasks();
    let words = ["apply", "-", "--id", "t-1", "-o", "json"];
    let ran = env.run_with(&words, CHANGES).ok();
    assert_eq!(
        ran.lines()[0],
        json!({"transaction": "t-1", "operations": [
            {"line": 3, "task": "a", "done": "deleted"},
            {"line": 4, "task": "c", "done": {"submitted": "new"}},
            {"line": 5, "task": "b", "done": {"rescheduled": "sleeping"}},
        ]})
    );
}

#[test]
fn a_repeated_id_has_no_further_effect() {
    let env = with_tasks();
    let file = env.write("changes.jsonl", CHANGES);
    let first = env.run(&["apply", &file, "--id", "t-1"]).ok();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let again = env.run(&["apply", &file, "--id", "t-1"]).ok();
    assert_eq!(first.out, again.out);
    env.run(&["get", "a"]).ok();
    env.run(&["apply", &file]).code(1);
}

/// Regression: a kill with the id of an earlier pause was reported as done, and never sent.
#[test]
fn the_id_of_another_command_is_refused() {
    let env = with_tasks();
    let send = |task: &str, command: &str, note: &str| {
        let line =
            json!({"op": "send", "task": task, "command": command, "id": "c1", "note": note});
        env.write("send.jsonl", &format!("{line}\n"))
    };
    env.run(&["apply", &send("a", "pause", "why")]).ok();
    env.run(&["apply", &send("a", "pause", "why")]).ok();
    for (task, command, note, field) in [
        ("a", "kill", "why", "command: 'c1' is the id of a pause"),
        ("a", "pause", "other", "note: of command 'c1'"),
        ("b", "pause", "why", "task: is another one"),
    ] {
        let file = send(task, command, note);
        env.run(&["apply", &file]).fails(2, &["line 1", field]);
        env.run(&["apply", &file, "--dry-run"]).fails(2, &[field]);
    }
    let signal = |note: &str| env.run(&["signal", "b", "go", "--id", "s1", "--note", note]);
    signal("one").ok();
    signal("one").ok();
    signal("two").fails(2, &["note: of command 's1'"]);
}

#[test]
fn a_refusal_names_each_line_and_nothing_changes() {
    let env = with_tasks();
    let file = env.write(
        "changes.jsonl",
        r#"{"op":"delete","task":"a"}
{"op":"delete","task":"nil"}
{"op":"require","task":"b","state":"paused"}
"#,
    );
    for words in [&["apply", &file][..], &["apply", &file, "--dry-run"]] {
        let ran = env.run(words).code(1);
        for text in [
            "line 2: task 'nil' does not exist",
            "line 3: task 'b' is runnable; it must be paused",
            "error: the transaction was refused; nothing was changed",
        ] {
            assert!(ran.err.contains(text), "{text} is not in {ran:?}");
        }
        env.run(&["get", "a"]).ok();
    }
}

#[test]
fn a_long_refusal_is_cut_short_and_counted() {
    let env = with_tasks();
    let lines: String = (0..30)
        .map(|n| format!("{{\"op\":\"delete\",\"task\":\"nil-{n}\"}}\n"))
        .collect();
    let file = env.write("changes.jsonl", &lines);
    let ran = env.run(&["apply", &file]).code(1);
    assert_eq!(ran.err.matches("does not exist").count(), 20, "{ran:?}");
    assert!(ran.err.contains("and 10 more refused lines"), "{ran:?}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let env = with_tasks();
    let file = env.write("changes.jsonl", CHANGES);
    let ran = env.run(&["apply", &file, "--dry-run"]).ok();
    let text = "apply: 3 operations and 2 guards hold; nothing was changed (dry run)\n";
    assert_eq!(ran.out, text);
    env.run(&["get", "a"]).ok();
    env.run(&["get", "c"]).code(3);
}

#[test]
fn a_wrong_line_is_named_with_its_field_and_nothing_changes() {
    let env = with_tasks();
    for (wrong, says) in [
        (
            r#"{"op":"reschedule","task":"b","due":"soon"}"#,
            "line 2: due: 'soon'",
        ),
        (r#"{"op":"delete","task":"b","now":true}"#, "line 2: now: "),
        ("{", "line 2: operation: is not JSON: "),
    ] {
        let text = format!("{{\"op\":\"delete\",\"task\":\"a\"}}\n{wrong}\n");
        let file = env.write("changes.jsonl", &text);
        env.run(&["apply", &file]).fails(2, &[says]);
        env.run(&["get", "a"]).ok();
    }
    let wrong = |n| format!("{{\"op\":\"drop\",\"task\":\"t-{n}\"}}\n");
    let text: String = (1..=30).map(wrong).collect();
    let file = env.write("changes.jsonl", &text);
    let ran = env.run(&["apply", &file]).code(2);
    let mut lines: Vec<&str> = ran.err.lines().collect();
    let last = lines.pop();
    let says = "error: 30 lines are wrong, 10 more than those above; nothing was changed";
    assert_eq!(last, Some(says));
    assert_eq!(lines.len(), 20, "{ran:?}");
    for (n, line) in (1..).zip(lines) {
        assert!(
            line.starts_with(&format!("error: line {n}: op: 'drop'")),
            "{line}"
        );
    }
    let file = env.write(
        "twice.jsonl",
        "{\"op\":\"delete\",\"task\":\"a\"}\n{\"op\":\"retry\",\"task\":\"a\"}\n",
    );
    env.run(&["apply", &file])
        .fails(2, &["task: 'a' has an operation in line 1 already"]);
    let file = env.write("none.jsonl", "\n");
    env.run(&["apply", &file])
        .fails(2, &["operations: are empty"]);
    env.run(&["apply", &env.path("missing")])
        .fails(2, &["missing"]);
}

/// Regression: with `-o json`, a file with wrong lines printed no JSON.
#[test]
fn wrong_lines_are_named_in_json_too() {
    let env = with_tasks();
    let wrong = |n| format!("{{\"op\":\"drop\",\"task\":\"t-{n}\"}}\n");
    let text: String = (1..=30).map(wrong).collect();
    let good = "{\"op\":\"delete\",\"task\":\"a\"}\n";
    let file = env.write("changes.jsonl", &format!("{good}{text}"));
    let ran = env.run(&["apply", &file, "-o", "json"]).code(2);
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(said["wrong_lines"], 30);
    let lines = said["wrong"].as_array().unwrap();
    assert_eq!(lines.len(), 20);
    assert_eq!(
        (&lines[0]["line"], &lines[0]["field"]),
        (&json!(2), &json!("op"))
    );
    let says = lines[0]["text"].as_str().unwrap();
    assert!(says.starts_with("op: 'drop' is not one of"), "{says}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    // Props that are wrong for a task of the store are found after the lines were read.
    let exec = "{\"op\":\"submit\",\"id\":\"x\",\"kind\":\"k\",\"props\":7}\n";
    env.run(&["apply", &env.write("x.jsonl", exec)]).ok();
    let change = "{\"op\":\"reschedule\",\"task\":\"x\",\"kind\":\"exec\"}\n";
    let file = env.write("change.jsonl", &format!("{good}{change}"));
    let ran = env.run(&["apply", &file, "-o", "json"]).code(2);
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&said["wrong_lines"], &said["wrong"][0]["line"]),
        (&json!(1), &json!(2))
    );
    env.run(&["get", "a"]).ok();
}

/// Regression: limits of a schedule were accepted, and held back the schedule instead of its runs.
#[test]
fn limits_of_a_schedule_itself_are_refused() {
    let env = with_tasks();
    let props = r#"{"run":{"kind":"k"},"cron":["* * * * *"]}"#;
    let submit = ["submit", "schedule", "--id", "s", "--props", props];
    for limit in [["--at-once", "api=3"], ["--rate", "api=3/1m"]] {
        let ran = [&submit[..], &limit].concat();
        env.run(&ran)
            .fails(2, &["limits", "windlass schedule create"]);
    }
    let task = format!(
        r#"{{"id":"s","kind":"schedule","props":{props},"limits":[{{"key":"api","at_once":3}}]}}"#
    );
    let file = env.write("tasks.jsonl", &format!("{task}\n"));
    let ran = env.run(&["submit", "--lines", &file]);
    assert!(ran.err.contains("limits: "), "{ran:?}");
    let line = task.replacen('{', r#"{"op":"submit","#, 1);
    let file = env.write("lines.jsonl", &format!("{line}\n"));
    env.run(&["apply", &file]).fails(2, &["limits: "]);
    env.run(&["get", "s"]).code(3);
    env.run(&submit).ok();
}

#[test]
fn a_dry_run_knows_the_id_of_another_transaction_and_unique_keys() {
    let env = with_tasks();
    let file = env.write("changes.jsonl", CHANGES);
    env.run(&["apply", &file, "--id", "t-1"]).ok();
    env.run(&["apply", &file, "--id", "t-1", "--dry-run"]).ok();
    let unique = r#"{"op":"submit","id":"NAME","kind":"k","unique":{"key":"one","within":"1h"}}"#;
    let other = env.write("other.jsonl", &unique.replace("NAME", "d"));
    for more in [&["--dry-run"][..], &[]] {
        let words = [&["apply", &other, "--id", "t-1"][..], more].concat();
        env.run(&words)
            .fails(2, &["transaction id: 't-1' was applied with"]);
    }
    env.run(&["apply", &other]).ok();
    let third = env.write("third.jsonl", &unique.replace("NAME", "e"));
    for more in [&["--dry-run"][..], &[]] {
        let ran = env.run(&[&["apply", &third][..], more].concat()).code(1);
        let says = "line 1: task 'e' has the unique key 'one', which task 'd' has until ";
        assert!(ran.err.contains(says), "{ran:?}");
    }
}

#[test]
fn a_wait_for_a_line_that_another_task_stands_in_for_is_refused() {
    let env = with_tasks();
    let unique = r#"{"op":"submit","id":"NAME","kind":"k","unique":{"key":"one","within":"1h"},"if_exists":"same"}"#;
    let first = env.write("first.jsonl", &unique.replace("NAME", "d"));
    env.run(&["apply", &first]).ok();
    let waits = r#"{"op":"submit","id":"f","kind":"k","after":["b","e"]}"#;
    let lines = format!("{waits}\n{}\n", unique.replace("NAME", "e"));
    let file = env.write("changes.jsonl", &lines);
    let ran = env.run(&["apply", &file]).code(1);
    let says = "line 1: task 'f': after: names 'e', which is not submitted: task 'd' has its unique key; wait for 'd'";
    assert!(ran.err.contains(says), "{ran:?}");
    env.run(&["get", "f"]).code(3);
}
