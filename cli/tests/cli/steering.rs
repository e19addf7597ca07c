//! Commands to tasks, with a node that has them and without.

use serde_json::json;

use crate::env::Env;

#[test]
fn a_command_waits_without_a_node_and_a_warning_says_so() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    let ran = env.run(&["pause", "a"]).ok();
    assert_eq!(ran.out, "a: pause sent\n");
    assert!(
        ran.err
            .contains("waits: no live node handles kind 'stay'; it takes effect when one starts"),
        "{ran:?}"
    );
    env.run(&["kill", "a", "--wait", "--timeout", "100ms"])
        .code(5);
    let got = env.json(&["get", "a"]);
    assert_eq!(got["commands_waiting"], 2);
    assert_eq!(got["commands"][1]["command"], json!({"message": "kill"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_its_outcome() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    let node = env.node("n1").await;
    for (words, outcome) in [
        (
            vec!["pause", "a"],
            json!({"outcome": "applied", "from": "runnable", "to": "paused"}),
        ),
        (
            vec!["checkpoint", "a"],
            json!({"outcome": "applied", "from": "paused", "to": "paused"}),
        ),
        (
            vec!["resume", "a"],
            json!({"outcome": "applied", "from": "paused", "to": "runnable"}),
        ),
        (
            vec!["sleep", "a", "--for", "1h"],
            json!({"outcome": "applied", "from": "runnable", "to": "sleeping"}),
        ),
        (
            vec!["sleep", "a", "--until", "2100-01-01T00:00:00Z"],
            json!({"outcome": "applied", "from": "sleeping", "to": "sleeping"}),
        ),
        (
            vec!["release", "a"],
            json!({"outcome": "applied", "from": "sleeping", "to": "sleeping"}),
        ),
        (
            vec!["complete", "a", "--result", "{\"n\":1}"],
            json!({"outcome": "applied", "from": "sleeping", "to": "completed"}),
        ),
    ] {
        let report = env.json(&[&words[..], &["--wait", "--timeout", "30s"]].concat());
        let task = &report["tasks"][0];
        for (name, value) in outcome.as_object().unwrap() {
            assert_eq!(&task[name], value, "{words:?}: {report}");
        }
        assert_eq!(
            (&report["action"], &report["done"]),
            (
                &json!(if words[0] == "resume" {
                    "run"
                } else {
                    words[0]
                }),
                &json!(1)
            )
        );
    }
    assert_eq!(env.json(&["get", "a"])["result"], json!({"n": 1}));
    env.run(&["kill", "a"])
        .fails(1, &["task 'a' has ended already"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_and_overridden_commands_are_a_no() {
    let env = Env::new();
    env.run(&["submit", "stubborn", "--id", "o"]).ok();
    let node = env.node("n1").await;
    env.run(&["watch", "o", "--after", "0", "--limit", "2"])
        .ok();
    let ran = env.run(&["pause", "o", "--wait"]).code(1);
    assert_eq!(
        ran.out,
        "o: pause: overridden (the handler returned complete)\n"
    );
    node.shutdown().await;

    // A second command after one that ends the task is rejected by that end.
    env.run(&["submit", "stay", "--id", "r"]).ok();
    env.run(&["kill", "r"]).ok();
    let waiter = std::thread::spawn({
        let mut command = env.command();
        command.args(["pause", "r", "--wait", "--timeout", "30s"]);
        move || command.output().unwrap()
    });
    env.run(&["watch", "r", "--after", "0", "--limit", "3"])
        .ok();
    let node = env.node("n2").await;
    let output = tokio::task::spawn_blocking(move || waiter.join().unwrap())
        .await
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.starts_with("r: pause: rejected: "), "{out}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ids_are_answered_one_by_one() {
    let env = Env::new();
    env.run(&["submit", "stay", "--id", "a"]).ok();
    env.run(&["submit", "stay", "--id", "b"]).ok();
    let node = env.node("n1").await;
    let ran = env
        .run(&["kill", "a", "nope", "b", "a", "--wait", "-o", "json"])
        .code(1);
    let report = &ran.lines()[0];
    assert_eq!((&report["done"], &report["failed"]), (&json!(2), &json!(1)));
    assert_eq!(report["tasks"].as_array().unwrap().len(), 3);
    assert!(
        report["tasks"][1]["error"]
            .as_str()
            .unwrap()
            .contains("'nope' does not exist")
    );
    env.run(&["kill", "nope"])
        .fails(3, &["task 'nope' does not exist"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_starts_again_and_delete_ends_everything() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "fail", "--id", "f", "--wait"]).code(1);
    assert_eq!(env.run(&["retry", "f"]).ok().out, "f: started again\n");
    env.run(&["watch", "f", "--until-ended", "--timeout", "30s"])
        .code(1);
    let got = env.json(&["get", "f"]);
    assert_eq!(
        (&got["incarnation"], &got["errors_total"]),
        (&json!(1), &json!(2))
    );
    env.run(&["submit", "stay", "--id", "s"]).ok();
    env.run(&["retry", "s"]).fails(1, &["state"]);
    assert_eq!(
        env.run(&["delete", "f", "s", "--force"]).ok().out,
        "2 tasks: deleted\n"
    );
    env.run(&["get", "s"]).fails(3, &["'s' does not exist"]);
    env.run(&["delete", "s"]).fails(3, &[]);
    node.shutdown().await;
}

/// Regression: trees, graphs, waits and schedules called these tasks `runnable`.
#[tokio::test(flavor = "multi_thread")]
async fn people_read_running_and_queued_everywhere() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "stay", "--id", "runs"]).ok();
    env.run(&["submit", "nobody", "--id", "stands"]).ok();
    let waits = [
        "submit", "stay", "--id", "waits", "--after", "runs", "--after", "stands",
    ];
    env.run(&waits).ok();
    crate::live::until("it runs", || {
        env.json(&["get", "runs"])["shown"] == "running"
    });
    for words in [
        &["graph", "waits"][..],
        &["list", "--tree"],
        &["get", "waits"],
    ] {
        let text = env.run(words).ok().out;
        for part in ["runs  running", "stands  queued"] {
            assert!(text.contains(part), "{words:?}: {text}");
        }
        assert!(!text.contains("runnable"), "{words:?}: {text}");
    }
    env.run(&["kill", "runs", "--wait", "--timeout", "30s"])
        .ok();
    node.shutdown().await;
}

/// Regression: a pause and a resume ran a task at once that was to start later or waited for others, without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_resume_name_what_they_skip() {
    let env = Env::new();
    let at = "2100-01-02T03:04:05Z";
    env.run(&["submit", "stay", "--id", "held", "--paused"])
        .ok();
    for words in [
        &["--id", "later", "--start-at", at][..],
        &["--id", "waits", "--after-ok", "held"],
        &["--id", "runs"],
    ] {
        env.run(&[&["submit", "stay"][..], words].concat()).ok();
    }
    let node = env.node("n1").await;
    let wait = ["--wait", "--timeout", "30s"];
    let paused = env.run(&[&["pause", "later"][..], &wait].concat()).ok();
    let sleep = format!("windlass sleep --until {at} later");
    let skips = format!("its sleep until {at}");
    for part in [
        &format!("a resume will run it at once and skip {skips}"),
        &sleep,
    ] {
        assert!(paused.err.contains(part), "{part}: {paused:?}");
    }
    let why = env.run(&["why", "later"]).ok().out;
    for part in [
        &format!("a resume runs it at once and skips {skips}\n"),
        "try: windlass resume later\n",
        &sleep,
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let by = &env.json(&["get", "later"])["paused_by"];
    assert_eq!(by["until"], at, "{by}");
    let paused = env.json(&[&["pause", "waits"][..], &wait].concat());
    let task = "its wait for task 'held'";
    assert_eq!(paused["tasks"][0]["skips"], task, "{paused}");
    let runs = env.run(&[&["pause", "runs"][..], &wait].concat()).ok();
    assert!(!runs.err.contains("skip"), "{runs:?}");
    // A schedule goes on with its times, so a resume skips nothing.
    env.run(&["schedule", "create", "daily", "--every", "1d", "--", "true"])
        .ok();
    let schedule = env.run(&["pause", "daily"]).ok();
    assert!(!schedule.err.contains("skip"), "{schedule:?}");

    // The sleep that the pause has named restores the time.
    let words = ["sleep", "--until", at, "later"];
    env.run(&[&words[..], &wait].concat()).ok();
    let later = env.json(&["get", "later"]);
    assert_eq!(
        (&later["state"], &later["until"]),
        (&json!("sleeping"), &json!(at))
    );
    let dry = ["resume", "--kind", "stay", "--state", "paused", "--dry-run"];
    let dry = env.run(&dry).ok();
    assert!(
        dry.err.contains("note: 1 task slept until a time"),
        "{dry:?}"
    );
    let all = env.json(&["bulk", "pause", "--kind", "stay", "--dry-run"]);
    assert_eq!(
        (&all["tasks"], &all["skipping"]),
        (&json!(4), &json!(2)),
        "{all}"
    );
    let resumed = env.run(&[&["resume", "waits"][..], &wait].concat()).ok();
    let says = format!("note: task 'waits' runs at once and skips {task}\n");
    assert!(resumed.err.contains(&says), "{resumed:?}");
    node.shutdown().await;
}
