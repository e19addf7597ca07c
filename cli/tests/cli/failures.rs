//! Failed attempts of commands: when they are retried, and who reports them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{fs, process::Stdio};

use crate::live::{Place, Running, until};

/// A command that fails with a message.
const FAILS: &str = r#"{"shell":"echo no disk >&2; exit 3"}"#;

/// Starts a worker whose log is kept.
fn worker(place: &Place) -> Running {
    let log = fs::File::create(place.path("log")).unwrap();
    let mut worker = place.windlass(&["worker"]);
    worker.stdout(Stdio::null()).stderr(log);
    Running::of(worker.spawn().unwrap())
}

#[test]
fn a_command_that_fails_once_is_retried_within_a_second_or_so() {
    let place = Place::new();
    let _worker = worker(&place);
    let props = serde_json::json!({"shell": "mkdir once && exit 3; true", "cwd": place.path("")});
    let (code, out, err) = place.run(&[
        "submit",
        "exec",
        "--id",
        "t",
        "--props",
        &props.to_string(),
        "--wait",
        "--timeout",
        "50s",
    ]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("t\ncompleted"), "{out}");
    let failed = "attempt 1 failed: exit code 3; next in ";
    assert!(err.contains(failed) && err.contains("(7 left)"), "{err}");
}

#[test]
fn the_log_of_a_worker_and_watch_report_each_failed_attempt() {
    let place = Place::new();
    let _worker = worker(&place);
    let submit = ["submit", "exec", "--id", "t", "--props", FAILS];
    let (code, _, err) = place.run(&[&submit[..], &["--retry", "strikes"]].concat());
    assert_eq!(code, 0, "{err}");
    until("it sleeps", || place.get("t")["state"] == "sleeping");
    let report = "attempt 1 failed: exit code 3: no disk; next in 10 min (7 left)";
    until("the log says so", || {
        let log = place.read("log");
        log.lines()
            .any(|l| l.contains(" WARN ") && l.contains(report))
    });
    assert_eq!(place.get("t")["attempts_left"], 7);
    // Submitted, claimed, in fault, asleep.
    let (code, out, err) = place.run(&["watch", "t", "--after", "0", "--limit", "4"]);
    assert_eq!(code, 0, "{err}");
    let fault: Vec<&str> = out.lines().filter(|l| l.contains(report)).collect();
    assert!(
        matches!(fault.as_slice(), [line] if line.contains("fault")),
        "{out}"
    );
    let (_, out, _) = place.run(&["get", "t"]);
    assert!(out.contains("1 failed in a row (7 left)"), "{out}");
}

#[test]
fn a_command_that_cannot_be_is_not_retried() {
    let place = Place::new();
    let _worker = worker(&place);
    // `submit` would refuse such props, so another program submits them.
    let store = place.store();
    let (code, _, err) = place.run(&[
        "submit", "exec", "--id", "t", "--props", FAILS, "--in", "1h",
    ]);
    assert_eq!(code, 0, "{err}");
    let conn = rusqlite::Connection::open(store.strip_prefix("sqlite:").unwrap()).unwrap();
    conn.execute("UPDATE windlass_tasks SET props = '{\"command\":7}'", [])
        .unwrap();
    assert_eq!(place.run(&["resume", "t"]).0, 0);
    until("it has failed", || place.get("t")["state"] == "failed");
    let task = place.get("t");
    assert_eq!(task["attempts"], 1, "{task}");
    let error = task["errors"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("the task cannot be run: "), "{error}");
}

/// Regression: the numbers of errors are ignored, and commands with other exit codes were one group.
#[test]
fn commands_with_other_exit_codes_are_other_failures() {
    let env = crate::env::Env::new();
    for (id, code) in [("a", 1), ("b", 2), ("c", 2)] {
        let line = format!("echo job {id}7 >&2; exit {code}");
        env.run(&["submit", "--id", id, "--retry", "never", "--shell", &line])
            .ok();
    }
    env.run(&["worker", "--until-idle"]).ok();
    let found = env.json(&["failures"]);
    let groups = found["failures"].as_array().unwrap();
    let short: Vec<_> = groups
        .iter()
        .map(|group| {
            (
                group["tasks"].as_u64().unwrap(),
                group["error"].as_str().unwrap(),
            )
        })
        .collect();
    assert!(
        matches!(short[..], [(2, two), (1, one)] if two.starts_with("exit code 2") && one.starts_with("exit code 1")),
        "{found}"
    );
    let print = groups[1]["fingerprint"].as_str().unwrap();
    let ran = env
        .run(&["list", "--state", "failed", "--fingerprint", print])
        .ok();
    assert!(
        ran.out.contains("\na ") && !ran.out.contains("\nb "),
        "{ran:?}"
    );
}
