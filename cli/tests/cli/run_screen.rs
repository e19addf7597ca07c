//! The messages of `windlass run` while it works and stops, and its output streams.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::{
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStrExt,
    process::Stdio,
};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::live::{Place, Running, until};

/// Starts it with standard error in the file `err`.
fn start(place: &Place, args: &[&str]) -> Running {
    let mut command = place.windlass(args);
    let err = File::create(place.path("err")).unwrap();
    command.stdout(Stdio::null()).stderr(err);
    Running::of(command.spawn().unwrap())
}

/// Starts it with a terminal as standard error; answers what the terminal shows, as it comes.
fn start_on_terminal(place: &Place, args: &[&str]) -> (Running, impl FnMut(&str)) {
    let size = nix::pty::Winsize {
        ws_row: 24,
        ws_col: 200,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = nix::pty::openpty(Some(&size), None).unwrap();
    let mut command = place.windlass(args);
    command
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(pty.slave);
    let running = Running::of(command.spawn().unwrap());
    drop(command);
    let mut master = File::from(pty.master);
    let mut shown = String::new();
    let until_shown = move |text: &str| {
        let mut bytes = [0; 4096];
        while !shown.contains(text) {
            let n = master.read(&mut bytes).unwrap_or_default();
            assert!(n > 0, "{text}: not in {shown}");
            shown.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    };
    (running, until_shown)
}

#[test]
fn after_an_interrupt_it_says_what_it_waits_for() {
    let place = Place::new();
    let script =
        "trap 'touch asked' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.05; done";
    let line = json!({"id": "stubborn", "shell": script, "grace": "9m"});
    place.write("lines", &format!("{line}\n"));
    let (run, mut until_shown) = start_on_terminal(&place, &["run", "lines", "--grace", "10m"]);
    place.pids("pid");
    run.signal(Signal::SIGINT);
    until_shown(
        "SIGINT: stopping; waiting for 1 command to end: stubborn; what still runs in 8m 59s is killed; \
         ctrl-c again kills the commands at once",
    );
    until("it was asked to end", || place.path("asked").exists());
    run.signal(Signal::SIGINT);
    until_shown("SIGINT: killing the commands");
    until_shown("1 line: 0 completed, 1 left for another run");
    assert_eq!(run.wait(), Some(130));
}

/// Another program blocks every write, as a full disk does.
#[test]
fn a_store_that_takes_no_writes_is_waited_for_in_one_line() {
    let place = Place::new();
    place.write("lines", "1\n2\n");
    let command = "touch ran-{}; while [ ! -e go ]; do sleep 0.02; done";
    let args = [
        "run",
        "--each",
        command,
        "--shell",
        "-j",
        "1",
        "--lease-ttl",
        "3s",
        "lines",
    ];
    let (run, mut until_shown) = start_on_terminal(&place, &args);
    until("one runs", || place.path("ran-1").exists());
    let other = rusqlite::Connection::open(place.path("s.db")).unwrap();
    other
        .busy_timeout(std::time::Duration::from_secs(20))
        .unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    until_shown("the store accepts no writes: waiting; is there room on the disk of /");
    other.execute_batch("COMMIT").unwrap();
    until_shown("the store works again after ");
    place.write("go", "");
    until_shown("2 lines: 2 completed");
    assert_eq!(run.wait(), Some(0));
}

/// Regression: with a renewed lease the run waited for ever, and only a second signal ended it.
#[test]
fn one_signal_ends_a_run_whose_results_cannot_be_stored() {
    let place = Place::new();
    place.write("lines", "1\n");
    let command = "touch ran-{}; while [ ! -e go ]; do sleep 0.02; done";
    // The lease outlives the test.
    let args = [
        "run",
        "--each",
        command,
        "--shell",
        "--lease-ttl",
        "10m",
        "--grace",
        "2s",
        "lines",
    ];
    let run = start(&place, &args);
    until("its command runs", || place.path("ran-1").exists());
    let other = rusqlite::Connection::open(place.path("s.db")).unwrap();
    other
        .busy_timeout(std::time::Duration::from_secs(20))
        .unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    place.write("go", "");
    let says = |text: &str| place.read("err").contains(text);
    until("it says that the store accepts no writes", || {
        says("the store does not answer: waiting (could not commit")
    });
    run.signal(Signal::SIGTERM);
    until("it ends", || says("1 left for another run"));
    assert_eq!(run.wait(), Some(130));
    let err = place.read("err");
    let given_up = ": 1 end could not be stored; its command runs again";
    assert_eq!(err.matches(given_up).count(), 1, "{err}");
    assert!(!err.contains("waiting for 1 command to end"), "{err}");
    assert!(!err.contains("works again"), "{err}");
    other.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn a_name_that_is_no_text_reaches_the_command_byte_for_byte() {
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9 5%");
    fs::write(place.path("").join(name), "content").unwrap();
    let input = b"caf\xe9 5%\0plain\0";
    let args = [
        "run",
        "-0",
        "--each",
        "sh -c 'printf %s \"$1\" >> names; cat \"$1\"' sh {}",
        "--print-output",
    ];
    place.write("plain", " and more");
    let (code, out, err) = place.run_with(&[&args[..], &["-j", "1"]].concat(), input);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, "content and more");
    assert_eq!(fs::read(place.path("names")).unwrap(), b"caf\xe9 5%plain");
    let tasks = place.list(&[]);
    let props = tasks.iter().map(|task| task["props"].to_string());
    let named: Vec<String> = props
        .filter(|p| p.contains(r#"{"percent":"caf%E9 5%25"}"#))
        .collect();
    assert_eq!(named.len(), 1, "{tasks:?}");

    // Its file is its input, and its identity stays.
    let (_, _, err) = place.run_with(&args, input);
    assert!(err.contains("2 from an earlier run"), "{err}");
    fs::write(place.path("").join(name), "changed!").unwrap();
    let (_, out, err) = place.run_with(&args, input);
    assert!(
        out.contains("changed!") && err.contains("1 from an earlier run"),
        "{err}"
    );

    let args = ["run", "-0", "--each", "cat {}", "--shell", "--print-output"];
    let (code, out, err) = place.run_with(&args, b"caf\xe9 5%\0");
    assert_eq!((code, out.as_str()), (0, "changed!"), "{err}");
}

#[test]
fn the_number_of_jobs_is_at_least_one() {
    let place = Place::new();
    let (code, _, err) = place.run(&["run", "--each", "true", "-j", "0"]);
    assert_eq!(code, 2);
    assert!(err.contains("'0' for '--jobs <N>'"), "{err}");
}

#[test]
fn a_killed_command_says_so() {
    let place = Place::new();
    let lines = "kill -9 $$\nsh -c 'kill -9 $$'; exit $?\n";
    let args = ["run", "--each", "eval {}", "--shell"];
    let (code, _, err) = place.run_with(&args, lines.as_bytes());
    assert_eq!(code, 1);
    assert!(
        err.contains("failed: ended by signal 9 (SIGKILL; by the kernel when memory runs out"),
        "{err}"
    );
    assert!(
        err.contains("failed: exit code 137: a command in it was ended by signal 9 (SIGKILL"),
        "{err}"
    );
}

#[test]
fn output_that_cannot_be_written_is_kept_and_ends_with_4() {
    let place = Place::new();
    let args = ["run", "--each", "echo", "--print-output"];
    let on = |to: Stdio, more: &[&str]| {
        fs::write(place.path("stdin"), "a\nb\n").unwrap();
        let mut command = place.windlass(&[&args[..], more].concat());
        command
            .stdin(File::open(place.path("stdin")).unwrap())
            .stdout(to);
        let output = command
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let (code, err) = on(full(), &[]);
    assert_eq!(code, Some(4), "{err}");
    assert!(err.contains("No space left on device"), "{err}");
    assert!(err.contains("2 lines: 2 completed"), "{err}");
    assert!(
        err.contains("the output of 2 tasks could not be written; `windlass logs ID`"),
        "{err}"
    );
    let (code, err) = on(full(), &["-o", "json"]);
    assert_eq!(code, Some(4), "{err}");

    // The reader closes the pipe.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (code, err) = on(Stdio::from(writer), &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("2 from an earlier run"), "{err}");

    let (code, out, _) = place.run_with(&args, b"a\nb\n");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["a", "b"]));
}

/// Without a terminal a line reports the progress at intervals.
#[test]
fn progress_counts_what_runs_and_what_waits() {
    let place = Place::new();
    place.write("lines", "1\n2\n3\n");
    let command = "while [ ! -e go ]; do sleep 0.05; done; : {}";
    let run = start(
        &place,
        &["run", "--each", command, "--shell", "-j", "1", "lines"],
    );
    until("a line says how far it is", || {
        place.read("err").contains("lines done")
    });
    let err = place.read("err");
    assert!(
        err.contains("0 of 3 lines done, 1 running, 2 waiting"),
        "{err}"
    );
    place.write("go", "");
    assert_eq!(run.wait(), Some(0));
}
