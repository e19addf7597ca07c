//! Lines of an earlier run that run again, and lines that wait for them.

use std::time::{Duration, SystemTime};

use super::*;

/// Regression: lines that wait for one whose file had changed kept their old results.
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

/// Regression: the line that waits for it ran at the same time, with the old result, and the run
/// succeeded.
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

/// Regression: the first run counted the old result of the line that waits for it, and the next one
/// repeated it.
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

/// Regression: only `--again`, which repeats every line, ran the corrected line.
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
    // The remedy comes first, and once; the line that waits has no separate error.
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

/// Regression: the task that waits for it was submitted again, with a deadline that had passed, and
/// failed again.
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

/// The options of a second run.
const OPTIONS: [&str; 8] = [
    "--timeout",
    "7m",
    "--retry",
    "3",
    "--env-file",
    "variables",
    "--at-once",
    "disk=1",
];

fn has_options(place: &Place, task: &serde_json::Value) -> bool {
    let id = task["id"].as_str().unwrap();
    let task = place.get(id);
    let props = &task["props"];
    props["timeout"] == "420000ms"
        && props["env_file"]
            .as_str()
            .is_some_and(|path| path.ends_with("variables"))
        && task["retry"]["attempts"] == 3
        && task["limits"][0]["key"] == "disk"
}

/// Regression: the failed line and the one that never ran silently had the options of the first
/// run.
#[test]
fn the_options_of_a_run_hold_for_lines_that_failed_and_for_lines_that_never_ran() {
    let place = Place::new();
    place.write("variables", "A=1\n");
    place.write("lines", "a\nb\nc\n");
    // The node may start the second line before it has seen that the first has failed. It stops it then.
    let script = "test -e go && exit 0\ntest $1 = a && exit 1\nexec sleep 60\n";
    place.write("script", script);
    let each = [
        "run",
        "--batch",
        "x",
        "--jobs",
        "1",
        "--each",
        "sh script {}",
        "lines",
    ];
    let (code, _, err) = place.run(&[&each[..], &["--fail-fast"]].concat());
    assert_eq!(code, 1, "{err}");
    let states = |state: &str| place.list(&["--state", state]);
    assert_eq!((states("failed").len(), states("runnable").len()), (1, 2));
    place.write("go", "");
    let (code, _, err) = place.run(&[&each[..], &["--retry-failed"], &OPTIONS].concat());
    assert_eq!(code, 0, "{err}");
    let says = "runs with other options than in the earlier run (retry policy, limits, ";
    assert!(err.contains(says), "{err}");
    let all = states("completed");
    assert_eq!(all.len(), 3);
    // If the second had begun, a note says that it keeps the options of its first run.
    let has = |name: &str| {
        let task = all
            .iter()
            .find(|task| task["id"].as_str().unwrap().starts_with(name));
        has_options(&place, task.unwrap())
    };
    assert!(has("a-") && has("c-"), "{all:?}");
    let keeps = "has not ended, and keeps the options of the earlier run (";
    assert!(has("b-") != err.contains(keeps), "{err}");
}

/// It cannot get the options of the second run before it has ended.
#[test]
fn a_line_that_has_begun_keeps_its_options_and_a_note_says_so() {
    let place = Place::new();
    place.write("lines", "a\n");
    let each = ["run", "--batch", "x", "--each", "false", "lines"];
    let waits = r#"{"policy":"strikes","sleep":"1h"}"#;
    let first = place.start(&[&each[..], &["--retry", waits]].concat());
    until("the first attempt failed", || {
        place.path("s.db").exists() && place.list(&["--state", "sleeping"]).len() == 1
    });
    first.signal(nix::sys::signal::Signal::SIGTERM);
    first.wait();
    let mut second = place.windlass(&[&each[..], &["--retry-failed", "--timeout", "7m"]].concat());
    second.stderr(fs::File::create(place.path("said")).unwrap());
    let second = crate::live::Running::of(second.spawn().unwrap());
    let says = "has not ended, and keeps the options of the earlier run (retry policy, timeout)";
    until("the note", || place.read("said").contains(says));
    second.signal(nix::sys::signal::Signal::SIGTERM);
    second.wait();
}
