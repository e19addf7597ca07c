//! Tasks as people say them: running, queued, late, paused by whom; and times as people write them.

use serde_json::json;

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn a_runnable_task_is_shown_as_running_or_queued() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "stay", "--id", "s1"]).ok();
    env.run(&["submit", "other", "--id", "o1"]).ok();
    env.run(&["watch", "s1", "--after", "0", "--limit", "2"])
        .ok();
    let shown = |id: &str| {
        let got = env.json(&["get", id]);
        assert_eq!(got["state"], "runnable", "the state of the machine stays");
        (got["shown"].clone(), got["late_seconds"].is_null())
    };
    assert_eq!(shown("s1"), (json!("running"), true));
    assert_eq!(shown("o1").0, "queued");
    let got = env.json(&["get", "s1"]);
    // A file keeps the time of a claim in microseconds.
    let since = got["shown_since"].as_str().unwrap();
    let claimed = got["claimed_at"].as_str().unwrap().trim_end_matches('Z');
    assert!(
        since.starts_with(claimed),
        "since when this run goes on: {got}"
    );
    let ids = |words: &[&str]| {
        let ran = env
            .run(&[&["list", "--sort", "id", "-o", "json"][..], words].concat())
            .ok();
        let lines = ran.lines();
        lines
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--state", "running"]), ["s1"]);
    assert_eq!(ids(&["--state", "queued"]), ["o1"]);
    assert_eq!(ids(&["--state", "running,queued"]), ["s1", "o1"]);
    assert_eq!(ids(&["--state", "runnable"]), ["s1", "o1"]);
    let table = env.run(&["list"]).ok().out;
    let row = |id: &str| {
        table
            .lines()
            .find(|line| line.starts_with(id))
            .unwrap()
            .to_owned()
    };
    assert!(row("s1").contains(" running "), "{table}");
    assert!(row("o1").contains(" queued "), "{table}");
    let text = env.run(&["get", "o1"]).ok().out;
    assert!(text.contains("state        queued for "), "{text}");
    let text = env.run(&["get", "s1"]).ok().out;
    assert!(text.contains("state        running for "), "{text}");
    env.run(&["list", "--claimed", "--state", "queued"])
        .fails(2, &["no task can match: no node has a task that is queued"]);
    node.shutdown().await;
}

