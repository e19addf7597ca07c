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
    let props = ["--id", "s", "--props", "{}", "--replace-waiting"];
    env.run(&[&["submit", "--kind", "schedule"], &props[..]].concat())
        .fails(1, &["it is a schedule; use `windlass schedule update s`"]);
}
