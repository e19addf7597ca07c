//! Filters: dry runs, confirmations, and the tasks that they affect.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Command, Stdio},
};

use serde_json::json;

use crate::env::Env;

fn some(env: &Env) {
    let lines = r#"{"id":"a1","kind":"x","labels":{"team":"a"}}
{"id":"a2","kind":"x"}
{"id":"b1","kind":"y","start_at":"2100-01-01T00:00:00Z"}
"#;
    env.run_with(&["submit", "--lines", "-"], lines).ok();
}

#[test]
fn without_a_terminal_filters_need_a_yes() {
    let env = Env::new();
    some(&env);
    for command in [
        "pause",
        "resume",
        "release",
        "checkpoint",
        "complete",
        "kill",
        "retry",
        "delete",
    ] {
        env.run(&[command, "--kind", "x"])
            .fails(2, &["--yes", "--dry-run"]);
        env.run(&[command]).fails(2, &["no task is named", "--all"]);
        env.run(&[command, "a1", "--kind", "x"])
            .fails(2, &["do not go together"]);
        env.run(&[command, "a1", "--all"])
            .fails(2, &["do not go together"]);
    }
    env.run(&["sleep", "--all", "--for", "1h"])
        .fails(2, &["--yes"]);
    let purged = env.run(&["purge", "--older-than", "1d"]).ok();
    assert!(purged.err.contains("no task matches"), "{purged:?}");
    let all = env.run(&["list", "-o", "json"]).ok().lines();
    assert!(!all.is_empty());
    assert!(all.iter().all(|t| t["commands_waiting"] == 0), "{all:?}");
}

/// Runs the program on a terminal where somebody types this.
fn on_a_terminal(env: &Env, words: &[&str], typed: &str) -> (Option<i32>, String) {
    let pty = nix::pty::openpty(None, None).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(words)
        .env("WINDLASS_STORE", env.url())
        .stdin(pty.slave.try_clone().unwrap())
        .stderr(pty.slave)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut terminal = File::from(pty.master);
    terminal.write_all(typed.as_bytes()).unwrap();
    let mut seen = Vec::new();
    // Reading ends with an error when the program ends, because the other side is closed.
    let _ = terminal.read_to_end(&mut seen);
    (
        child.wait().unwrap().code(),
        String::from_utf8_lossy(&seen).into_owned(),
    )
}

#[test]
fn on_a_terminal_it_asks() {
    let env = Env::new();
    some(&env);
    for no in ["n\n", "\n", "what\n"] {
        let (code, seen) = on_a_terminal(&env, &["delete", "--kind", "x"], no);
        assert_eq!(code, Some(1), "{seen}");
        assert!(
            seen.contains("delete 2 tasks? [y/N]") && seen.contains("nothing was changed"),
            "{seen}"
        );
    }
    assert_eq!(env.json(&["stats"])["tasks"], 3);
    let (code, seen) = on_a_terminal(&env, &["delete", "--kind", "x"], "y\n");
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(env.json(&["stats"])["tasks"], 1);
    let (code, seen) = on_a_terminal(&env, &["purge", "--older-than", "0s"], "y\n");
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("no task matches"), "{seen}");
}

#[test]
fn an_empty_prefix_is_no_choice_of_tasks() {
    let env = Env::new();
    some(&env);
    for empty in ["--prefix=", "--kind=*"] {
        for verb in [
            &["delete", "--yes"][..],
            &["kill", "--yes"],
            &["bulk", "delete", "--yes"],
        ] {
            env.run(&[verb, &[empty]].concat())
                .fails(2, &["no task is named", "--all"]);
        }
    }
    assert!(env.run(&["list"]).ok().out.contains("a1"));
}

#[test]
fn a_dry_run_shows_and_touches_nothing() {
    let env = Env::new();
    some(&env);
    let ran = env.run(&["kill", "--prefix", "a", "--dry-run"]).ok();
    assert!(
        ran.out.contains("a1") && ran.out.contains("a2") && !ran.out.contains("b1"),
        "{ran:?}"
    );
    assert!(
        ran.err.contains("2 tasks selected; nothing was changed"),
        "{ran:?}"
    );
    let meant = env
        .run(&[
            "delete",
            "--state",
            "sleeping,paused",
            "--dry-run",
            "-o",
            "json",
        ])
        .ok()
        .lines();
    assert_eq!(meant.iter().map(|t| &t["id"]).collect::<Vec<_>>(), ["b1"]);
    env.run(&["delete", "a1", "nope", "--dry-run"]).code(3);
    assert_eq!(env.json(&["stats"])["tasks"], 3);
    assert_eq!(env.json(&["get", "a1"])["commands_waiting"], 0);
}

