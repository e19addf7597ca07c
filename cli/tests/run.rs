//! `windlass run` on real input, interrupted in every way.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

mod live;

use std::{collections::HashMap, fmt::Write as _, fs, process::Command};

use nix::sys::signal::Signal;
use serde_json::Value;

use live::{Place, until, until_gone};

fn summary(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn checksums_of_a_tree() {
    let place = Place::new();
    for n in 0..60 {
        let name = format!("tree/{}/it's \"file\" {n} $(x).txt", n % 7);
        place.write(&name, &format!("content {n}"));
    }
    let find = |action: &str| {
        let mut find = Command::new("find");
        find.args(["tree", "-type", "f"]).args(action.split(' '));
        let output = find.current_dir(place.path("")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (files, sums) = (find("-print0"), find("-exec sha256sum {} ;"));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let each = "sha256sum {}";
    let args = ["run", "--each", each, "-0", "-j", "4", "--print-output"];
    let (code, out, err) = place.run_with(&args, files.as_bytes());
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), sorted(&sums));
    assert!(err.contains("60 lines: 60 completed; in"), "{err}");

    // Again: nothing is run, and the output is still known.
    fs::remove_dir_all(place.path("tree")).unwrap();
    let (code, out, err) = place.run_with(&args, files.as_bytes());
    assert_eq!(code, 0, "{err}");
    assert_eq!(sorted(&out), sorted(&sums));
    assert!(
        err.contains("60 completed, 60 from an earlier run ("),
        "{err}"
    );
}

/// Three times in the middle of the work everything is killed. What had completed is not run again;
/// what was running is, and nothing of its first attempt is left.
#[test]
fn killed_and_started_again_it_repeats_nothing_that_had_completed() {
    let place = Place::new();
    let lines: String = (0..120).fold(String::new(), |mut all, n| {
        let _ = writeln!(all, "line {n}");
        all
    });
    place.write("lines", &lines);
    // Both are appended to by one write each, whoever else does.
    let each = "echo {} >> starts; sleep 0.02; echo {} >> ends";
    let args = [
        "run",
        "--each",
        each,
        "--shell",
        "-j",
        "3",
        "--lease-ttl",
        "1s",
        "lines",
    ];
    let starts = |place: &Place| {
        let mut count = HashMap::<String, usize>::new();
        for line in place.read("starts").lines() {
            *count.entry(line.to_owned()).or_default() += 1;
        }
        count
    };
    for killed_at in [15, 45, 80] {
        let run = place.start(&args);
        place.until_lines("ends", killed_at);
        run.kill();
        let completed = place.list(&["--state", "completed"]);
        assert!(!completed.is_empty());
        assert!(completed.len() < 120, "it was killed in the middle");
    }
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    let starts = starts(&place);
    assert_eq!(starts.len(), 120, "every line was run");
    let again: usize = starts.values().map(|n| n - 1).sum();
    assert!(
        again <= 3 * 3,
        "only what was running when it was killed is run again: {again}"
    );
    for task in place.list(&["--state", "completed"]) {
        let claims = task["claims"].as_u64().unwrap() as usize;
        let line = task["props"]["args"][0].as_str().unwrap();
        assert!(starts[line] <= claims, "{line}");
    }
    let before = place.read("starts").lines().count();
    let (code, _, err) = place.run(&args);
    assert_eq!(
        (code, place.read("starts").lines().count()),
        (0, before),
        "{err}"
    );
    assert!(!place.path("s.db.tasks").exists(), "no folder is left");
}

#[test]
fn malformed_lines_are_reported_by_number_and_nothing_is_run() {
    let place = Place::new();
    let lines = "{\"id\":\"good\",\"command\":\"true\"}\n\n{\"command\":\n{\"kommand\":\"x\"}\n\
                 {\"id\":\"a/b\",\"command\":\"x\"}\n{\"command\":\"x\",\"timeout\":\"soon\"}\n\
                 {\"command\":\"x\",\"props\":{}}\n{\"kind\":\"mail\",\"command\":\"x\"}\n\
                 {\"command\":\"x\",\"labels\":{\"batch\":\"y\"}}\n";
    place.write("tasks", lines);
    let wrong = [
        "line 3: task: is not JSON (EOF while parsing a value at column 11",
        "line 4: task: 'kommand' is no field; write 'command'",
        "line 5: id: 'a/b' contains '/'",
        "line 6: props.timeout: 'soon' is not a duration",
        "line 7: props: stand beside the fields of a command",
        "line 8: kind: 'mail' takes props",
        "line 9: labels: 'batch' is set by --batch",
    ];
    let (code, _, err) = place.run(&["run", "tasks"]);
    assert_eq!(code, 2);
    for says in wrong {
        assert!(err.contains(says), "{says}: {err}");
    }
    assert!(
        err.contains("7 of 8 lines are wrong and nothing was run"),
        "{err}"
    );
    assert!(!place.path("s.db").exists());

    let (code, out, err) = place.run(&["run", "tasks", "--keep-going", "-o", "json"]);
    assert_eq!(code, 1);
    for says in wrong {
        assert!(err.contains(says), "{says}: {err}");
    }
    let summary = summary(&out);
    assert_eq!(
        (&summary["completed"], &summary["wrong"]),
        (&1.into(), &7.into())
    );
    assert_eq!(place.get("good")["state"], "completed");
}

#[test]
fn a_name_that_is_not_utf8_is_reported_by_line() {
    let place = Place::new();
    let (code, _, err) = place.run_with(&["run", "--each", "ls"], b"good\nb\xffd\n");
    assert_eq!(code, 2);
    assert!(
        err.contains("standard input: line 2: the line: is not UTF-8 text at byte 2"),
        "{err}"
    );
}

#[test]
fn input_lines_are_never_executed() {
    let place = Place::new();
    let lines = "$(touch canary)\n`touch canary`\n'; touch canary; '\n\"; touch canary; \"\n-n\n";
    for each in [
        "echo \"{}\" >> shown",
        "sh -c 'echo {}' >> shown",
        "echo `echo {}` >> shown",
        "cat >> shown <<EOF\n{}\nEOF",
        "echo \\{}",
    ] {
        let (code, _, err) = place.run_with(&["run", "--each", each, "--shell"], lines.as_bytes());
        assert!(!place.path("canary").exists(), "{each}");
        assert_eq!(code, 2, "{each}: {err}");
        assert!(err.contains("write {} without quotes, or \"$1\""), "{err}");
    }
    let words = ["run", "--each", "sh -c 'echo {}'"];
    let (code, _, err) = place.run_with(&words, lines.as_bytes());
    assert!(!place.path("canary").exists() && code == 2, "{err}");
    assert!(!place.path("s.db").exists(), "nothing is submitted");

    for each in [
        "printf '%s\\n' {} >> shown",
        "printf '%s\\n' >> shown",
        "printf '%s\\n' \"$1\" >> shown",
        "printf '%s\\n' \"$(printf %s \"$1\")\" >> shown",
    ] {
        let args = ["run", "--each", each, "--shell", "-j", "1"];
        let (code, _, err) = place.run_with(&args, lines.as_bytes());
        assert_eq!(code, 0, "{each}: {err}");
        let shown = place.read("shown");
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&shown), sorted(lines), "{each}");
        fs::remove_file(place.path("shown")).unwrap();
        assert!(!place.path("canary").exists(), "{each}");
    }
    // Names that end with NUL may hold anything else.
    let names = b"a\nb\0 \0\t\r\n\0-rf\0";
    let each = "printf '%s\\0' {} >> shown";
    let args = ["run", "--each", each, "--shell", "-0", "-j", "1"];
    let (code, _, err) = place.run_with(&args, names);
    assert_eq!(code, 0, "{err}");
    let sorted = |text: &str| {
        let mut names: Vec<String> = text.split('\0').map(str::to_owned).collect();
        names.sort();
        names
    };
    let names = String::from_utf8(names.to_vec()).unwrap();
    assert_eq!(sorted(&place.read("shown")), sorted(&names));
    let (code, _, err) = place.run_with(&["run", "--each", "echo {}", "--shell"], b"a\0b\n");
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("line 1: props.shell: or one of 'args' has a NUL"),
        "{err}"
    );
}

