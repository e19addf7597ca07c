//! Faults of the machine: no attempt of a task, one line in the log, and the node continues.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    fs,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    process::Stdio,
};

use crate::live::{Place, Running, until};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Starts a worker, or another command, whose log is kept.
fn start(place: &Place, args: &[&str]) -> Running {
    let log = fs::File::create(place.path("log")).unwrap();
    let mut command = place.windlass(args);
    command.stdout(Stdio::null()).stderr(log);
    Running::of(command.spawn().unwrap())
}

/// Starts a worker and waits until it works.
fn worker(place: &Place) -> Running {
    let worker = start(place, &["worker"]);
    until_logged(place, "working");
    worker
}

fn until_logged(place: &Place, text: &str) {
    until(text, || place.read("log").contains(text));
}

/// The lines of the log with this text.
fn lines(place: &Place, text: &str) -> usize {
    place
        .read("log")
        .lines()
        .filter(|l| l.contains(text))
        .count()
}

fn submit(place: &Place, id: &str, program: &str) {
    let props = serde_json::json!({ "command": program }).to_string();
    let (code, _, err) = place.run(&["submit", "exec", "--id", id, "--props", &props]);
    assert_eq!(code, 0, "{err}");
}

/// Limits the file descriptors of a process; open ones stay open.
fn limit_files(pid: i32, files: Option<u64>) {
    let pid = Pid::from_raw(pid).unwrap();
    let before = prlimit(
        Some(pid),
        Resource::Nofile,
        Rlimit {
            current: files,
            maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
        },
    );
    before.unwrap();
}

/// Asserts that a task has no attempt and no error: only the machine was at fault.
fn has_no_attempt(place: &Place, id: &str) {
    let task = place.get(id);
    assert_eq!(task["attempts"], 0, "{task}");
    assert_eq!(task["errors_total"], 0, "{task}");
}

