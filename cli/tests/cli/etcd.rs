//! The command line on a real etcd (the program `etcd` of the PATH, or what `ETCD_BIN` names).
#![cfg(feature = "etcd")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking; helpers of tests are outside of the functions that clippy knows"
)]

#[allow(dead_code, reason = "each test file uses its own part of it")]
#[path = "../../../tests/etcd/server.rs"]
mod server;

use std::{collections::HashMap, thread::sleep, time::Duration};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::live::{Place, Running, until};
use server::Server;

fn json(out: &str) -> Value {
    serde_json::from_str(out.trim()).unwrap()
}

/// Asserts that the program ends with this code, and returns what it printed.
fn ok(place: &Place, args: &[&str], expected: i32) -> String {
    let (code, out, err) = place.run(args);
    assert_eq!(code, expected, "{args:?}: {out}{err}");
    format!("{out}{err}")
}

#[test]
fn every_command_on_one_task() {
    let server = Server::start();
    let place = Place::on(server.url("one"));
    assert!(ok(&place, &["stats"], 0).contains("there are no tasks"));
    assert!(ok(&place, &["nodes"], 0).contains("no node lives"));
    ok(&place, &["get", "nobody"], 3);
    let worker = place.start(&["worker", "--name", "w1", "--slots", "4"]);
    let echo = r#"{"command":"echo","args":["hello"]}"#;
    let out = ok(
        &place,
        &["submit", "exec", "--id", "a", "--props", echo, "--wait"],
        0,
    );
    assert!(out.contains("completed"), "{out}");
    assert_eq!(ok(&place, &["logs", "a"], 0), "hello\n");
    ok(&place, &["submit", "exec", "--id", "a", "--props", echo], 1);

    let sleep = r#"{"command":"sleep","args":["600"]}"#;
    ok(
        &place,
        &["submit", "exec", "--id", "slow", "--props", sleep],
        0,
    );
    until("it runs", || place.get("slow")["node"] == "w1");
    for (args, state) in [
        (&["pause", "slow", "--wait"][..], "paused"),
        (&["resume", "slow", "--wait"], "runnable"),
        (&["release", "slow", "--wait"], "runnable"),
        (&["sleep", "slow", "--for", "1h", "--wait"], "sleeping"),
        (&["complete", "slow", "--wait"], "completed"),
        (&["retry", "slow"], "runnable"),
        (&["kill", "slow", "--wait"], "killed"),
    ] {
        ok(&place, args, 0);
        assert_eq!(place.get("slow")["state"], state, "{args:?}");
    }
    ok(&place, &["kill", "slow"], 1);
    let nodes = json(&ok(&place, &["nodes", "-o", "json"], 0));
    assert_eq!(nodes[0]["name"], "w1");
    assert!(ok(&place, &["node", "drain", "w1", "--wait"], 0).contains("drained"));
    ok(&place, &["node", "freeze", "w9"], 3);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
    until("the node is gone", || {
        json(&ok(&place, &["nodes", "-o", "json"], 0)) == Value::Array(Vec::new())
    });
}

