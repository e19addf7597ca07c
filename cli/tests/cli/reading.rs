//! `list`, `get`, `logs`, `watch`, `stats`.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn filters_say_which_tasks() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&[
        "submit", "double", "--id", "d1", "--props", "1", "--label", "team=a", "--wait",
    ])
    .ok();
    env.run(&[
        "submit", "fail", "--id", "f1", "--label", "team=b", "--wait",
    ])
    .code(1);
    env.run(&["submit", "stay", "--id", "s1"]).ok();
    env.run(&["watch", "s1", "--after", "0", "--limit", "2"])
        .ok();
    let ids = |words: &[&str]| {
        let list = ["list", "--reverse", "-o", "json"];
        let ran = env.run(&[&list[..], words].concat()).ok();
        ran.lines()
            .iter()
            .map(|t| t["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["d1", "f1", "s1"]);
    assert_eq!(ids(&["--state", "completed,failed"]), ["d1", "f1"]);
    assert_eq!(
        ids(&["--state", "completed", "--state", "failed"]),
        ["d1", "f1"]
    );
    assert_eq!(ids(&["--kind", "stay"]), ["s1"]);
    assert_eq!(ids(&["--label", "team"]), ["d1", "f1"]);
    assert_eq!(ids(&["--label", "team=b"]), ["f1"]);
    assert_eq!(ids(&["--prefix", "f"]), ["f1"]);
    assert_eq!(ids(&["--node", "n1"]), ["s1"]);
    assert_eq!(ids(&["--claimed"]), ["s1"]);
    assert_eq!(
        ids(&["--claimed", "--kind", "double"]),
        Vec::<String>::new()
    );
    assert_eq!(ids(&["--error", "OUT of"]), ["f1"]);
    assert_eq!(ids(&["--quarantined"]), Vec::<String>::new());
    assert_eq!(ids(&["--limit", "2"]), ["d1", "f1"]);
    let page = env.run(&["list", "--reverse", "--limit", "1"]).ok();
    let cursor = page
        .err
        .split_whitespace()
        .skip_while(|w| *w != "--cursor")
        .nth(1)
        .unwrap();
    assert_eq!(ids(&["--cursor", cursor, "--limit", "1"]), ["f1"]);
    env.run(&["list", "--cursor", cursor])
        .fails(2, &["cursor", "ascending", "the same list"]);
    env.run(&["list", "--cursor", "7"])
        .fails(2, &["'7' is not a cursor"]);
    let newest = env.run(&["list", "-o", "json"]).ok().lines();
    assert_eq!(newest[0]["id"], "s1", "the newest comes first");
    assert_eq!(ids(&["--sort", "ended"]), ["d1", "f1"]);
    assert!(ids(&["--sort", "due"]).is_empty(), "no task sleeps");
    assert_eq!(ids(&["--props-at", "=1"]), ["d1"]);
    env.run(&["list", "--props-at", "to=1"])
        .fails(2, &["'to' is not a JSON pointer"]);
    let begun = newest[0]["submitted_at"].as_str().unwrap();
    assert_eq!(ids(&["--submitted-from", begun]), ["s1"]);
    assert_eq!(ids(&["--submitted-until", begun]), ["d1", "f1"]);
    assert_eq!(ids(&["--ended-from", "2020-01-01T00:00:00Z"]), ["d1", "f1"]);
    let table = env.run(&["list"]).ok().out;
    assert!(
        table.starts_with("ID") && table.contains("out of luck"),
        "{table}"
    );
    assert!(
        !table.contains('\u{1b}'),
        "no colours where there is no terminal"
    );
    let colours = env.run(&["list", "--color", "always"]).ok().out;
    assert!(colours.contains('\u{1b}'), "{colours}");
    for (id, start) in [
        ("z1", "2099-01-02T00:00:00Z"),
        ("z2", "2099-01-01T00:00:00Z"),
    ] {
        env.run(&["submit", "stay", "--id", id, "--start-at", start])
            .ok();
    }
    env.run(&["submit", "other", "--id", "o1"]).ok();
    assert_eq!(ids(&["--sort", "due"]), ["z1", "z2"], "the other end first");
    assert_eq!(ids(&["--waits", "no_node"]), ["o1"]);
    assert!(ids(&["--waits", "limit"]).is_empty());
    env.run(&["list", "--waits", "no-node"])
        .fails(2, &["'no-node' is not one of no_node, data_version"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn get_prints_everything() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&[
        "submit",
        "fail",
        "--id",
        "f",
        "--props",
        "{\"a\":[1]}",
        "--wait",
    ])
    .code(1);
    let table = env.run(&["get", "f", "--history"]).ok().out;
    for text in [
        "state        failed",
        "props        {\"a\":[1]}",
        "out of luck",
        "runnable → fault",
        "claimed by n1",
    ] {
        assert!(table.contains(text), "{text} is not in {table}");
    }
    let got = env.json(&["get", "f", "--history=2"]);
    assert_eq!(got["history"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&got["state"], &got["errors"][0]["error"]),
        (&json!("failed"), &json!("out of luck"))
    );
    assert!(env.json(&["get", "f"]).get("history").is_none());
    env.run(&["get", "g"])
        .fails(3, &["task 'g' does not exist", "windlass list"]);
    let stats = env.json(&["stats"]);
    assert_eq!(
        stats["counts"],
        json!([{"kind": "fail", "state": "failed", "tasks": 1, "claimed": 0}])
    );
    assert!(env.run(&["stats"]).ok().out.contains("failed"));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_print_what_a_task_has_printed() {
    let env = Env::new();
    env.run(&["submit", "print", "--id", "p"]).ok();
    let none = env.run(&["logs", "p"]).ok();
    assert!(
        none.out.is_empty() && none.err.contains("task 'p' has not run yet; `windlass why"),
        "{none:?}"
    );
    let mut follow = env.command();
    follow.args(["logs", "p", "--follow"]);
    let follow = std::thread::spawn(move || follow.output().unwrap());
    let node = env.node("n1").await;
    let output = tokio::task::spawn_blocking(move || follow.join().unwrap())
        .await
        .unwrap();
    assert_eq!(output.stdout, b"one\n");
    assert_eq!(output.stderr, b"two\n");
    let logs = env.json(&["logs", "p"]);
    assert_eq!(
        (&logs["stdout"], &logs["stderr"]),
        (&json!("one\n"), &json!("two\n"))
    );
    env.run(&["logs", "q"]).fails(3, &["'q' does not exist"]);
    node.shutdown().await;
}

#[test]
fn list_watch_shows_tasks_again_and_a_reader_that_leaves_is_no_panic() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["list", "--watch", "-o", "json"])
        .env("WINDLASS_STORE", env.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["id"], "a");
    env.run(&["submit", "k", "--id", "b"]).ok();
    assert_eq!(next()["id"], "b");
    env.run(&["pause", "a"]).ok();
    let again = next();
    assert_eq!(
        (&again["id"], &again["commands_waiting"]),
        (&json!("a"), &json!(1))
    );
    drop(lines);
    env.run(&["pause", "b"]).ok();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_could_run_says_why_it_does_not() {
    let env = Env::new();
    env.run(&["submit", "double", "--id", "d1"]).ok();
    let says = "no live node handles its kind";
    assert!(env.run(&["list"]).ok().out.contains(says));
    let get = env.run(&["get", "d1"]).ok().out;
    assert!(get.contains(says), "{get}");
    assert!(
        env.json(&["get", "d1"])["waits"]
            .as_str()
            .unwrap()
            .contains(says)
    );

    let node = env.node("n1").await;
    env.run(&["node", "freeze", "n1", "--wait"]).ok();
    env.run(&["submit", "double", "--id", "d2", "--props", "1"])
        .ok();
    let get = env.json(&["get", "d2"])["waits"].clone();
    assert_eq!(get, "the nodes of its kind are frozen or draining: n1");
    env.run(&["node", "unfreeze", "n1", "--wait"]).ok();
    env.run(&["watch", "d2", "--until-ended"]).ok();
    assert_eq!(env.json(&["get", "d2"])["waits"], Value::Null);
    node.shutdown().await;
}

#[test]
fn a_missed_deadline_is_a_field_of_the_json() {
    let env = Env::new();
    let command = ["--", "true"];
    let options = ["submit", "--id", "a", "--start-by", "1ms"];
    env.run(&[&options[..], &command].concat()).ok();
    env.run(&[&["submit", "--id", "b"], &command[..]].concat())
        .ok();
    let missed = env.json(&["get", "a"])["missed"].clone();
    let missed = missed.as_str().unwrap();
    assert!(missed.starts_with("did not start by"), "{missed}");
    let table = env.run(&["get", "a"]).ok().out;
    assert!(table.contains(missed), "{table}");
    assert_eq!(env.json(&["get", "b"])["missed"], json!(null));
    env.run(&["worker", "--until-idle"]).ok();
    for (id, state) in [("a", "failed"), ("b", "completed")] {
        let ended = env.json(&["get", id]);
        assert_eq!(
            (&ended["state"], &ended["missed"]),
            (&json!(state), &json!(null))
        );
        let table = env.run(&["get", id]).ok().out;
        assert!(
            !table.lines().any(|line| line.starts_with("data ")),
            "{table}"
        );
    }
}

/// Regression: numbers beyond 64 bits never matched, and a name with '=' could not be given.
#[test]
fn a_filter_of_props_compares_digit_by_digit_and_takes_every_name() {
    let env = Env::new();
    for (id, props) in [
        ("a", r#"{"n":12345678901234567890123,"x=y":"z=1"}"#),
        ("b", r#"{"n":12345678901234567890124,"x=y":"z"}"#),
    ] {
        env.run(&["submit", "k", "--id", id, "--props", props]).ok();
    }
    let ids = |at: &str| -> Vec<String> {
        let listed = env
            .run(&["list", "--props-at", at, "-o", "json"])
            .ok()
            .lines();
        let ids = listed
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    assert_eq!(ids("/n=12345678901234567890123"), ["a"]);
    assert_eq!(ids("/n=12345678901234567890125"), [] as [String; 0]);
    assert_eq!(ids("/x=y=\"z=1\""), ["a"]);
    assert_eq!(ids("/x=y=\"z\""), ["b"]);
}

/// A list showed other tasks than the counts, and the command of a count listed more than was counted.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_of_a_count_lists_the_tasks_that_it_counted() {
    let env = Env::new();
    let node = env.node("n").await;
    let submit = |words: &[&str]| drop(env.run(&[&["submit"][..], words].concat()).ok());
    submit(&["double", "--id", "done", "--props", "1", "--wait"]);
    submit(&["stay", "--id", "live"]);
    submit(&["report", "--id", "a"]);
    submit(&["report", "--id", "later", "--in", "1h"]);
    submit(&["report", "--id", "over", "--after", "done"]);
    submit(&["report", "--id", "waits", "--after", "done,live"]);
    let stats = env.json(&["stats"]);
    let kinds = stats["kinds"].as_array().unwrap().iter();
    let held = kinds.flat_map(|kind| kind["held_back"].as_array().unwrap());
    let mut found = Vec::new();
    for held in held {
        let words = held["remedy"].as_str().unwrap().split(' ').skip(1);
        let words: Vec<&str> = words.collect();
        let listed = env
            .run(&[&words[..], &["-o", "json"]].concat())
            .ok()
            .lines();
        assert_eq!(held["tasks"], listed.len(), "{held}");
        for task in &listed {
            let id = task["id"].as_str().unwrap().to_owned();
            found.push((id, held["reason"].as_str().unwrap().to_owned()));
        }
    }
    found.sort();
    let expected = [("a", "no_node"), ("over", "no_node"), ("waits", "tasks")];
    assert_eq!(
        found,
        expected.map(|(id, why)| (id.to_owned(), why.to_owned()))
    );
    let table = env.run(&["list", "--kind", "report"]).ok().out;
    let row = |id: &str| {
        let mut rows = table.lines().filter(|row| row.starts_with(id));
        rows.next().unwrap_or_default().to_owned()
    };
    assert!(row("over").contains("no live node"), "{table}");
    assert!(row("waits").contains("it waits for 2 tasks"), "{table}");
    node.shutdown().await;
}

/// They listed nothing, with exit code 0.
#[test]
fn a_list_of_filters_that_exclude_each_other_is_refused() {
    let env = Env::new();
    env.run(&["submit", "report"]).ok();
    env.run(&["list", "--state", "failed", "--waits", "no_node"])
        .fails(
            2,
            &["no task can match: a task that is failed does not wait for 'no_node'"],
        );
    env.run(&["kill", "--claimed", "--state", "completed", "--yes"])
        .fails(2, &["no task can match"]);
}
