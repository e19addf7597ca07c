//! What commands print, as `run` prints it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::io::Read;

use crate::live::{
    Place, Running, is_alive,
    printed::{Printed, files, is_seq, of_store, piped, seq, size},
    until,
};
use nix::sys::signal::Signal;
use serde_json::json;

#[test]
fn run_prints_the_whole_output_of_a_task() {
    let place = Place::new();
    let args = ["run", "--each", "seq {}", "--print-output"];
    for again in [false, true] {
        let (code, out, err) = place.run_with(&args, b"200000\n");
        assert_eq!(code, 0, "{err}");
        is_seq(&out, 1, 200_000);
        assert_eq!(err.contains("1 from an earlier run"), again, "{err}");
    }
}

#[test]
fn run_prints_more_than_a_log_keeps_and_keeps_no_more() {
    let place = Place::new();
    let args = ["run", "--each", "seq {}", "--print-output"];
    // 78 MB.
    let (code, out, err) = place.run_with(&args, b"10000000\n");
    assert_eq!(code, 0, "{err}");
    is_seq(&out, 1, 10_000_000);
    let task = files(&of_store(&place)).remove(0);
    assert!(size(&task) <= 64 << 20, "{}", size(&task));

    // Output that is dropped before it is printed is reported.
    let args = [&args[..], &["--log-limit", "64KiB"]].concat();
    let (code, out, err) = place.run_with(&args, b"100000\n");
    assert_eq!(code, 1, "{err}");
    let missing = seq(1, 100_000).len() - out.len();
    assert!(seq(1, 100_000).ends_with(&out) && missing > 0);
    assert!(
        err.contains(&format!(
            "windlass: {missing} bytes of standard output missing here"
        )),
        "{err}"
    );
    assert!(
        err.contains("the output of 1 task was not printed whole"),
        "{err}"
    );
}

#[test]
fn run_prints_standard_error_of_what_succeeds_and_fails() {
    let place = Place::new();
    let each = "echo out {}; echo err {} >&2; test {} = good";
    let args = [
        "run",
        "--each",
        each,
        "--shell",
        "--print-output",
        "-j",
        "1",
        "-q",
    ];
    let (code, out, err) = place.run_with(&args, b"good\nbad\n");
    assert_eq!(code, 1, "{err}");
    assert_eq!(out, "out good\nout bad\n");
    assert!(err.starts_with("err good\nerr bad\n"), "{err}");
}

#[test]
fn run_prints_lines_with_a_prefix_while_their_task_runs() {
    let place = Place::new();
    let each = "echo begin {}; until [ -e go ]; do sleep 0.02; done; echo end {}; printf last";
    let tasks = ["a", "b"].map(|id| {
        json!({"id": id, "shell": each.replace("{}", id), "cwd": place.path("")}).to_string()
    });
    place.write("tasks", &tasks.join("\n"));
    let mut run = piped(
        &place,
        &["run", "tasks", "--print-output", "--prefix", "-j", "2"],
    );
    let printed = Printed::by(&mut run);
    let sorted = |lines: usize| {
        let mut lines: Vec<String> = printed.lines(lines).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(2), ["a: begin a", "b: begin b"]);
    place.write("go", "");
    let all = [
        "a: begin a",
        "a: end a",
        "a: last",
        "b: begin b",
        "b: end b",
        "b: last",
    ];
    assert_eq!(sorted(6), all);
    assert_eq!(Running::of(run).wait(), Some(0));
}

/// The tasks complete anyway, and a signal ends the wait for the reader.
#[test]
fn a_reader_that_does_not_read_holds_nothing_up() {
    let place = Place::new();
    let args = [
        "run",
        "--each",
        "seq {}",
        "--print-output",
        "-j",
        "1",
        "lines",
    ];
    place.write("lines", "100000\n100001\n100002\n");
    for reads in [false, true] {
        let mut run = piped(&place, &args);
        let (mut out, mut err) = (run.stdout.take().unwrap(), run.stderr.take().unwrap());
        until("all have completed", || {
            let args = ["list", "--state", "completed", "-o", "json"];
            place.run(&args).1.lines().count() == 3
        });
        let run = Running::of(run);
        let mut text = String::new();
        if reads {
            out.read_to_string(&mut text).unwrap();
            let expected: usize = (100_000..=100_002).map(|n| seq(1, n).len()).sum();
            assert_eq!(text.len(), expected);
            assert_eq!(run.wait(), Some(0));
            continue;
        }
        until("its node has stopped", || {
            place.run(&["nodes", "-o", "json"]).1.trim() == "[]"
        });
        until("a signal ends it", || {
            run.signal(Signal::SIGINT);
            !is_alive(run.pid())
        });
        assert_eq!(run.wait(), Some(130));
        err.read_to_string(&mut text).unwrap();
        assert!(
            text.contains("interrupted while output was printed"),
            "{text}"
        );
    }
}