#[test]
fn what_failed_is_run_again_only_when_asked() {
    let place = Place::new();
    let each = "echo {} >> starts; [ -e fixed ] || [ {} != 2 ] || { echo no fix >&2; exit 9; }";
    let args = ["run", "--each", each, "--shell", "-o", "json"];
    let (code, out, _) = place.run_with(&args, b"1\n2\n3\n");
    assert_eq!(code, 1);
    let failure = &summary(&out)["failures"][0];
    assert_eq!(failure["exit_code"], 9);
    assert_eq!(failure["error"], "exit code 9: no fix");
    let id = failure["id"].as_str().unwrap().to_owned();
    let (_, out, err) = place.run(&["logs", &id]);
    assert_eq!((out.as_str(), err.as_str()), ("", "no fix\n"));

    place.write("fixed", "");
    let (code, out, _) = place.run_with(&args, b"1\n2\n3\n");
    assert_eq!(
        (code, &summary(&out)["failures"][0]["before"]),
        (1, &true.into())
    );
    assert_eq!(place.read("starts").lines().count(), 3);

    // Another timeout is not another task.
    let again = [&args[..], &["--retry-failed", "--timeout", "1m"]].concat();
    let (code, out, err) = place.run_with(&again, b"1\n2\n3\n");
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(place.read("starts").lines().count(), 4);
}

