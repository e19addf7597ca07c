//! The output of commands, as `logs` prints it: complete, immediate, of each attempt, and within a
//! limit.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::live::{
    Place, Running,
    printed::{Printed, files, is_seq, of_store, piped, seq, size},
    until,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

fn submit(place: &Place, id: &str, script: &str) {
    let props = json!({"shell": script, "cwd": place.path(""), "grace": "100ms"}).to_string();
    let (code, _, err) = place.run(&["submit", "exec", "--id", id, "--props", &props]);
    assert_eq!(code, 0, "{err}");
}

fn work(place: &Place, more: &[&str]) -> String {
    let args = [&["worker", "--until-idle", "--retry", "never"], more].concat();
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    err
}

/// Standard output and standard error of `logs`, which has to succeed.
fn logs(place: &Place, args: &[&str]) -> (String, String) {
    let (code, out, err) = place.run(&[&["logs"], args].concat());
    assert_eq!(code, 0, "{err}");
    (out, err)
}

/// Prints each of 60,000 lines once, although the store keeps far fewer.
#[test]
fn following_prints_every_line_once_and_at_once() {
    let place = Place::new();
    let script = "for n in 0 1 2 3 4 5; do seq $((n * 10000 + 1)) $((n * 10000 + 10000)); sleep 0.4; done; \
                  until [ -e go ]; do sleep 0.02; done; echo last";
    submit(&place, "t", script);
    let mut follow = piped(&place, &["logs", "t", "--follow"]);
    let worker = place.start(&["worker"]);
    let printed = Printed::by(&mut follow);
    // The command waits until its lines were seen, so they are printed while it runs.
    is_seq(&printed.lines(60_000), 1, 60_000);
    place.write("go", "");
    assert!(printed.lines(60_001).ends_with("60000\nlast\n"));
    assert_eq!(Running::of(follow).wait(), Some(0));
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
    is_seq(&logs(&place, &["t"]).0.replace("last\n", ""), 1, 60_000);
}

#[test]
fn following_goes_on_with_the_next_attempts() {
    let place = Place::new();
    let script = "echo attempt $WINDLASS_ATTEMPT; [ $WINDLASS_ATTEMPT = 3 ]";
    submit(&place, "t", script);
    let follow = piped(&place, &["logs", "t", "--follow"]);
    let policy = r#"{"policy":"exponential","attempts":5,"base":"50ms"}"#;
    let (code, _, err) = place.run(&["worker", "--until-idle", "--retry", policy]);
    assert_eq!(code, 0, "{err}");
    let output = follow.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "attempt 1\nattempt 2\nattempt 3\n"
    );
}