/// It said "no sleeping task matches", and refused `--state runnable`.
#[test]
fn late_tasks_come_first_and_other_combinations_are_refused_by_name() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "soon", "--in", "1h"]).ok();
    env.run(&["submit", "k", "--id", "first"]).ok();
    env.run(&["submit", "k", "--id", "second"]).ok();
    env.run(&["submit", "k", "--id", "held", "--paused"]).ok();
    env.run(&["submit", "k", "--id", "waits", "--after", "held"])
        .ok();
    let ids = |words: &[&str]| {
        let ran = env
            .run(&[&["list", "--sort", "late", "-o", "json"][..], words].concat())
            .ok();
        let lines = ran.lines();
        lines
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    // A task that sleeps until a later time, or waits for others, is not late.
    assert_eq!(ids(&[]), ["first", "second"]);
    assert_eq!(ids(&["--reverse"]), ["second", "first"]);
    assert_eq!(ids(&["--state", "queued"]), ["first", "second"]);
    assert!(ids(&["--state", "sleeping"]).is_empty());
    env.run(&["list", "--sort", "late", "--waits", "tasks"])
        .fails(2, &["--sort: 'late' lists only", "'tasks'"]);
    for state in ["paused", "failed", "running"] {
        env.run(&["list", "--sort", "late", "--state", state])
            .fails(
                2,
                &[
                    "--sort: 'late' lists only tasks that wait for a node after their time",
                    state,
                ],
            );
    }
    let page = env.run(&["list", "--sort", "late", "--limit", "1"]).ok();
    let cursor = page
        .err
        .split_whitespace()
        .skip_while(|w| *w != "--cursor")
        .nth(1);
    assert_eq!(ids(&["--cursor", cursor.unwrap()]), ["second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_says_why_a_task_is_paused() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "stay", "--id", "s1"]).ok();
    env.run(&["pause", "s1", "--note", "the database moves", "--wait"])
        .ok();
    let got = env.json(&["get", "s1", "--history"]);
    let by = got["commands"][0]["by"].clone();
    let command = got["commands"][0]["order"].clone();
    let paused = json!({"command": command, "by": by, "note": "the database moves"});
    assert_eq!(got["paused_by"], paused);
    assert_eq!(got["commands"][0]["note"], "the database moves");
    let history = got["history"].as_array().unwrap();
    let sent = history
        .iter()
        .find(|change| change["what"] == "commanded")
        .unwrap();
    assert_eq!(sent["note"], "the database moves");
    let by = by.as_str().unwrap();
    let text = env.run(&["get", "s1", "--history"]).ok().out;
    for part in [
        format!(" by {by}: the database moves\n"),
        format!("sent, by {by}: the database moves\n"),
    ] {
        assert!(text.contains(&part), "{part} is not in {text}");
    }
    let table = env.run(&["list"]).ok().out;
    assert!(
        table.contains(&format!("paused by {by}: the database moves")),
        "{table}"
    );
    env.run(&["resume", "s1", "--note", "done", "--wait"]).ok();
    let got = env.json(&["get", "s1"]);
    assert_eq!(got["paused_by"], json!(null));
    assert_eq!(got["commands"][1]["note"], "done");
    env.run(&["kill", "s1", "--note", ""])
        .fails(2, &["--note", "is empty"]);
    env.run(&["kill", "s1", "--note", "a\nb"])
        .fails(2, &["a line break"]);
    env.run(&["kill", "s1", "--note", &"x".repeat(501)]).fails(
        2,
        &["has 501 bytes; write why in one line of 1 to 500 bytes"],
    );
    // Regression: a note that shows nothing passed.
    env.run(&["kill", "s1", "--note", "  "])
        .fails(2, &["--note", "only spaces or invisible characters"]);
    env.run(&["schedule", "pause", "s1", "--note", "a\u{61c}b"])
        .fails(2, &["--note", "which is not printed"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_since_a_time_are_counted() {
    let env = Env::new();
    let node = env.node("n1").await;
    for id in ["f1", "f2"] {
        env.run(&["submit", "fail", "--id", id, "--wait"]).code(1);
    }
    let ended = env.json(&["get", "f2"])["since"]
        .as_str()
        .unwrap()
        .to_owned();
    let tasks =
        |since: &str| env.json(&["failures", "--since", since])["failures"][0]["tasks"].clone();
    assert_eq!(tasks("yesterday"), 2);
    assert_eq!(tasks("2 hours ago"), 2);
    assert_eq!(tasks(&ended), 1);
    let none = env.run(&["failures", "--since", "now"]).ok();
    assert!(none.err.contains("no task has failed since 20"), "{none:?}");
    // Regression: a time in the future was accepted, and the list was empty.
    for words in [
        ["failures", "--since", "2099-01-01"],
        ["list", "--submitted-from", "tomorrow"],
        ["list", "--ended-from", "in 2h"],
    ] {
        env.run(&words)
            .fails(2, &[words[1], words[2], "is in the future"]);
    }
    env.run(&["list", "--ended-until", "tomorrow"]).ok();
    let hint = env.run(&["failures", "--since", &ended]).ok();
    assert!(
        hint.err.contains(&format!("--ended-from {ended}")),
        "{hint:?}"
    );
    node.shutdown().await;
}

#[test]
fn times_are_read_as_people_write_them() {
    let env = Env::new();
    let submit = ["submit", "k", "--id", "a", "--start-at", "2030-07-01 14:00"];
    let ran = env
        .command()
        .args(submit)
        .env("TZ", "Europe/Berlin")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(env.json(&["get", "a"])["until"], "2030-07-01T12:00:00Z");
    let count = |time: &str| {
        let list = ["list", "--submitted-from", time, "-o", "json"];
        env.run(&list).ok().lines().len()
    };
    for time in [
        "yesterday",
        "today",
        "2 hours ago",
        "90m",
        "2026-01-01",
        "2026-01-01 9:30",
    ] {
        assert_eq!(count(time), 1, "{time}");
    }
    let list = ["list", "--submitted-from", "last week"];
    let ran = env
        .command()
        .args(list)
        .env("TZ", "Europe/Berlin")
        .output()
        .unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{err}");
    assert!(
        err.contains("'last week' is not a time; write it like"),
        "{err}"
    );
    assert!(
        err.contains("days are those of the time zone Europe/Berlin"),
        "{err}"
    );
    // Regression: an unknown zone was taken for UTC.
    for (zone, time, code) in [
        ("Mars/Base", "yesterday", 2),
        ("Mars/Base", "2026-01-01 9:30", 2),
        ("Mars/Base", "2 hours ago", 0),
        ("", "yesterday", 0),
    ] {
        let list = ["list", "--submitted-from", time];
        let ran = env.command().args(list).env("TZ", zone).output().unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(code), "{zone} {time}: {err}");
        let says = "TZ names one that is not known; set TZ to a name like Europe/Berlin";
        assert_eq!(err.contains(says), code == 2, "{err}");
    }
}
