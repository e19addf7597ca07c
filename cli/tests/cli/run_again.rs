//! A second `windlass run`: which results it takes from an earlier run, and which lines it runs
//! again.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::{
    fs::{self, File},
    sync::mpsc,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::live::{Place, until};

/// The last line of standard output: the summary.
fn summary(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

/// Appends the line to the file `starts`.
const COUNT: &str = "echo {} >> starts";

/// Runs `--each` on these lines; answers the summary and standard error.
fn each(place: &Place, command: &str, lines: &str, more: &[&str]) -> (Value, String) {
    let args = ["run", "--each", command, "--shell", "-o", "json"];
    let (code, out, err) = place.run_with(&[&args, more].concat(), lines.as_bytes());
    assert_eq!(code, 0, "{out}{err}");
    (summary(&out), err)
}

fn starts(place: &Place) -> usize {
    place.read("starts").lines().count()
}

/// Gives the file this age.
fn make_old(place: &Place, name: &str, seconds: u64) {
    let file = File::options().append(true).open(place.path(name)).unwrap();
    let time = SystemTime::now() - Duration::from_secs(seconds);
    file.set_modified(time).unwrap();
}

#[test]
fn a_changed_file_is_run_again_and_the_others_are_from_an_earlier_run() {
    let place = Place::new();
    for name in ["a b", "it's", "c"] {
        place.write(name, name);
    }
    let lines = "a b\nit's\nc\nno file\n";
    let args = ["run", "--each", "cksum", "--print-output"];
    let run = || {
        let (_, out, err) = place.run_with(&args, lines.as_bytes());
        (out, err)
    };
    let (first, err) = run();
    assert_eq!(first.lines().count(), 3, "{err}");
    let url = place.store();
    let intro = format!("store {url}, batch cksum-");
    assert!(err.starts_with(&intro), "{err}");
    assert!(
        err.lines()
            .next()
            .unwrap()
            .ends_with(": no tasks from earlier runs"),
        "{err}"
    );
    assert!(!err.contains("earlier run ("), "{err}");

    // The same content and size, at another time; and another size.
    place.write("it's", "ti's");
    let (second, err) = run();
    assert_ne!(first, second);
    let sum = |text: &str, name: &str| text.lines().find(|l| l.ends_with(name)).unwrap().to_owned();
    assert_eq!(sum(&first, "a b"), sum(&second, "a b"));
    assert_ne!(sum(&first, "it's"), sum(&second, "it's"));
    assert!(err.contains(": 4 tasks from earlier runs"), "{err}");
    assert!(
        err.contains("4 lines: 3 completed, 2 from an earlier run (20"),
        "{err}"
    );
    assert!(err.contains("s ago), 1 failed"), "{err}");
}

#[test]
fn a_file_is_changed_as_make_has_it() {
    let place = Place::new();
    place.write("f", "1");
    let run = |more: &[&str]| each(&place, COUNT, "f\n", more).0["from_earlier_run"].clone();
    assert_eq!((run(&[]), starts(&place)), (json!(0), 1));
    assert_eq!((run(&[]), starts(&place)), (json!(1), 1));
    // An older version took its place.
    make_old(&place, "f", 9999);
    assert_eq!((run(&[]), starts(&place)), (json!(0), 2));
    assert_eq!((run(&[]), starts(&place)), (json!(1), 2));
    // A missing file does not count as changed.
    fs::remove_file(place.path("f")).unwrap();
    assert_eq!((run(&[]), starts(&place)), (json!(1), 2));
    place.write("f", "1");
    assert_eq!((run(&["--inputs", ""]), starts(&place)), (json!(1), 2));
    assert_eq!((run(&[]), starts(&place)), (json!(0), 3));
}

#[test]
fn a_command_that_writes_its_own_line_is_not_run_again() {
    let place = Place::new();
    place.write("f", "1");
    make_old(&place, "f", 9999);
    for _ in 0..2 {
        each(&place, "echo {} >> starts; echo 2 >> {}", "f\n", &[]);
        assert_eq!(place.read("f"), "1\n2\n".replace("1\n", "1"));
    }
    assert_eq!(starts(&place), 1);
}

/// The task was submitted with the old file, and its command read the new one.
#[test]
fn a_file_that_changes_between_the_plan_and_the_command_is_not_run_again() {
    let place = Place::new();
    place.write("f", "old");
    place.write("wait", "");
    let command =
        "touch ready; while [ -e wait ]; do sleep 0.02; done; [ {} = first ] || cat {} >> starts";
    place.write("lines", "first\nf\n");
    let args = ["run", "--each", command, "--shell", "-j", "1", "lines"];
    let run = place.start(&args);
    until("the first runs", || place.path("ready").exists());
    until("both are planned", || place.list(&[]).len() == 2);
    place.write("f", "new\n");
    fs::remove_file(place.path("wait")).unwrap();
    assert_eq!(run.wait(), Some(0));
    assert_eq!(place.read("starts"), "new\n");
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("starts"), "new\n");
}