#[test]
fn equal_lines_are_one_task() {
    let place = Place::new();
    let args = [
        "run",
        "--each",
        "echo {} >> starts",
        "--shell",
        "-o",
        "json",
    ];
    let (code, out, _) = place.run_with(&args, b"a\nb\na\n\na\n");
    assert_eq!((code, &summary(&out)["completed"]), (0, &4.into()));
    assert_eq!(place.read("starts").lines().count(), 2);
    // In another order, in another folder of the same name: the lines decide.
    let (code, _, _) = place.run_with(&args, b"b\nc\na\n");
    assert_eq!((code, place.read("starts").lines().count()), (0, 3));
}

#[test]
fn the_first_failure_stops_it_when_asked() {
    let place = Place::new();
    let each = "echo {} >> starts; [ {} != 3 ]";
    let args = [
        "run",
        "--each",
        each,
        "--shell",
        "-j",
        "1",
        "--fail-fast",
        "-o",
        "json",
    ];
    let lines: String = (1..=200).map(|n| format!("{n}\n")).collect();
    let (code, out, _) = place.run_with(&args, lines.as_bytes());
    let summary = summary(&out);
    assert_eq!(
        (code, &summary["failed"], &summary["lines"]),
        (1, &1.into(), &200.into())
    );
    assert!(summary["left"].as_u64().unwrap() > 0, "{summary}");
}

#[test]
fn attempts_and_timeouts_are_as_asked() {
    let place = Place::new();
    let retry = r#"{"policy":"exponential","attempts":3,"base":"10ms"}"#;
    let each = "echo {} >> starts; [ $WINDLASS_ATTEMPT = 3 ] || sleep 600";
    let args = [
        "run",
        "--each",
        each,
        "--shell",
        "--retry",
        retry,
        "--timeout",
        "200ms",
    ];
    let (code, _, err) = place.run_with(&args, b"a\n");
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("starts"), "a\na\na\n");
}