#[test]
fn file_descriptors_that_run_out_are_no_attempt_and_the_node_goes_on() {
    let place = Place::new();
    let worker = worker(&place);
    // The node has opened every file of its own when it has run a task.
    submit(&place, "first", "true");
    until("the first completes", || {
        place.get("first")["state"] == "completed"
    });
    limit_files(worker.worker(), Some(3));
    for id in ["a", "b", "c"] {
        submit(&place, id, "true");
    }
    let fault = "no file descriptors left (EMFILE); raise the limit with ulimit -n";
    until_logged(&place, fault);
    until("the tasks are released", || {
        ["a", "b", "c"].iter().all(|id| {
            let task = place.get(id);
            task["state"] == "runnable" && task["node"].is_null()
        })
    });
    assert_eq!(lines(&place, fault), 1, "{}", place.read("log"));
    assert_eq!(lines(&place, "trying again in"), 1);
    // Every client sees the fault, not only the reader of the log.
    let reported = |command: &str| place.run(&[command]).1;
    until("the node reports it", || {
        reported("nodes").contains("no file descriptors left")
    });
    let nodes = reported("nodes");
    assert!(nodes.contains("faulty"), "{nodes}");
    assert!(nodes.contains(" cannot run exec: "), "{nodes}");
    assert!(nodes.contains("tries again "), "{nodes}");
    let (_, json, _) = place.run(&["nodes", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let fault = &json[0]["faults"][0];
    assert_eq!(fault["kind"], "exec", "{json}");
    assert!(fault["since"].is_string() && fault["next_try"].is_string());
    let (code, doctor, _) = place.run(&["doctor", "--strict"]);
    assert!(doctor.contains("1 faults of the machines"), "{doctor}");
    assert_eq!(code, 1);
    limit_files(worker.worker(), Some(512));
    for id in ["a", "b", "c"] {
        until("it completes", || place.get(id)["state"] == "completed");
        has_no_attempt(&place, id);
    }
    until_logged(&place, "the machine runs tasks again, after");
    until("the fault is over", || {
        !reported("nodes").contains("faulty")
    });
    assert_eq!(lines(&place, "attempt 1 failed"), 0);
}

#[test]
fn a_folder_that_cannot_be_made_is_no_attempt() {
    let place = Place::new();
    let _worker = worker(&place);
    // Replaces the folder of the store's tasks by a file.
    let above = place.path("s.db.tasks");
    let root = fs::read_dir(&above)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::remove_dir(&root).unwrap();
    fs::write(&root, "").unwrap();
    submit(&place, "t", "true");
    until_logged(&place, "could not write '");
    has_no_attempt(&place, "t");
    fs::remove_file(&root).unwrap();
    until("it completes", || place.get("t")["state"] == "completed");
    has_no_attempt(&place, "t");
}

#[test]
fn a_command_waits_for_a_program_that_is_being_replaced() {
    let place = Place::new();
    let _worker = worker(&place);
    let program = place.path("program");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let writing = fs::OpenOptions::new().write(true).open(&program).unwrap();
    submit(&place, "t", program.to_str().unwrap());
    until("it is claimed", || !place.get("t")["node"].is_null());
    // Another command runs in the meantime.
    submit(&place, "other", "true");
    until("it completes", || {
        place.get("other")["state"] == "completed"
    });
    assert_eq!(place.get("t")["state"], "runnable");
    drop(writing);
    until("it completes", || place.get("t")["state"] == "completed");
    has_no_attempt(&place, "t");
    assert_eq!(place.get("t")["claims"], 1);
}

#[test]
fn a_program_that_is_missing_or_may_not_be_run_is_the_tasks_own_fault() {
    let place = Place::new();
    let _worker = worker(&place);
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(place.path("not-executable")).unwrap();
    for (id, program) in [("typo", "no-such-program"), ("mode", "./not-executable")] {
        let props = serde_json::json!({"command": program, "cwd": place.path("")}).to_string();
        let submit = ["submit", "exec", "--id", id, "--props", &props];
        let (code, _, err) = place.run(&[&submit[..], &["--retry", "never"]].concat());
        assert_eq!(code, 0, "{err}");
        until("it fails", || place.get(id)["state"] == "failed");
        assert_eq!(place.get(id)["attempts"], 1);
    }
}

#[test]
fn run_says_that_the_machine_has_a_fault() {
    let place = Place::new();
    place.write("lines", "1\n2\n3\n");
    let command = "test {} = 1 && touch begun && until test -e end; do sleep 0.01; done; true";
    let args = ["run", "--shell", "-j", "1", "lines", "--each", command];
    let run = start(&place, &args);
    until("it runs", || place.path("begun").exists());
    limit_files(run.worker(), Some(3));
    place.write("end", "");
    until_logged(&place, "no file descriptors left (EMFILE)");
    limit_files(run.worker(), Some(512));
    until_logged(&place, "the machine runs tasks again");
    assert_eq!(run.wait(), Some(0), "{}", place.read("log"));
}

#[test]
fn run_says_at_once_what_it_waits_for() {
    let place = Place::new();
    place.write("lines", "1\n");
    assert_eq!(place.run(&["submit", "k"]).0, 0);
    // Another program holds the file, for longer than a call waits.
    let lock = rusqlite::Connection::open(place.path("s.db")).unwrap();
    lock.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        .unwrap();
    let run = start(&place, &["run", "lines", "--each", "true"]);
    until_logged(&place, "trying again for 60 s");
    assert_eq!(lines(&place, "keeps a transaction open"), 1);
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);
    assert_eq!(run.wait(), Some(0), "{}", place.read("log"));
}

/// Regression: the signal of a write past the limit ended the program silently, even after an acknowledged
/// submit.
#[test]
fn a_limit_of_the_size_of_files_is_an_error_and_no_submit_before_it_looks_failed() {
    let place = Place::new();
    let props = format!("\"{}\"", "x".repeat(60_000));
    place.write("props", &props);
    let (mut stored, mut failed) = (0, 0);
    for n in 0..10 {
        let program = place.windlass(&[]);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -f 700 && exec \"$@\"", "sh"]);
        command.arg(program.get_program());
        command.args(["submit", "k", "--id", &format!("t{n}")]);
        command.args(["--props", "@props"]);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.current_dir(place.path("")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => stored += 1,
            Some(4) => {
                failed += 1;
                assert!(error.contains("limit of the size of files"), "{error}");
            }
            code => panic!("{code:?}: {error}"),
        }
    }
    assert!(stored > 0 && failed > 0, "{stored} stored, {failed} failed");
    let (_, stats, _) = place.run(&["stats", "-o", "json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["tasks"], stored, "{stats}");
}

/// A worker on a file that had lost an index tried again for ever, without a word about what to do.
#[test]
fn a_worker_on_a_file_that_loses_an_index_names_the_remedy() {
    let place = Place::new();
    let _worker = worker(&place);
    // With its first list it has used the index; without it, it would not look for it before a program writes the inbox.
    until_logged(&place, "listed");
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let drop_index = "DROP INDEX windlass_inbox_waiting";
    file.execute_batch(drop_index).unwrap();
    submit(&place, "first", "true");
    until_logged(&place, "windlass doctor --repair");
}