#[test]
fn the_inputs_of_an_option_are_names_with_the_line() {
    let place = Place::new();
    place.write("a b.cfg", "1");
    place.write("common", "1");
    let run = || {
        each(
            &place,
            COUNT,
            "a b\nc\n",
            &["--inputs", "{}.cfg", "--inputs", "common"],
        )
        .0
    };
    assert_eq!(run()["from_earlier_run"], 0);
    assert_eq!(run()["from_earlier_run"], 2);
    place.write("common", "22");
    // c.cfg is missing: its task counts as it ended.
    assert_eq!(run()["from_earlier_run"], 1);
    assert_eq!(
        (starts(&place), place.read("starts").lines().last()),
        (3, Some("a b"))
    );
    place.write("a b.cfg", "22");
    assert_eq!(run()["from_earlier_run"], 1);
}

#[test]
fn the_inputs_of_a_task_are_in_its_line() {
    let place = Place::new();
    place.write("sub/data", "1");
    let lines = [
        json!({"id": "t", "shell": "echo t >> starts", "cwd": "sub", "inputs": ["data"]}),
        json!({"shell": "echo u >> starts", "inputs": []}),
    ];
    let text = format!("{}\n{}\n", lines[0], lines[1]);
    let run = || {
        let (code, out, err) = place.run_with(&["run", "-o", "json"], text.as_bytes());
        assert_eq!(code, 0, "{out}{err}");
        summary(&out)["from_earlier_run"].clone()
    };
    assert_eq!(run(), 0);
    assert_eq!(run(), 2);
    place.write("sub/data", "22");
    assert_eq!(run(), 1);
    assert_eq!(place.read("sub/starts"), "t\nt\n");

    for (line, says) in [
        (
            json!({"command": "true", "inputs": "data"}),
            "inputs: are not a list of file names",
        ),
        (
            json!({"command": "true", "labels": {"batch-inputs": "x"}}),
            "labels: 'batch-inputs' is set by",
        ),
    ] {
        let (code, _, err) = place.run_with(&["run"], format!("{line}\n").as_bytes());
        assert_eq!(code, 2);
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn again_runs_what_has_ended_and_equal_lines_once() {
    let place = Place::new();
    let run = |more: &[&str]| each(&place, COUNT, "a\nb\na\n", more).0;
    assert_eq!(
        (run(&[])["completed"].clone(), starts(&place)),
        (json!(3), 2)
    );
    let again = run(&["--again"]);
    assert_eq!(
        (&again["completed"], &again["from_earlier_run"]),
        (&json!(3), &json!(0))
    );
    assert_eq!(starts(&place), 4);
    let (known, err) = each(&place, COUNT, "a\n", &["-v"]);
    assert_eq!((&known["from_earlier_run"], starts(&place)), (&json!(1), 4));
    assert!(known["earlier_run"]["last"].is_string(), "{known}");
    assert!(err.contains("is from an earlier run ("), "{err}");
}

/// Live tasks are never replaced.
#[test]
fn what_an_interrupted_run_left_goes_on_with_again() {
    let place = Place::new();
    place.write("lines", "1\n2\n");
    let command = "echo {} >> starts; [ {} = 1 ] || [ -e go ] || sleep 600";
    let args = ["run", "--each", command, "--shell", "-j", "2", "lines"];
    let run = place.start(&args);
    place.until_lines("starts", 2);
    until("one is done", || {
        place.list(&["--state", "completed"]).len() == 1
    });
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait(), Some(130));
    let order = |state: &str| {
        let listed = place.list(&["--state", state]);
        (listed.len(), listed[0]["order"].clone())
    };
    let left = order("runnable");
    place.write("go", "");
    let (code, _, err) = place.run(&[&args[..], &["--again"]].concat());
    assert_eq!(code, 0, "{err}");
    // Both ran twice: one again, one for the first time to its end.
    assert_eq!(starts(&place), 4);
    let orders: Vec<Value> = place
        .list(&[])
        .iter()
        .map(|task| task["order"].clone())
        .collect();
    assert!(orders.contains(&left.1), "{orders:?}");
}

#[test]
fn an_edited_line_with_an_id_says_what_to_do() {
    let place = Place::new();
    let line = |word: &str| {
        format!(
            "{}\n",
            json!({"id": "t", "command": "echo", "args": [word]})
        )
    };
    let run = |word: &str, more: &[&str]| {
        let args = [&["run", "--batch", "b", "--keep-going"], more].concat();
        let (code, _, err) = place.run_with(&args, line(word).as_bytes());
        (code, err)
    };
    assert_eq!(run("1", &[]).0, 0);
    let (code, err) = run("2", &[]);
    assert_eq!(code, 1);
    assert!(
        err.contains(
            "line 1: `windlass delete t`, then the same run again, runs this line and the lines that wait for it; --again \
             runs all lines again: task 't' completed in an earlier run, with another kind or other props than the line; another \
             id makes another task"
        ),
        "{err}"
    );
    let (code, err) = run("2", &["--again"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.get("t")["props"]["args"], json!(["2"]));
    assert_eq!(place.run(&["delete", "t"]).0, 0);
    let (code, err) = run("3", &[]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.get("t")["props"]["args"], json!(["3"]));
}

/// Regression: the wrong line removed the task of the valid one from the tasks that the run may claim,
/// and the run waited for it for ever.
#[test]
fn two_lines_with_one_id_and_different_commands_do_not_stop_the_run() {
    let place = Place::new();
    let line = |id: &str, word: &str| {
        let line = json!({"id": id, "shell": format!("echo {word} >> starts")});
        format!("{line}\n")
    };
    let lines = [
        line("a", "a"),
        line("x", "x"),
        line("x", "other"),
        line("b", "b"),
    ];
    place.write("lines", &lines.concat());
    let mut command = place.windlass(&["run", "--keep-going", "lines"]);
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(command.output().unwrap()));
    let output = end.recv_timeout(Duration::from_secs(60));
    let output = output.expect("the run ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("line 3: id: 'x' is also that of line 2, with another kind or other props"),
        "{err}"
    );
    let mut starts: Vec<String> = place.read("starts").lines().map(str::to_owned).collect();
    starts.sort();
    assert_eq!(starts, ["a", "b", "x"]);
}

/// Regression: `--again` counted such a task as completed by this run, and ran nothing.
#[test]
fn a_task_that_another_batch_completed_is_not_run_again_in_silence() {
    let place = Place::new();
    let line = format!("{}\n", json!({"id": "t", "shell": "echo t >> starts"}));
    place.write("one.jsonl", &line);
    place.write("two.jsonl", &line);
    assert_eq!(place.run(&["run", "one.jsonl"]).0, 0);
    let (code, out, _) = place.run(&["run", "two.jsonl"]);
    assert_eq!(code, 0, "what completed is completed: {out}");
    let (code, _, err) = place.run(&["run", "two.jsonl", "--again"]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("line 1: task 't' belongs to batch 'one-"),
        "{err}"
    );
    assert!(err.contains("add --batch one-"), "{err}");
    assert_eq!(place.read("starts"), "t\n");
}

#[test]
fn an_input_that_is_not_there_is_named() {
    let place = Place::new();
    place.write("lines", "a\nb\n");
    fs::create_dir(place.path("folder")).unwrap();
    for (input, reason) in [
        ("no-{}", "no-a' cannot be looked at: No such file"),
        ("folder", "is a folder"),
    ] {
        let words = [
            "run", "--each", "true {}", "--inputs", input, "--batch", input, "lines",
        ];
        let (code, _, said) = place.run(&words);
        assert_eq!(code, 0, "{said}");
        assert!(
            said.contains(reason) && said.contains("2 of 2 lines"),
            "{said}"
        );
    }
}

#[test]
fn a_line_that_is_no_text_gets_the_hint_of_null() {
    let place = Place::new();
    fs::write(place.path("names"), b"a\xff\n").unwrap();
    let (code, _, said) = place.run(&["run", "--each", "true", "names"]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("is not UTF-8 at byte 2; file names need not be text with -0"),
        "{said}"
    );
}