#[test]
fn an_interrupt_releases_running_tasks_and_another_run_goes_on() {
    let place = Place::new();
    place.write("lines", "1\n2\n3\n");
    let each = "echo $$ > pid-{}.new; mv pid-{}.new pid-{}; [ -e go ] || sleep 600";
    let args = ["run", "--each", each, "--shell", "-j", "2", "lines"];
    let run = place.start(&args);
    until("two run", || {
        (1..=3)
            .filter(|n| place.path(&format!("pid-{n}")).exists())
            .count()
            == 2
    });
    let pids: Vec<i32> = (1..=3)
        .filter_map(|n| place.read(&format!("pid-{n}")).trim().parse().ok())
        .collect();
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait(), Some(130));
    until_gone(&pids);
    let tasks = place.list(&[]);
    assert_eq!(tasks.len(), 3);
    for task in &tasks {
        assert_eq!(
            (&task["state"], &task["attempts"]),
            (&"runnable".into(), &0.into()),
            "{task}"
        );
        assert_eq!(task["node"], Value::Null);
    }
    place.write("go", "");
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_second_interrupt_kills() {
    let place = Place::new();
    let script =
        "trap 'touch told' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done";
    place.write(
        "lines",
        &format!(
            "{}\n",
            serde_json::json!({"id": "t", "shell": script, "grace": "10m"})
        ),
    );
    let run = place.start(&["run", "lines", "--grace", "10m"]);
    let pids = place.pids("pid");
    run.signal(Signal::SIGTERM);
    until("it was told", || place.path("told").exists());
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait(), Some(130));
    until_gone(&pids);
    assert_eq!(place.get("t")["state"], "runnable");
}

#[test]
fn tasks_that_no_worker_takes_are_reported() {
    let place = Place::new();
    let lines = "{\"id\":\"m\",\"kind\":\"mail\"}\n{\"id\":\"c\",\"command\":\"true\"}\n";
    let (code, out, _) = place.run_with(&["run", "-o", "json"], lines.as_bytes());
    let summary = summary(&out);
    assert_eq!(
        (code, &summary["completed"], &summary["left"]),
        (1, &1.into(), &1.into())
    );
    let waiting = summary["waiting"].as_object().unwrap();
    assert_eq!(waiting["of kind 'mail', for which no worker is there"], 1);
}

/// Enough of them to fill the window that is followed at a time.
#[test]
fn many_that_wait_for_others_do_not_wait_for_ever() {
    let place = Place::new();
    let lines: String = (0..12_000).fold(String::new(), |mut all, n| {
        let _ = writeln!(all, "{{\"id\":\"m{n}\",\"kind\":\"mail\"}}");
        all
    });
    let (code, out, err) = place.run_with(&["run", "-o", "json"], lines.as_bytes());
    assert_eq!(code, 1, "{err}");
    assert_eq!(summary(&out)["left"], 12_000);
}

#[test]
fn a_task_of_another_batch_is_not_taken() {
    let place = Place::new();
    let (code, _, _) = place.run(&[
        "submit",
        "exec",
        "--id",
        "a",
        "--props",
        "{\"command\":\"true\"}",
    ]);
    assert_eq!(code, 0);
    let line = "{\"id\":\"a\",\"command\":\"true\",\"cwd\":\"/\"}\n";
    let (code, _, err) = place.run_with(&["run"], line.as_bytes());
    assert_eq!(code, 1);
    assert!(
        err.contains("line 1: task 'a' exists already, with another kind"),
        "{err}"
    );
    assert_eq!(place.get("a")["state"], "runnable");
}

