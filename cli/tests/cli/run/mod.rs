//! `windlass run` on real input, interrupted in every way.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

mod bad_waits;
mod balancers;
mod beside;
mod equal;
mod input;
mod limits;
mod repeats;
mod waits;

use std::{collections::HashMap, fmt::Write as _, fs, process::Command};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::live::{Place, until, until_gone};

fn summary(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn checksums_of_a_tree() {
    let place = Place::new();
    for n in 0..60 {
        let name = format!("tree/{}/it's \"file\" {n} $(x).txt", n % 7);
        place.write(&name, &format!("content {n}"));
    }
    let find = |action: &str| {
        let mut find = Command::new("find");
        find.args(["tree", "-type", "f"]).args(action.split(' '));
        let output = find.current_dir(place.path("")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (files, sums) = (find("-print0"), find("-exec sha256sum {} ;"));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let each = "sha256sum {}";
    let args = ["run", "--each", each, "-0", "-j", "4", "--print-output"];
    let (code, out, err) = place.run_with(&args, files.as_bytes());
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), sorted(&sums));
    assert!(err.contains("60 lines: 60 completed; in"), "{err}");

    // Again: nothing is run, and the output is still known.
    fs::remove_dir_all(place.path("tree")).unwrap();
    let (code, out, err) = place.run_with(&args, files.as_bytes());
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), sorted(&sums));
    assert!(
        err.contains("60 completed, 60 from an earlier run ("),
        "{err}"
    );
}

/// Kills everything three times in the middle of the work. Completed tasks are not run again;
/// interrupted ones are, and nothing of their first attempt is left.
#[test]
fn killed_and_started_again_it_repeats_nothing_that_had_completed() {
    let place = Place::new();
    let lines: String = (0..120).fold(String::new(), |mut all, n| {
        let _ = writeln!(all, "line {n}");
        all
    });
    place.write("lines", &lines);
    // Both are appended to by one write each, so lines of two processes do not mix.
    let each = "echo {} >> starts; sleep 0.02; echo {} >> ends";
    let args = [
        "run",
        "--each",
        each,
        "--shell",
        "-j",
        "3",
        "--lease-ttl",
        "5s",
        "lines",
    ];
    let starts = |place: &Place| {
        let mut count = HashMap::<String, usize>::new();
        for line in place.read("starts").lines() {
            *count.entry(line.to_owned()).or_default() += 1;
        }
        count
    };
    for killed_at in [15, 45, 80] {
        let run = place.start(&args);
        place.until_lines("ends", killed_at);
        run.kill();
        let completed = place.list(&["--state", "completed"]);
        assert!(!completed.is_empty());
        assert!(completed.len() < 120, "it was killed in the middle");
    }
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    let starts = starts(&place);
    assert_eq!(starts.len(), 120, "every line was run");
    let again: usize = starts.values().map(|n| n - 1).sum();
    assert!(
        again <= 3 * 3,
        "only what was running when it was killed is run again: {again}"
    );
    let completed = place.list(&["--state", "completed"]);
    assert_eq!(completed.len(), 120);
    for task in completed {
        let claims = task["claims"].as_u64().unwrap() as usize;
        let line = task["props"]["args"][0].as_str().unwrap();
        assert!(starts[line] <= claims, "{line}");
    }
    let before = place.read("starts").lines().count();
    let (code, _, err) = place.run(&args);
    assert_eq!(
        (code, place.read("starts").lines().count()),
        (0, before),
        "{err}"
    );
    assert!(!place.path("s.db.tasks").exists(), "no folder is left");
}

#[test]
fn what_failed_is_run_again_only_when_asked() {
    let place = Place::new();
    let each = "echo {} >> starts; [ -e fixed ] || [ {} != 2 ] || { echo no fix >&2; exit 9; }";
    let args = ["run", "--each", each, "--shell", "-o", "json"];
    let (code, out, _) = place.run_with(&args, b"1\n2\n3\n");
    assert_eq!(code, 1);
    let failure = &summary(&out)["failures"][0];
    assert_eq!(failure["exit_code"], 9);
    assert_eq!(failure["error"], "exit code 9: no fix");
    let id = failure["id"].as_str().unwrap().to_owned();
    let (_, out, err) = place.run(&["logs", &id]);
    assert_eq!((out.as_str(), err.as_str()), ("", "no fix\n"));

    place.write("fixed", "");
    let (code, out, _) = place.run_with(&args, b"1\n2\n3\n");
    assert_eq!(
        (code, &summary(&out)["failures"][0]["before"]),
        (1, &true.into())
    );
    assert_eq!(place.read("starts").lines().count(), 3);

    // Another timeout is not another task.
    let again = [&args[..], &["--retry-failed", "--timeout", "1m"]].concat();
    let (code, out, err) = place.run_with(&again, b"1\n2\n3\n");
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(place.read("starts").lines().count(), 4);
}

#[test]
fn the_first_failure_stops_it_when_asked() {
    let place = Place::new();
    let each = "echo {} >> starts; [ {} != 3 ]";
    let args = [
        "run",
        "--each",
        each,
        "--shell",
        "-j",
        "1",
        "--fail-fast",
        "-o",
        "json",
    ];
    let lines: String = (1..=200).map(|n| format!("{n}\n")).collect();
    let (code, out, _) = place.run_with(&args, lines.as_bytes());
    let summary = summary(&out);
    assert_eq!(
        (code, &summary["failed"], &summary["lines"]),
        (1, &1.into(), &200.into())
    );
    assert!(summary["left"].as_u64().unwrap() > 0, "{summary}");
}