#[test]
fn yes_acts_on_matching_tasks() {
    let env = Env::new();
    some(&env);
    let report = env.json(&["pause", "--label", "team", "--yes"]);
    assert_eq!(report["tasks"][0]["id"], "a1");
    assert_eq!(report["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(
        env.run(&["delete", "--kind", "x", "-y"]).ok().out,
        "2 tasks: deleted\n"
    );
    let none = env.json(&["kill", "--kind", "none", "--yes"]);
    assert_eq!((&none["done"], &none["tasks"]), (&json!(0), &json!([])));
    assert_eq!(env.json(&["delete", "--all", "--yes"])["done"], 1);
}

#[test]
fn a_retry_takes_the_tasks_that_failed_because_of_it_along() {
    let env = Env::new();
    let flag = env.path("flag");
    let lines = format!(
        r#"{{"id":"a","props":{{"command":"test","args":["-e","{flag}"]}}}}
{{"id":"other","props":{{"command":"false"}}}}
{{"id":"b","props":{{"command":"true"}},"after_ok":["a"]}}
{{"id":"c","props":{{"command":"true"}},"after_ok":["b","a"]}}
{{"id":"d","props":{{"command":"true"}},"after_ok":["a","other"]}}
{{"id":"e","props":{{"command":"true"}},"after_ok":["other"]}}
"#
    );
    let submit = [
        "submit", "--lines", "-", "--kind", "exec", "--retry", "never",
    ];
    env.run_with(&submit, &lines).ok();
    let work = || env.run(&["worker", "--until-idle"]).ok();
    let states = || -> Vec<(String, String)> {
        let tasks = env.run(&["list", "-o", "json"]).ok().lines();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        tasks
            .iter()
            .map(|t| (text(&t["id"]), text(&t["state"])))
            .collect()
    };
    work();
    assert!(states().iter().all(|(_, state)| state == "failed"));
    env.write("flag", "");
    let retry = ["retry", "a", "--with-dependents"];
    let dry = env.run(&[&retry[..], &["--dry-run", "-o", "json"]].concat());
    let dry = dry.ok();
    let ids: Vec<_> = dry.lines().iter().map(|t| t["id"].clone()).collect();
    assert_eq!(ids, ["a", "b", "c"], "the others would fail again");
    assert!(
        dry.err
            .contains("retry: 3 tasks selected; nothing was changed"),
        "{dry:?}"
    );
    env.run(&retry)
        .fails(2, &["this would retry 3 tasks", "--yes"]);
    env.run(&["retry", "--state", "failed", "--with-dependents"])
        .fails(
            2,
            &["--with-dependents takes the ids of tasks, and no filters"],
        );
    env.run(&["retry", "a", "--kind", "exec", "--with-dependents"])
        .fails(
            2,
            &["--with-dependents takes the ids of tasks, and no filters"],
        );
    env.run(&["retry", "a", "--props", "{}", "--with-dependents"])
        .fails(2, &["retry that one first", "--with-dependents alone"]);
    let done = env.run(&[&retry[..], &["--yes", "-o", "json"]].concat());
    let done = done.ok();
    let report = &done.lines()[0];
    assert_eq!((&report["done"], &report["failed"]), (&json!(3), &json!(0)));
    // Regression: nothing said that no worker takes them.
    assert!(
        done.err.contains("no live node handles kind 'exec'"),
        "{done:?}"
    );
    work();
    // Regression: they were selected by the error of an earlier attempt, without a word.
    let dry = env
        .run(&["retry", "--error", "exit code 1", "--dry-run"])
        .ok();
    assert!(
        dry.err
            .contains("1 task completed already, and would run again; --state failed"),
        "{dry:?}"
    );
    let completed = ["a", "b", "c"];
    for (id, state) in states() {
        let is_completed = completed.contains(&id.as_str());
        assert_eq!(state == "completed", is_completed, "{id} {state}");
    }
    // The other cause is fixed by now, so the task does not fail because of it again.
    env.run(&["delete", "other"]).ok();
    let other = [
        "submit",
        "exec",
        "--id",
        "other",
        "--props",
        r#"{"command":"true"}"#,
    ];
    env.run(&other).ok();
    work();
    env.run(&["retry", "a", "--with-dependents", "--yes"]).ok();
    work();
    let failed: Vec<_> = states()
        .into_iter()
        .filter(|(_, s)| s == "failed")
        .collect();
    assert_eq!(failed, [("e".to_owned(), "failed".to_owned())]);
}

/// Regression: on etcd the retries are several writes. After the client was killed between two of them, a repeat was
/// refused while the first task was live, and found no dependent task when it had completed.
#[test]
fn a_repeat_of_an_interrupted_retry_with_dependents_finishes_it() {
    let env = Env::new();
    let flag = env.path("flag");
    let lines = format!(
        r#"{{"id":"a","props":{{"command":"test","args":["-e","{flag}"]}}}}
{{"id":"b","props":{{"command":"true"}},"after_ok":["a"]}}
{{"id":"c","props":{{"command":"true"}},"after_ok":["b"]}}
{{"id":"d","props":{{"command":"true"}},"after_ok":["c","a"]}}
"#
    );
    let submit = [
        "submit", "--lines", "-", "--kind", "exec", "--retry", "never",
    ];
    let work = || env.run(&["worker", "--until-idle"]).ok();
    let state = |id: &str| env.json(&["get", id])["state"].clone();
    let retry = ["retry", "a", "--with-dependents", "--yes"];
    // The task that the interrupted command had retried, and whether it has completed at the
    // repeat.
    for (retried, completes) in [
        (&["a"][..], false),
        (&["a"], true),
        (&["a", "b"], false),
        (&["a", "b"], true),
    ] {
        env.run_with(&submit, &lines).ok();
        work();
        assert_eq!(state("d"), "failed");
        env.write("flag", "");
        for id in retried {
            env.run(&["retry", id]).ok();
        }
        if completes {
            work();
            assert_eq!(state(retried[retried.len() - 1]), "completed");
        }
        let repeat = env.run(&retry).ok();
        let says = match completes {
            true => "note: task 'a' is completed, and is not retried",
            false => "note: task 'a' is runnable, and is not retried",
        };
        assert!(repeat.err.contains(says), "{repeat:?}");
        let left = 4 - retried.len();
        let says = format!("{left} tasks: started again\n");
        assert_eq!(repeat.out, says, "{retried:?} {completes}");
        work();
        for id in ["a", "b", "c", "d"] {
            assert_eq!(state(id), "completed", "{id}: {retried:?} {completes}");
        }
        let nothing = env.run(&retry).ok();
        assert!(
            nothing.err.contains("retry: no task matches"),
            "{nothing:?}"
        );
        env.run(&["delete", "--all", "--yes"]).ok();
        std::fs::remove_file(&flag).unwrap();
    }
}

#[test]
fn long_bulk_work_goes_in_steps() {
    let env = Env::new();
    let lines: String = (0..1300)
        .map(|n| format!("{{\"id\":\"t{n}\"}}\n"))
        .collect();
    env.run_with(&["submit", "--lines", "-", "--kind", "k"], &lines)
        .ok();
    assert_eq!(env.json(&["pause", "--all", "--yes"])["done"], 1300);
    assert_eq!(env.json(&["delete", "--all", "--yes"])["done"], 1300);
    assert_eq!(env.json(&["stats"])["tasks"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn purge_takes_what_ended_long_enough_ago() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "double", "--id", "d", "--props", "1", "--wait"])
        .ok();
    env.run(&["submit", "fail", "--id", "f", "--wait"]).code(1);
    env.run(&["submit", "stay", "--id", "s"]).ok();
    let shown = env
        .run(&["purge", "--older-than", "0s", "--dry-run", "-o", "json"])
        .ok()
        .lines();
    assert_eq!(shown.len(), 2);
    assert_eq!(
        env.json(&["purge", "--older-than", "1h", "--yes"])["purged"],
        0
    );
    assert_eq!(
        env.json(&["purge", "--older-than", "0s", "--state", "failed", "--yes"])["purged"],
        1
    );
    env.run(&["get", "d"]).ok();
    assert_eq!(
        env.run(&["purge", "--older-than", "0s", "--yes"]).ok().out,
        "1 task: purged\n"
    );
    env.run(&["get", "s"]).ok();
    env.run(&["purge", "--older-than", "0s", "--state", "paused", "--yes"])
        .fails(2, &["--state", "'paused' is not one of"]);
    node.shutdown().await;
}