#[test]
fn wrong_options_are_reported() {
    let place = Place::new();
    for (args, says) in [
        (
            &["run", "--each", "a 'b"][..],
            "--each: 'a 'b' cannot be split",
        ),
        (&["run", "--each", " "], "--each: is empty"),
        (
            &["run", "--jobs", "0", "/dev/null"],
            "'0' for '--jobs <N>': 0 is not from 1 to",
        ),
        (
            &["run", "--retry", "0"],
            "retry.attempts: 0 attempts never run",
        ),
        (
            &["run", "--batch", "a,b", "/dev/null"],
            "labels: the value of \"batch\"",
        ),
        (
            &["run", "--timeout", "0s", "/dev/null"],
            "'0s' is no time; give a longer one",
        ),
        (&["run", "no-such-file"], "no-such-file: No such file"),
        (&["run", "/"], "/: is a folder"),
    ] {
        let (code, _, err) = place.run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
    assert_eq!(
        place.run(&["run", "/dev/null"]).0,
        0,
        "no line is no failure"
    );
}

/// A worker has a policy of its own, that of Metafora by default: ten minutes between two attempts.
#[test]
fn a_worker_beside_it_follows_the_policy_of_the_tasks() {
    let place = Place::new();
    let worker = place.start(&["worker", "--name", "w", "--slots", "8"]);
    until("it is there", || {
        place.run(&["nodes", "-o", "json"]).1.contains("\"w\"")
    });
    let lines: String = (0..40).map(|n| format!("{n}\n")).collect();
    place.write("lines", &lines);
    let each = "echo $WINDLASS_STATE_DIR >> starts; sleep 0.05; exit 3";
    let run = place.start(&["run", "--each", each, "--shell", "-j", "1", "lines"]);
    assert_eq!(run.wait(), Some(1));
    assert_eq!(place.list(&["--state", "failed"]).len(), 40);
    assert_eq!(place.read("starts").lines().count(), 40);

    // A policy that is given is that of the tasks too.
    let retry = r#"{"policy":"exponential","attempts":2,"base":"10ms"}"#;
    let args = [
        "run", "--each", each, "--shell", "-j", "1", "--batch", "b", "--retry", retry, "lines",
    ];
    let run = place.start(&args);
    assert_eq!(run.wait(), Some(1));
    assert_eq!(place.read("starts").lines().count(), 120);
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
}

#[test]
fn lines_that_were_taken_out_of_the_input_are_not_run() {
    let place = Place::new();
    place.write("lines", "1\n2\n3\n");
    let each = "[ -e go ] || { touch waits; sleep 600; }; echo {} >> ran";
    let args = ["run", "--each", each, "--shell", "-j", "1", "lines"];
    let run = place.start(&args);
    until("one runs", || place.path("waits").exists());
    until("all are submitted", || place.list(&[]).len() == 3);
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait(), Some(130));

    place.write("go", "");
    // Lines 1 and 3 are taken out, and one is new.
    place.write("lines", "2\n4\n");
    let json = [&args[..], &["-o", "json"]].concat();
    let (code, out, err) = place.run(&json);
    assert_eq!(code, 0, "every line of the input completed: {out}{err}");
    let mut ran: Vec<String> = place.read("ran").lines().map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["2", "4"]);
    assert_eq!(summary(&out)["left_out"], 2);
    assert_eq!(place.list(&["--state", "runnable"]).len(), 2);

    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("2 tasks of this batch are from an earlier input and were not run"),
        "{err}"
    );
    // What the message says to run them is right.
    let hint = err.split('`').nth(1).unwrap();
    let words: Vec<&str> = hint.split(' ').skip(1).collect();
    let (code, _, err) = place.run(&words);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("ran").lines().count(), 4);
    let (code, out, _) = place.run(&json);
    assert_eq!((code, &summary(&out)["left_out"]), (0, &0.into()));
}

/// The id is that of another task in the store: neither is it run, nor does the line take its place.
#[test]
fn a_line_that_was_changed_does_not_run_the_task_that_had_its_id() {
    let place = Place::new();
    let line = |command: &str| {
        let script = format!("[ -e go ] || {{ touch waits; sleep 600; }}; echo {command} >> ran");
        format!("{}\n", serde_json::json!({"id": "a", "shell": script}))
    };
    place.write("lines", &line("old"));
    let args = ["run", "--batch", "b", "lines"];
    let run = place.start(&args);
    until("it runs", || place.path("waits").exists());
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait(), Some(130));
    place.write("go", "");
    let new = format!(
        "{}{{\"id\":\"c\",\"command\":\"sleep\",\"args\":[\"2\"]}}\n",
        line("new")
    );
    place.write("lines", &new);
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("with another kind or other props"), "{err}");
    assert_eq!(place.read("ran"), "");
    assert_eq!(place.get("a")["state"], "runnable");
}
