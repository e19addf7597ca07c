//! Lines of a run beside workers on the same store, and those that an older version stored like other commands.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::{
    live::{Place, Running, until},
    summary,
};

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
