//! `submit --replace-waiting`: of many submits, the last one counts.

use serde_json::json;

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_many_submits_runs_once() {
    let env = Env::new();
    let submit = |id: &str, props: &str, more: &[&str]| {
        let words = ["submit", "double", "--id", id, "--props", props];
        let key = ["--unique", "index=1h", "--replace-waiting"];
        env.run(&[&words[..], &key, more].concat())
    };
    assert_eq!(submit("a", "1", &["--in", "1h"]).ok().out, "a\n");
    let second = submit("b", "2", &["--in", "2h"]).ok();
    assert_eq!(second.out, "a\n");
    let says = "note: task 'a' waits with the unique key, and has the new props and time now";
    assert!(second.err.contains(says), "{}", second.err);
    let got = env.json(&["get", "a"]);
    assert_eq!(
        (&got["props"], &got["state"]),
        (&json!(2), &json!("sleeping"))
    );
    let third = submit("c", "3", &["-o", "json"]).ok().lines().remove(0);
    assert_eq!(
        (&third["id"], &third["submitted"]),
        (&json!("a"), &json!("replaced"))
    );
    let node = env.node("n1").await;
    env.run(&["wait", "a"]).ok();
    assert_eq!(env.json(&["get", "a"])["result"], json!(6));
    assert_eq!(submit("d", "4", &["--in", "1h"]).ok().out, "d\n");
    node.shutdown().await;
}

#[test]
fn a_submit_that_replaces_is_refused_with_its_reason() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--paused"]).ok();
    env.run(&["submit", "k", "--id", "a", "--replace-waiting"])
        .fails(1, &["task 'a' is not replaced: it is paused"]);
    for more in ["--idempotent", "--replace", "--paused"] {
        env.run(&["submit", "k", "--id", "a", "--replace-waiting", more])
            .fails(2, &["cannot be used with"]);
    }
}

#[test]
fn lines_and_apply_replace_waiting_tasks() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--in", "1h"]).ok();
    let lines = env.write(
        "lines.jsonl",
        "{\"id\":\"a\",\"props\":1}\n{\"id\":\"b\",\"props\":1}\n",
    );
    let ran = env.run(&["submit", "k", "--lines", &lines, "--replace-waiting"]);
    assert_eq!(ran.ok().out, "1 task submitted, 1 replaced\n");
    assert_eq!(env.json(&["get", "a"])["state"], "runnable");
    let apply = env.write(
        "apply.jsonl",
        "{\"op\":\"submit\",\"id\":\"a\",\"kind\":\"k\",\"props\":2,\"start_at\":\"in 1h\",\"if_exists\":\"replace-waiting\"}\n",
    );
    assert_eq!(env.run(&["apply", &apply]).ok().out, "1 task replaced\n");
    let got = env.json(&["get", "a"]);
    assert_eq!(
        (&got["props"], &got["state"]),
        (&json!(2), &json!("sleeping"))
    );
}

/// The error advised to submit later than the key is free, or to delete the task, which was refused.
#[test]
fn a_refused_replacement_says_why() {
    let env = Env::new();
    env.run(&["submit", "k", "--replace-waiting"])
        .fails(2, &["--replace-waiting needs --id or --unique"]);
    env.run(&["submit", "k", "--id", "p", "--unique", "key=1h", "--paused"])
        .ok();
    for by in [["--id", "p"], ["--unique", "key=1h"]] {
        let submit = ["submit", "k", "--replace-waiting", by[0], by[1]];
        env.run(&submit)
            .fails(1, &["task 'p' is not replaced: it is paused; resume it"]);
    }
    env.run(&["submit", "other", "--id", "p", "--replace-waiting"])
        .fails(
            1,
            &["task 'p' is not replaced: its kind is 'k', not 'other'"],
        );
    let schedule = ["schedule", "create", "s", "--every", "1h", "--kind", "k"];
    env.run(&schedule).ok();
    let spec = r#"{"run":{"kind":"k"},"cron":["@daily"]}"#;
    let props = ["--id", "s", "--props", spec, "--replace-waiting"];
    env.run(&[&["submit", "--kind", "schedule"], &props[..]].concat())
        .fails(1, &["it is a schedule; use `windlass schedule update s`"]);
}

