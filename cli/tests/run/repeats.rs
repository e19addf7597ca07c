//! Lines of an earlier run that run again, and those behind them.

use std::time::{Duration, SystemTime};

use super::*;

/// Lines behind one whose file had changed kept their old results.
#[test]
fn a_line_behind_one_that_runs_again_runs_again() {
    let place = Place::new();
    let lines = "{\"id\":\"a\",\"shell\":\"cat f > a\",\"inputs\":[\"f\"]}\n\
                 {\"id\":\"b\",\"shell\":\"cat a > b\",\"after_ok\":[\"a\"]}\n\
                 {\"id\":\"c\",\"shell\":\"cat b > c\",\"after_ok\":[\"b\"]}\n\
                 {\"id\":\"d\",\"shell\":\"echo d >> d\"}\n";
    place.write("graph", lines);
    let old = |text| {
        place.write("f", text);
        let file = fs::File::options().append(true).open(place.path("f"));
        file.unwrap()
    };
    let hour = Duration::from_secs(3600);
    old("one").set_modified(SystemTime::now() - hour).unwrap();
    for _ in 0..2 {
        let (code, _, err) = place.run(&["run", "graph"]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(place.read("c"), "one");
    }
    drop(old("two"));
    let (code, _, err) = place.run(&["run", "graph"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("4 completed, 1 from an earlier run"), "{err}");
    assert_eq!(
        (place.read("c"), place.read("d")),
        ("two".to_owned(), "d\n".to_owned())
    );
    let (_, _, err) = place.run(&["run", "graph"]);
    assert!(err.contains("4 completed, 4 from an earlier run"), "{err}");
}

/// The line behind it went on beside it, with what it had made before, and the run succeeded.
#[test]
fn a_line_that_was_interrupted_begins_again_after_one_before_it_that_runs_again() {
    for end in [Signal::SIGINT, Signal::SIGKILL] {
        let place = Place::new();
        let lines = "{\"id\":\"k\",\"shell\":\"echo k start >> log; sleep 0.5; cp in k.out; echo k end >> log\",\
                     \"inputs\":[\"in\"]}\n\
                     {\"id\":\"d\",\"shell\":\"echo d start >> log; sleep 0.5; cp k.out d.out; echo d end >> log\",\
                     \"after_ok\":[\"k\"]}\n";
        place.write("graph", lines);
        place.write("in", "old");
        let args = ["run", "--lease-ttl", "2s", "graph"];
        let run = place.start(&args);
        place.until_lines("log", 3);
        match end {
            // Its supervisor ends the command.
            Signal::SIGKILL => run.signal_worker(end),
            _ => run.signal(end),
        }
        run.wait();
        place.write("in", "new");
        place.write("log", "");
        let (code, _, err) = place.run(&args);
        assert_eq!(code, 0, "{err}");
        assert_eq!(
            place.read("log"),
            "k start\nk end\nd start\nd end\n",
            "{end}"
        );
        assert_eq!(place.read("d.out"), "new");
        let (_, _, err) = place.run(&args);
        assert!(err.contains("2 completed, 2 from an earlier run"), "{err}");
    }
}

/// The first run counted the old result of the line behind it, and the next one repeated it.
#[test]
fn a_line_behind_one_whose_task_was_deleted_runs_again() {
    let place = Place::new();
    let lines = "{\"id\":\"a\",\"shell\":\"echo a >> log\"}\n\
                 {\"id\":\"b\",\"shell\":\"echo b >> log\",\"after_ok\":[\"a\"]}\n\
                 {\"id\":\"c\",\"shell\":\"echo c >> log\",\"after_ok\":[\"b\"]}\n";
    place.write("graph", lines);
    assert_eq!(place.run(&["run", "graph"]).0, 0);
    assert_eq!(place.run(&["delete", "a", "--yes"]).0, 0);
    for _ in 0..2 {
        let (code, _, err) = place.run(&["run", "graph"]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(place.read("log"), "a\nb\nc\na\nb\nc\n");
    }
}

/// Only `--again`, which repeats every line, ran the corrected line.
#[test]
fn a_failed_line_that_was_corrected_runs_with_retry_failed() {
    let place = Place::new();
    let lines = |second: &str| {
        format!(
            "{{\"id\":\"a\",\"shell\":\"echo a >> log\"}}\n\
             {{\"id\":\"b\",\"shell\":\"{second}\"}}\n\
             {{\"id\":\"c\",\"shell\":\"echo c >> log\",\"after_ok\":[\"b\"]}}\n"
        )
    };
    place.write("graph", &lines("exit 1"));
    assert_eq!(place.run(&["run", "graph"]).0, 1);
    place.write("graph", &lines("echo b >> log"));
    let (code, _, err) = place.run(&["run", "graph"]);
    assert_eq!(code, 1, "{err}");
    // The remedy comes first, and once; the line behind it has no error of its own.
    let says = "error: line 2: --retry-failed runs the lines that failed, as they are now; ";
    assert!(err.contains(says), "{err}");
    assert_eq!(err.matches("--retry-failed").count(), 1, "{err}");
    assert_eq!(err.matches("error: ").count(), 2, "{err}");
    assert!(
        err.contains("error: 1 line (3) was not submitted: "),
        "{err}"
    );
    let (code, _, err) = place.run(&["run", "--retry-failed", "graph"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("log"), "a\nb\nc\n");
}

/// The task behind it was submitted again, with a deadline that had passed, and failed again.
#[test]
fn retry_failed_retries_a_graph_whose_deadlines_have_passed() {
    let place = Place::new();
    let by = "\"start_by\":\"2020-01-01T00:00:00Z\"";
    let lines = format!(
        "{{\"id\":\"a\",\"shell\":\"echo a >> log\",{by}}}\n\
         {{\"id\":\"b\",\"shell\":\"echo b >> log\",\"after\":[\"a\"],{by}}}\n"
    );
    place.write("graph", &lines);
    assert_eq!(place.run(&["run", "graph"]).0, 1);
    let (code, _, err) = place.run(&["run", "--retry-failed", "graph"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("log"), "a\nb\n");
}