#[test]
fn commands_to_many() {
    let server = Server::start();
    let place = Place::on(server.url("many/deep"));
    let lines: String = (0..40)
        .map(|n| {
            let team = if n % 2 == 0 { "even" } else { "odd" };
            format!("{{\"id\":\"t{n:02}\",\"kind\":\"job\",\"labels\":{{\"team\":\"{team}\"}}}}\n")
        })
        .collect();
    let (code, _, err) = place.run_with(&["submit", "--lines", "-"], lines.as_bytes());
    assert_eq!(code, 0, "{err}");
    let ids = |place: &Place, filters: &[&str]| -> Vec<String> {
        let tasks = place.list(filters);
        let ids = tasks.iter().map(|t| t["id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    let all: Vec<String> = (0..40).map(|n| format!("t{n:02}")).collect();
    assert_eq!(ids(&place, &[]), all, "in submit order");
    let even = ids(&place, &["--label", "team=even"]);
    assert_eq!(even.len(), 20);
    ok(&place, &["delete", "--label", "team=even"], 2);
    let out = ok(&place, &["delete", "--label", "team=even", "--dry-run"], 0);
    assert!(out.contains("20 tasks selected"), "{out}");
    ok(&place, &["delete", "--label", "team=even", "--yes"], 0);
    assert_eq!(ids(&place, &["--label", "team=even"]), [""; 0]);
    let stats = json(&ok(&place, &["stats", "-o", "json"], 0));
    assert_eq!(stats["tasks"], 20);
    let page = ok(&place, &["list", "--limit", "5"], 0);
    assert!(
        page.contains("there are more tasks: the same command with --cursor "),
        "{page}"
    );
}

#[test]
fn what_ended_long_ago_is_purged() {
    let server = Server::start();
    let place = Place::on(server.url("purge"));
    let (code, _, err) = place.run_with(&["run", "--each", "true {}", "-j", "4"], b"1\n2\n3\n");
    assert_eq!(code, 0, "{err}");
    let purge = |more: &[&str]| ok(&place, &[&["purge", "--older-than"], more].concat(), 0);
    assert!(purge(&["1h", "--yes"]).contains("0 tasks: purged"));
    assert!(purge(&["1h"]).contains("no task matches"));
    ok(&place, &["purge", "--older-than", "0s"], 2);
    assert!(purge(&["0s", "--dry-run"]).contains("3 tasks selected"));
    assert!(purge(&["0s", "--state", "failed", "--yes"]).contains("0 tasks: purged"));
    assert!(purge(&["0s", "--yes"]).contains("3 tasks: purged"));
    assert!(place.list(&[]).is_empty());
}

/// As on a file: completed tasks are not run again, interrupted ones are.
#[test]
fn a_run_that_is_killed_goes_on() {
    let server = Server::start();
    let place = Place::on(server.url("run"));
    let lines: String = (0..60).map(|n| format!("line {n}\n")).collect();
    place.write("lines", &lines);
    let each = "echo {} >> starts; sleep 0.05; echo {} >> ends";
    let args = "run --shell -j 3 --lease-ttl 5s lines --each";
    let args: Vec<&str> = args.split(' ').chain([each]).collect();
    let running = place.start(&args);
    place.until_lines("ends", 15);
    running.kill();
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("60 lines: 60 completed, "), "{err}");
    assert!(err.contains("from an earlier run"), "{err}");
    let mut starts = HashMap::<String, usize>::new();
    for line in place.read("starts").lines() {
        *starts.entry(line.to_owned()).or_default() += 1;
    }
    assert_eq!(starts.len(), 60);
    let again: Vec<_> = starts.iter().filter(|(_, n)| **n > 1).collect();
    assert!(
        again.len() <= 3,
        "only what was running is run again: {again:?}"
    );
}

/// While the server is down the commands of a run continue, and their results are printed when it is
/// back. A task of another kind makes the run read all the time whether a node handles it.
#[test]
fn a_run_outlives_a_server_that_is_away() {
    let mut server = Server::start();
    let place = Place::on(server.url("away"));
    let shell = "echo x >> starts; until [ -e go ]; do sleep 0.05; done; echo x >> ends";
    let command = format!("{{\"shell\":\"{shell}\"}}\n");
    let lines: String = (0..8)
        .map(|n| command.replace('x', &n.to_string()))
        .collect();
    place.write("lines", &format!("{{\"kind\":\"mail\"}}\n{lines}"));
    let running = place.start(&["run", "-j", "4", "--lease-ttl", "60s", "lines"]);
    place.until_lines("starts", 4);
    server.kill();
    place.write("go", "");
    place.until_lines("ends", 4);
    // The run must not end, so there is no signal to wait for.
    sleep(Duration::from_secs(3));
    server.restart();
    assert_eq!(running.wait(), Some(1), "one is left");
    assert_eq!(place.read("starts").lines().count(), 8, "none is run again");
    assert_eq!(place.read("ends").lines().count(), 8);
    assert_eq!(place.list(&["--state", "completed"]).len(), 8);
}

/// The next attempt of a command finds its progress, although the process of the first attempt was
/// killed, the store has no file to put the folder next to, and the URL has another form.
#[test]
fn the_folder_of_a_task_outlives_its_process() {
    let server = Server::start();
    let place = Place::on(server.url("folders"));
    let each = "echo x >> \"$WINDLASS_STATE_DIR/seen\"; wc -l < \"$WINDLASS_STATE_DIR/seen\" \
                >> attempts; echo {}; test -e go || sleep 600";
    place.write("lines", "one\n");
    let args = "run --shell --lease-ttl 5s lines --each";
    let args: Vec<&str> = args.split(' ').chain([each]).collect();
    let running = place.start(&args);
    place.until_lines("attempts", 1);
    running.kill();
    place.write("go", "");
    // The same store, with another form of its URL.
    let spelled = format!("{}?compact-after=1h", server.url("folders"));
    ok(&place, &[&args[..], &["--store", &spelled]].concat(), 0);
    let attempts = place.read("attempts");
    let attempts: Vec<&str> = attempts.lines().map(str::trim).collect();
    assert_eq!(attempts, ["1", "2"]);
}

/// Another machine has another data directory. It prints the part that the store keeps, with a
/// note.
#[test]
fn on_another_machine_logs_print_what_the_store_keeps() {
    let server = Server::start();
    let here = Place::on(server.url("logs"));
    let there = Place::on(server.url("logs"));
    let props = r#"{"command":"seq","args":["100000"]}"#;
    ok(&here, &["submit", "exec", "--id", "a", "--props", props], 0);
    ok(&here, &["worker", "--until-idle"], 0);
    let (code, whole, err) = here.run(&["logs", "a"]);
    assert_eq!(
        (code, whole.lines().count(), err.as_str()),
        (0, 100_000, "")
    );
    for args in [&["logs", "a"][..], &["logs", "a", "--follow"]] {
        let (code, out, err) = there.run(args);
        assert_eq!(code, 0, "{err}");
        assert!(whole.ends_with(&out) && !out.is_empty());
        let missing = whole.len() - out.len();
        assert!(
            err.contains("note: this machine has no log of attempt 1"),
            "{err}"
        );
        assert!(
            err.contains(&format!(
                "windlass: {missing} bytes of standard output missing here"
            )),
            "{err}"
        );
    }
}

/// From a file to etcd, in the middle of which the program is killed, and back to another file: the
/// same tasks in the same order, and the worker there continues with them.
#[test]
fn tasks_move_to_a_cluster_and_back() {
    let server = Server::start();
    let place = Place::new();
    let cluster = server.url("moved");
    let lines: String = (0..2000)
        .map(|n| {
            let start = if n % 3 == 0 {
                ",\"start_at\":\"2100-01-01T00:00:00Z\""
            } else {
                ""
            };
            format!("{{\"id\":\"t{n}\",\"kind\":\"job\",\"props\":{{\"n\":{n}}}{start}}}\n")
        })
        .collect();
    let (code, _, err) = place.run_with(&["submit", "--lines", "-"], lines.as_bytes());
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = place.run_with(&["run", "--each", "echo {}", "-j", "4"], b"1\n2\n3\n");
    assert_eq!(code, 0, "{err}");
    for command in ["pause", "kill"] {
        ok(&place, &[command, "t1", "t5", "t99"], 0);
    }
    let copy = ["copy", "--from", "sqlite:s.db", "--to", &cluster];
    let running = place.start(&copy);
    until("some have come", || {
        let stats = ok(&place, &["--store", &cluster, "stats", "-o", "json"], 0);
        json(&stats)["tasks"].as_u64().unwrap() > 0
    });
    running.kill();
    let said = ok(&place, &copy, 0);
    assert!(said.contains("; 2003 compared and the same"), "{said}");
    let back = [
        "copy",
        "--backup",
        "--from",
        &cluster,
        "--to",
        "sqlite:back.db",
    ];
    let said = ok(&place, &back, 0);
    assert!(
        said.contains("2003 tasks: 2003 copied; 2003 compared"),
        "{said}"
    );
    let tasks = |store: &str| {
        let mut tasks = place.list(&["--store", store, "--sort", "submitted"]);
        for task in &mut tasks {
            let task = task.as_object_mut().unwrap();
            task.remove("order");
            // A file keeps microseconds.
            task.remove("submitted_at");
            // It grows from list to list.
            task.remove("late_seconds");
        }
        tasks
    };
    let (before, there, after) = (
        tasks("sqlite:s.db"),
        tasks(&cluster),
        tasks("sqlite:back.db"),
    );
    assert_eq!(before.len(), 2003);
    assert!(before == there, "the list on etcd is that of the file");
    assert!(
        before == after,
        "the list of the second file is that of the first"
    );
    // The names of batches and lines are the same there: no line runs again.
    let run = ["run", "--store", &cluster, "--each", "echo {}", "-j", "4"];
    let (code, _, err) = place.run_with(&run, b"1\n2\n3\n");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("3 from an earlier run"), "{err}");
}

#[test]
fn what_cannot_be_reached_is_named() {
    let place = Place::on("etcd://127.0.0.1:1/x".to_owned());
    let said = ok(&place, &["stats"], 4);
    let says = "http://127.0.0.1:1: Connection refused: no server listens there; start etcd, or check host and port";
    assert!(said.contains(says) && !said.contains("transport"), "{said}");
    let place = Place::on("etcd://127.0.0.1:1".to_owned());
    let said = ok(&place, &["stats"], 2);
    assert!(said.contains("write etcd://HOST:PORT"), "{said}");
    assert!(!said.contains("sqlite:jobs.db"), "{said}");
}

/// Services that start together need not start in order.
#[test]
fn a_worker_that_starts_before_its_store_waits_for_it() {
    let mut server = Server::start();
    let place = Place::on(server.url("late"));
    ok(
        &place,
        &[
            "submit",
            "exec",
            "--id",
            "a",
            "--props",
            r#"{"command":"true"}"#,
        ],
        0,
    );
    server.kill();
    ok(&place, &["stats"], 4);
    let log = std::fs::File::create(place.path("log")).unwrap();
    let mut worker = place.windlass(&["worker", "--until-idle"]);
    let worker = Running::of(worker.stderr(log).spawn().unwrap());
    until("the worker waits", || {
        place.read("log").contains("; trying again for")
    });
    server.restart();
    assert_eq!(worker.wait(), Some(0));
    assert_eq!(place.get("a")["state"], "completed");
}