#[test]
fn attempts_and_timeouts_are_as_asked() {
    let place = Place::new();
    let retry = r#"{"policy":"exponential","attempts":3,"base":"10ms"}"#;
    let each = "echo {} >> starts; [ $WINDLASS_ATTEMPT = 3 ] || sleep 600";
    let args = [
        "run",
        "--each",
        each,
        "--shell",
        "--retry",
        retry,
        "--timeout",
        "200ms",
    ];
    let (code, _, err) = place.run_with(&args, b"a\n");
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("starts"), "a\na\na\n");
}

#[test]
fn an_interrupt_releases_running_tasks_and_another_run_goes_on() {
    let place = Place::new();
    place.write("lines", "1\n2\n3\n");
    let each = "echo $$ > pid-{}.new; mv pid-{}.new pid-{}; [ -e go ] || sleep 600";
    let args = ["run", "--each", each, "--shell", "-j", "2", "lines"];
    let run = place.start(&args);
    until("two run", || {
        (1..=3)
            .filter(|n| place.path(&format!("pid-{n}")).exists())
            .count()
            == 2
    });
    let pids: Vec<i32> = (1..=3)
        .filter_map(|n| place.read(&format!("pid-{n}")).trim().parse().ok())
        .collect();
    assert_eq!(pids.len(), 2);
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait(), Some(130));
    until_gone(&pids);
    let tasks = place.list(&[]);
    assert_eq!(tasks.len(), 3);
    for task in &tasks {
        assert_eq!(
            (&task["state"], &task["attempts"]),
            (&"runnable".into(), &0.into()),
            "{task}"
        );
        assert_eq!(task["node"], Value::Null);
    }
    place.write("go", "");
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_second_interrupt_kills() {
    let place = Place::new();
    let script =
        "trap 'touch told' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done";
    place.write(
        "lines",
        &format!(
            "{}\n",
            serde_json::json!({"id": "t", "shell": script, "grace": "10m"})
        ),
    );
    let run = place.start(&["run", "lines", "--grace", "10m"]);
    let pids = place.pids("pid");
    run.signal(Signal::SIGTERM);
    until("it was told", || place.path("told").exists());
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait(), Some(130));
    until_gone(&pids);
    assert_eq!(place.get("t")["state"], "runnable");
}

#[test]
fn tasks_that_no_worker_takes_are_reported() {
    let place = Place::new();
    let lines = "{\"id\":\"m\",\"kind\":\"mail\"}\n{\"id\":\"c\",\"command\":\"true\"}\n";
    let (code, out, _) = place.run_with(&["run", "-o", "json"], lines.as_bytes());
    let summary = summary(&out);
    assert_eq!(
        (code, &summary["completed"], &summary["left"]),
        (1, &1.into(), &1.into())
    );
    let waiting = summary["waiting"].as_object().unwrap();
    assert_eq!(waiting["of kind 'mail', for which no worker is there"], 1);
}

/// Enough tasks to fill the window of followed ones.
#[test]
fn many_that_wait_for_others_do_not_wait_for_ever() {
    let place = Place::new();
    let lines: String = (0..12_000).fold(String::new(), |mut all, n| {
        let _ = writeln!(all, "{{\"id\":\"m{n}\",\"kind\":\"mail\"}}");
        all
    });
    let (code, out, err) = place.run_with(&["run", "-o", "json"], lines.as_bytes());
    assert_eq!(code, 1, "{err}");
    assert_eq!(summary(&out)["left"], 12_000);
}

#[test]
fn a_task_of_another_batch_is_not_taken() {
    let place = Place::new();
    let (code, _, _) = place.run(&[
        "submit",
        "exec",
        "--id",
        "a",
        "--props",
        "{\"command\":\"true\"}",
    ]);
    assert_eq!(code, 0);
    let line = "{\"id\":\"a\",\"command\":\"true\",\"cwd\":\"/\"}\n";
    let (code, _, err) = place.run_with(&["run"], line.as_bytes());
    assert_eq!(code, 1);
    assert!(
        err.contains("line 1: task 'a' exists already, with another kind"),
        "{err}"
    );
    assert_eq!(place.get("a")["state"], "runnable");
}

/// A worker has its own policy, that of Metafora by default: ten minutes between two attempts.
#[test]
fn a_worker_that_takes_its_lines_follows_the_policy_of_the_tasks() {
    let place = Place::new();
    let worker = place.start(&["worker", "--name", "w", "--slots", "8", "--take-runs"]);
    until("it is there", || {
        place.run(&["nodes", "-o", "json"]).1.contains("\"w\"")
    });
    let lines: String = (0..40).map(|n| format!("{n}\n")).collect();
    place.write("lines", &lines);
    let each = "echo $WINDLASS_STATE_DIR >> starts; sleep 0.05; exit 3";
    let run = place.start(&["run", "--each", each, "--shell", "-j", "1", "lines"]);
    assert_eq!(run.wait(), Some(1));
    assert_eq!(place.list(&["--state", "failed"]).len(), 40);
    assert_eq!(place.read("starts").lines().count(), 40);

    // A given policy also applies to the tasks.
    let retry = r#"{"policy":"exponential","attempts":2,"base":"10ms"}"#;
    let args = [
        "run", "--each", each, "--shell", "-j", "1", "--batch", "b", "--retry", retry, "lines",
    ];
    let run = place.start(&args);
    assert_eq!(run.wait(), Some(1));
    assert_eq!(place.read("starts").lines().count(), 120);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
}
