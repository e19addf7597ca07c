//! Lines of a run beside workers on the same store, and those that an older version stored like other commands.

use std::process::Stdio;

use serde_json::{Value, json};

use super::summary;
use crate::live::{Place, Running, until};

/// Starts a worker whose commands know that it is one.
fn worker(place: &Place, more: &[&str]) -> Running {
    let mut worker = place.windlass(&[&["worker", "--name", "w", "--slots", "8"], more].concat());
    worker.env("WHO", "worker");
    worker.stdout(Stdio::null()).stderr(Stdio::null());
    let worker = Running::of(worker.spawn().unwrap());
    until("the worker is there", || {
        place.run(&["nodes", "-o", "json"]).1.contains("\"w\"")
    });
    worker
}

/// Regression: both have the same default store, and the worker ran most of the lines, with its environment, folder, slots
/// and grace.
#[test]
fn a_worker_beside_a_run_takes_its_lines_only_with_take_runs() {
    let place = Place::new();
    let beside = worker(&place, &[]);
    let lines: String = (0..10).map(|n| format!("{n}\n")).collect();
    place.write("lines", &lines);
    let each = "echo ${WHO:-run} >> who; [ {} != 5 ] || sleep 0.1";
    let call = ["run", "--each", each, "--shell", "--batch", "b", "lines"];
    let (code, _, err) = place.run(&call);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("who"), "run\n".repeat(10));
    assert!(place.list(&["--kind", "exec"]).is_empty());

    // What another run has left waits for a run, and says so.
    let stop = "echo ${WHO:-run} >> who; [ -e go ] || kill -TERM $PPID; sleep 0.01";
    let call = [
        "run", "--each", stop, "--shell", "-j", "1", "--batch", "c d", "lines",
    ];
    let (code, _, err) = place.run(&call);
    assert_eq!(code, 130, "{err}");
    let left = place.list(&["--kind", "exec/run", "--state", "runnable"]);
    assert!(!left.is_empty(), "{err}");
    let id = left[0]["id"].as_str().unwrap();
    let (code, why, err) = place.run(&["why", id]);
    assert_eq!(code, 0, "{err}");
    for says in [
        "windlass run --batch 'c d'",
        "windlass worker --take-runs --until-idle --select batch='c d'",
    ] {
        assert!(why.contains(says), "{why}");
    }
    let (_, why, err) = place.run(&["why"]);
    assert!(why.contains("try: windlass worker --take-runs\n"), "{why}");
    assert!(err.contains("the same run again"), "{err}");
    let (_, list, _) = place.run(&["list", "--kind", "exec/run", "--state", "runnable"]);
    assert!(list.contains("windlass run"), "{list}");
    beside.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(beside.wait(), Some(0));
    assert!(!place.read("who").contains("worker"));

    let mut taking = place.windlass(&["worker", "--take-runs", "--until-idle"]);
    place.write("go", "");
    taking.args(["--select", "batch=c d"]).env("WHO", "worker");
    let taken = taking.output().unwrap();
    assert!(taken.status.success(), "{taken:?}");
    assert!(place.read("who").contains("worker"));
    let (code, out, err) = place.run(&[&call[..], &["-o", "json"]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!(summary(&out)["from_earlier_run"], 10, "{out}");
}

#[test]
fn a_repeated_run_continues_the_lines_that_an_older_version_stored_as_exec() {
    let place = Place::new();
    let cwd = place.path(".").canonicalize().unwrap();
    let shell = |id: &str| match id {
        "failed" => "[ -e go ] && echo ${WHO:-run} >> who",
        _ => "echo ${WHO:-run} >> who",
    };
    let old = |id: &str| {
        let props = json!({"shell": shell(id), "cwd": cwd}).to_string();
        let label = ["--label", "batch=b", "--retry", "abandoned"];
        let submit = ["submit", "exec", "--id", id, "--props", &props];
        let (code, _, err) = place.run(&[&submit[..], &label].concat());
        assert_eq!(code, 0, "{err}");
    };
    for id in ["done", "failed"] {
        old(id);
    }
    assert_eq!(place.run(&["worker", "--until-idle"]).0, 0);
    old("live");
    let line = |id: &str| json!({"id": id, "shell": shell(id)}).to_string();
    let as_exec = json!({"id": "named", "kind": "exec", "props": {"shell": shell("named")}});
    let lines = [
        line("done"),
        line("failed"),
        line("live"),
        as_exec.to_string(),
    ];
    place.write("lines", &lines.join("\n"));
    let run = |options: &[&str]| -> Value {
        let call = ["run", "--batch", "b", "-o", "json", "lines"];
        let (code, out, err) = place.run(&[&call[..], options].concat());
        assert!(code <= 1, "{err}");
        summary(&out)
    };
    let first = run(&[]);
    let counts = |of: &Value| {
        ["completed", "from_earlier_run", "failed", "wrong", "left"].map(|n| of[n].as_u64())
    };
    assert_eq!(counts(&first), [3, 1, 1, 0, 0].map(Some), "{first}");
    for id in ["live", "named"] {
        assert_eq!(place.get(id)["kind"], "exec/run", "{id}");
    }
    place.write("go", "");
    let again = run(&["--retry-failed"]);
    assert_eq!(counts(&again), [4, 3, 0, 0, 0].map(Some), "{again}");
    let failed = place.get("failed");
    assert_eq!(
        failed["incarnation"], 1,
        "it is retried, not replaced: {failed}"
    );
    assert_eq!(place.read("who").lines().count(), 4);
    let all = run(&["--again"]);
    assert_eq!(counts(&all), [4, 0, 0, 0, 0].map(Some), "{all}");
    assert!(place.list(&["--kind", "exec"]).is_empty());
}

/// The id of such a line is derived of its work; its options may be others.
#[test]
fn a_repeated_run_continues_lines_of_each_that_an_older_version_stored_as_exec() {
    let place = Place::new();
    let call = [
        "run", "--batch", "b", "--each", "true {}", "-o", "json", "-",
    ];
    let run = |more: &[&str]| {
        let (code, out, err) = place.run_with(&[&call[..], more].concat(), b"a\n");
        assert_eq!(code, 0, "{err}");
        summary(&out)
    };
    run(&[]);
    let first = place.list(&[]).remove(0);
    let id = first["id"].as_str().unwrap();
    let old = |more: &[&str]| {
        assert_eq!(place.run(&["delete", id]).0, 0);
        let props = first["props"].to_string();
        let call = [
            "submit", "exec", "--id", id, "--props", &props, "--label", "batch=b",
        ];
        let (code, _, err) = place.run(&call);
        assert_eq!(code, 0, "{err}");
        let ran = run(more);
        assert_eq!(
            (&ran["completed"], &ran["wrong"]),
            (&json!(1), &json!(0)),
            "{ran}"
        );
        assert_eq!(place.get(id)["kind"], "exec/run", "{more:?}");
    };
    old(&[]);
    old(&["--timeout", "1m"]);
}

/// Regression: a run gave every live command with the label of its batch the kind of lines, before it read a line: no worker
/// took them any more, and the run did not run them.
#[test]
fn a_run_leaves_commands_that_no_line_names_to_the_workers() {
    let place = Place::new();
    let cwd = place.path(".").canonicalize().unwrap();
    let by = "echo $0 ${WHO:-run} >> who";
    let submit = |id: &str, more: &[&str]| {
        let props = json!({"shell": by, "args": ["x"], "cwd": cwd}).to_string();
        let call = [
            "submit", "exec", "--id", id, "--props", &props, "--label", "batch=b",
        ];
        let (code, _, err) = place.run(&[&call[..], more].concat());
        assert_eq!(code, 0, "{err}");
    };
    submit("own", &[]);
    submit("later", &["--in", "1h"]);
    submit("same", &["--in", "1h"]);
    submit("other", &["--in", "1h"]);
    let same = json!({"id": "same", "shell": by, "args": ["x"]});
    let other = json!({"id": "other", "shell": "false"});
    // This line ends when the worker has run the command beside it.
    let wait =
        json!({"id": "wait", "shell": "until [ -s who ]; do sleep 0.05; done", "timeout": "50s"});
    place.write("lines", &format!("{same}\n{other}\n{wait}\n"));
    let call = ["run", "--batch", "b", "--keep-going", "-o", "json", "lines"];
    let run = place.start(&call);
    until("the run has taken up its own", || {
        place.get("same")["kind"] == "exec/run"
    });
    for id in ["own", "later", "other"] {
        assert_eq!(place.get(id)["kind"], "exec", "{id}");
    }
    let beside = worker(&place, &[]);
    until("the worker has run it", || {
        place.get("own")["state"] == "completed"
    });
    assert!(
        place.read("who").contains("worker"),
        "{}",
        place.read("who")
    );
    until("the line has ended", || {
        place.get("wait")["state"] == "completed"
    });
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(run.wait(), Some(130));
    beside.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(beside.wait(), Some(0));
    for id in ["later", "other"] {
        assert_eq!(place.get(id)["kind"], "exec", "{id}");
    }
    // Commands of others are not left out of the input.
    let place = Place::new();
    let call = ["submit", "--label", "batch=b", "--id", "own", "--", "true"];
    assert_eq!(place.run(&call).0, 0);
    let (code, out, err) = place.run_with(
        &["run", "--batch", "b", "-o", "json", "--each", "echo", "-"],
        b"a\n",
    );
    assert_eq!(code, 0, "{err}");
    assert_eq!(summary(&out)["left_out"], 0, "{out}");
    assert_eq!(place.get("own")["kind"], "exec");
}

/// Regression: such a line was refused as other work, because its kind is not that of the command.
#[test]
fn a_line_that_equals_an_earlier_one_is_the_same_command_of_a_worker() {
    let place = Place::new();
    let cwd = place.path(".").canonicalize().unwrap();
    let shell = "echo > began; until [ -e go ]; do sleep 0.05; done";
    let props = json!({"shell": shell, "cwd": cwd}).to_string();
    let call = [
        "submit", "exec", "--id", "t", "--props", &props, "--label", "batch=b",
    ];
    assert_eq!(place.run(&call).0, 0);
    let beside = worker(&place, &[]);
    until("the worker runs it", || !place.read("began").is_empty());
    let line = json!({"id": "t", "shell": shell}).to_string();
    // More lines than are submitted at a time.
    let others = json!({"id": "other", "command": "true"}).to_string() + "\n";
    let go = json!({"id": "go", "command": "touch", "args": ["go"]});
    place.write(
        "lines",
        &format!("{line}\n{}{line}\n{go}\n", others.repeat(300)),
    );
    let (code, out, err) = place.run(&["run", "--batch", "b", "-o", "json", "lines"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(summary(&out)["completed"], 303, "{out}");
    assert_eq!(place.get("t")["kind"], "exec");
    beside.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(beside.wait(), Some(0));
}