/// What a waiting task keeps was dropped without a word.
#[test]
fn a_replacement_notes_what_the_waiting_task_keeps() {
    let env = Env::new();
    let submit = |more: &[&str]| {
        let words = [
            "submit",
            "k",
            "--id",
            "a",
            "--in",
            "1h",
            "--replace-waiting",
        ];
        env.run(&[&words[..], more].concat()).ok().err
    };
    submit(&["--priority", "3", "--label", "team=a"]);
    assert!(!submit(&["--priority", "3", "--label", "team=a"]).contains("keeps its own"));
    let said = submit(&["--priority", "4", "--label", "team=b", "--retry", "never"]);
    let says = "note: 1 replaced task keeps its own labels, priority, retry: ";
    assert!(said.contains(says), "{said}");
    let task = r#""id":"a","kind":"k","priority":7,"start_at":"2100-01-01T00:00:00Z""#;
    let lines = env.write("lines.jsonl", &format!("{{{task}}}\n"));
    let ran = env.run(&["submit", "--lines", &lines, "--replace-waiting"]);
    assert!(ran.ok().err.contains("keeps its own priority: "));
    let operation = format!(r#"{{"op":"submit",{task},"if_exists":"replace-waiting"}}"#);
    let file = env.write("apply.jsonl", &format!("{operation}\n"));
    let ran = env.run(&["apply", &file, "-o", "json"]).ok();
    assert!(ran.err.contains("keeps its own priority: "), "{ran:?}");
    let done = &ran.lines()[0]["operations"][0];
    assert_eq!(done["replaced"], json!(true), "{done}");
    assert_eq!(env.json(&["get", "a"])["priority"], 3);
}

/// The view showed the start of the first submit as if it were the present one.
#[test]
fn a_start_that_was_changed_is_said_to_be_that_of_the_submit() {
    let env = Env::new();
    let start = |at: &str| {
        let words = ["submit", "k", "--id", "a", "--replace-waiting"];
        env.run(&[&words[..], &["--start-at", at]].concat()).ok();
        let got = env.run(&["get", "a"]).ok().out;
        let line = got.lines().find(|line| line.starts_with("start at"));
        line.unwrap()
            .split_whitespace()
            .skip(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let (first, second) = ("2100-01-01T00:00:00Z", "2100-01-02T00:00:00Z");
    assert_eq!(start(first), first);
    assert_eq!(
        start(second),
        format!("{first} (by its submit, changed since)")
    );
    assert_eq!(start(first), first);
}

#[test]
fn a_limit_of_the_props_follows_the_props_of_a_replacement() {
    let env = Env::new();
    let line = |customer: u32| {
        let limits = r#"[{"key":"customer={prop:customer}","at_once":1}]"#;
        format!(
            "{{\"id\":\"a\",\"kind\":\"k\",\"props\":{{\"customer\":{customer}}},\"limits\":{limits}}}\n"
        )
    };
    let key = || env.json(&["get", "a"])["limits"][0]["key"].clone();
    for customer in [7, 8] {
        let lines = env.write("lines.jsonl", &line(customer));
        env.run(&["submit", "--lines", &lines, "--replace-waiting"])
            .ok();
        assert_eq!(key(), format!("customer={customer}"));
    }
    env.run(&["reschedule", "a", "--props", r#"{"customer":9}"#])
        .ok();
    assert_eq!(key(), "customer=9");
    env.run(&["reschedule", "a", "--props", "{}"])
        .fails(2, &["limits.key", "customer={prop:customer}"]);
}