#[test]
fn every_attempt_has_its_log() {
    let place = Place::new();
    let script = "echo $WINDLASS_INCARNATION.$WINDLASS_ATTEMPT; echo no >&2; exit 1";
    submit(&place, "t", script);
    let policy = r#"{"policy":"exponential","attempts":2,"base":"10ms"}"#;
    for _ in 0..2 {
        let (code, _, err) = place.run(&["worker", "--until-idle", "--retry", policy]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(place.get("t")["state"], "failed");
        assert_eq!(place.run(&["retry", "t"]).0, 0);
    }
    for (args, out) in [
        (&[][..], "1.2\n"),
        (&["--attempt", "1"], "1.1\n"),
        (&["--incarnation", "0"], "0.2\n"),
        (&["--incarnation", "0", "--attempt", "1"], "0.1\n"),
        (&["--attempt", "1", "--stream", "stderr"], ""),
    ] {
        let printed = logs(&place, &[&["t"], args].concat());
        let err = if args.contains(&"stderr") || out.len() > 1 {
            "no\n"
        } else {
            ""
        };
        assert_eq!(printed, (out.to_owned(), err.to_owned()), "{args:?}");
    }
    assert_eq!(logs(&place, &["t", "--stream", "stdout"]).1, "");
    let (code, _, err) = place.run(&["logs", "t", "--attempt", "7"]);
    assert_eq!(code, 3);
    assert!(
        err.contains("attempts with a log on this machine: 1 of incarnation 0, 2 of"),
        "{err}"
    );

    let (timed, _) = logs(&place, &["t", "--timestamps"]);
    let (time, text) = timed.split_once(' ').unwrap();
    assert_eq!(text, "1.2\n");
    assert!(
        time.starts_with("20") && time.ends_with('Z') && time.len() == 24,
        "{time}"
    );
    let (document, _) = logs(&place, &["t", "-o", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["stdout"], "1.2\n");
    assert_eq!(
        (&document["attempt"], &document["incarnation"]),
        (&json!(2), &json!(1))
    );
}

/// A task that is sent to sleep for a moment keeps its claim, and its attempt.
#[test]
fn an_attempt_that_is_interrupted_has_all_of_its_output() {
    let place = Place::new();
    let script = "echo run; if [ -e again ]; then exit; fi; touch again; sleep 600";
    submit(&place, "t", script);
    let worker = place.start(&["worker"]);
    until("it runs", || place.path("again").exists());
    until("it is read", || logs(&place, &["t"]).0 == "run\n");
    let mut follow = piped(&place, &["logs", "t", "--follow"]);
    let followed = Printed::by(&mut follow);
    assert_eq!(followed.lines(1), "run\n");
    let (code, _, err) = place.run(&["sleep", "t", "--for", "100ms"]);
    assert_eq!(code, 0, "{err}");
    until("it ends", || place.get("t")["state"] == "completed");
    assert_eq!(logs(&place, &["t"]).0, "run\nrun\n");
    assert_eq!(followed.lines(2), "run\nrun\n");
    assert_eq!(Running::of(follow).wait(), Some(0));
    assert_eq!(place.get("t")["result"]["run"]["attempt"], 1);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
}

#[test]
fn a_limit_drops_the_oldest_and_logs_say_how_much() {
    let place = Place::new();
    submit(&place, "t", "seq 100000");
    work(&place, &["--log-limit", "64KiB"]);
    let (out, err) = logs(&place, &["t"]);
    let missing = seq(1, 100_000).len() - out.len();
    assert!(seq(1, 100_000).ends_with(&out) && out.len() > 32 << 10);
    assert_eq!(
        err,
        format!("windlass: {missing} bytes of standard output missing here\n")
    );
    let task = files(&of_store(&place)).remove(0);
    assert!(size(&task) <= 64 << 10, "{}", size(&task));
    let result = &place.get("t")["result"];
    assert_eq!(result["stdout_bytes"], json!(seq(1, 100_000).len()));
    assert_eq!(
        (&result["stderr_bytes"], &result["truncated"]),
        (&json!(0), &json!(true))
    );

    for (limit, says) in [
        ("1k", "a log takes at least 64KiB"),
        ("much", "write it like"),
    ] {
        let (code, _, err) = place.run(&["worker", "--log-limit", limit]);
        assert!(code == 2 && err.contains(says), "{err}");
    }
}

#[test]
fn without_a_log_there_is_what_the_store_keeps_and_it_is_said() {
    let place = Place::new();
    submit(&place, "long", "seq 100000");
    submit(&place, "short", "echo short");
    work(&place, &["--log-limit", "0"]);
    assert!(!place.path("s.db.logs").exists());
    let (out, err) = logs(&place, &["long"]);
    let missing = seq(1, 100_000).len() - out.len();
    assert!(seq(1, 100_000).ends_with(&out) && missing > 0);
    assert_eq!(
        err,
        format!(
            "note: this machine has no log of attempt 1; the store keeps the last {} of {} bytes of stdout\n\
             windlass: {missing} bytes of standard output missing here\n",
            out.len(),
            out.len() + missing
        )
    );
    let (out, err) = logs(&place, &["short"]);
    assert_eq!(out, "short\n");
    assert!(err.contains("the store keeps all of it"), "{err}");
}

#[test]
fn a_log_that_cannot_be_written_fails_no_task() {
    let place = Place::new();
    place.write("s.db.logs", "no folder");
    submit(&place, "t", "echo one; sleep 0.1; echo two");
    let err = work(&place, &[]);
    assert_eq!(place.get("t")["state"], "completed");
    assert_eq!(
        err.matches("could not write the log of a command").count(),
        1,
        "{err}"
    );
}

#[test]
fn the_log_is_whole_after_the_worker_was_killed() {
    let place = Place::new();
    submit(
        &place,
        "t",
        "seq 30000; seq 3 >&2; touch printed; sleep 600",
    );
    let worker = place.start(&["worker", "--name", "a"]);
    until("it has printed", || place.path("printed").exists());
    until("it is read", || logs(&place, &["t"]).1.ends_with("3\n"));
    worker.kill();
    let (out, err) = logs(&place, &["t", "--attempt", "1"]);
    is_seq(&out, 1, 30_000);
    assert_eq!(err, seq(1, 3));
}

#[test]
fn logs_are_only_for_their_user_and_end_with_their_task() {
    let place = Place::new();
    submit(&place, "t", "umask 0; echo out; echo err >&2");
    submit(&place, "kept", "echo kept");
    work(&place, &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let store = of_store(&place);
    let tasks = files(&store);
    assert_eq!(tasks.len(), 2);
    for folder in tasks.iter().chain([&store, &place.path("s.db.logs")]) {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    let all: Vec<PathBuf> = tasks.iter().flat_map(|task| files(task)).collect();
    assert_eq!(all.len(), 5, "{all:?}");
    for file in all {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }

    assert_eq!(place.run(&["delete", "t", "--yes"]).0, 0);
    work(&place, &[]);
    let left = files(&store);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(logs(&place, &["kept"]).0, "kept\n");
    assert_eq!(place.run(&["delete", "kept", "--yes"]).0, 0);
    work(&place, &[]);
    assert!(!place.path("s.db.logs").exists());
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    let place = Place::new();
    submit(
        &place,
        "t",
        "printf 'a\\377\\000\\303'; printf '\\200\\n' >&2",
    );
    work(&place, &[]);
    let mut command = place.windlass(&["logs", "t"]);
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"a\xff\0\xc3");
    assert_eq!(output.stderr, b"\x80\n");
}

#[test]
fn a_full_disk_behind_the_output_is_an_error_of_the_output() {
    let place = Place::new();
    assert_eq!(place.run(&["submit", "k"]).0, 0);
    for words in [&["list"][..], &["--help"], &["help", "run"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = place.windlass(words);
        let output = command.stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{words:?}: {said}");
        assert!(
            said.starts_with("error: could not write the output: "),
            "{said}"
        );
    }
}
