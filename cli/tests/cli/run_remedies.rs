//! The command lines that `windlass run` advises: a shell runs each of them as it is printed.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::{path::Path, process::Command};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::live::{Place, until};

/// The line of a task that runs this script.
fn line(id: &str, script: &str) -> String {
    format!("{}\n", json!({"id": id, "shell": script}))
}

/// Runs these lines; answers the exit code and standard error.
fn run(place: &Place, more: &[&str], lines: &str) -> (i32, String) {
    let args = [&["run", "--batch", "b", "--keep-going"], more].concat();
    let (code, _, err) = place.run_with(&args, lines.as_bytes());
    (code, err)
}

/// Returns the printed command lines that begin with these words.
fn advised<'a>(err: &'a str, words: &str) -> Vec<&'a str> {
    let parts = err.split('`').skip(1).step_by(2);
    parts.filter(|part| part.starts_with(words)).collect()
}

/// Runs a printed command line in a shell.
fn shell(place: &Place, text: &str) {
    let folder = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    for (name, value) in place.windlass(&[]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command
        .args(["-c", text])
        .current_dir(place.path(""))
        .env("PATH", format!("{}:{path}", folder.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{text}: {output:?}");
}

/// Regression: the id was printed without quotes: the shell ran parts of it, and read an id that begins with
/// `-` as an option.
#[test]
fn a_shell_reads_the_id_in_an_advised_command_as_one_word() {
    let place = Place::new();
    for id in [
        "a $(touch ran)",
        "it's; touch ran",
        "`touch ran`",
        "-x",
        "--all",
        "{a,b}",
        "~",
    ] {
        assert_eq!(run(&place, &[], &line(id, "true")).0, 0);
        let (code, err) = run(&place, &[], &line(id, "echo"));
        assert_eq!(code, 1, "{err}");
        // A backquote in the id ends the text that `advised` looks for.
        let end = "`, then the same run again";
        let (command, _) = err.split_once(end).unwrap();
        let (_, command) = command.split_once("line 1: `").unwrap();
        shell(&place, command);
        let (code, err) = run(&place, &[], &line(id, "echo"));
        assert_eq!(code, 0, "{command}: {err}");
    }
    assert!(!place.path("ran").exists());
}

/// Regression: the advised commands acted on the default store.
#[test]
fn advised_commands_name_the_store_of_the_command_line() {
    let place = Place::new();
    let store = ["--store", "sqlite:it's here.db"];
    let on_both = |lines: &str| {
        assert_eq!(run(&place, &[], lines).0, 0);
        run(&place, &store, lines)
    };
    assert_eq!(on_both(&line("t", "true")).0, 0);
    let (code, err) = run(&place, &store, &line("t", "echo"));
    assert_eq!(code, 1, "{err}");
    shell(&place, advised(&err, "windlass delete")[0]);
    assert_eq!(place.get("t")["state"], "completed", "of the default store");
    let (code, err) = run(&place, &store, &line("t", "echo"));
    assert_eq!(code, 0, "{err}");

    let (code, err) = run(&place, &[], &line("t", "echo"));
    assert_eq!(code, 1, "{err}");
    assert_eq!(advised(&err, "windlass delete"), ["windlass delete t"]);

    // A task of the batch that is no longer named by a line.
    place.write("lines", &line("long", "sleep 600"));
    let args = [&["run", "--batch", "b c", "lines"], &store[..]].concat();
    let started = place.start(&args);
    let on = |args: &[&str]| place.run(&[args, &store].concat());
    let get = ["get", "long", "-o", "json"];
    until("it runs", || on(&get).1.contains("\"node\":\""));
    started.signal(Signal::SIGINT);
    assert_eq!(started.wait(), Some(130));
    place.write("lines", &line("other", "true"));
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(advised(&err, "windlass worker").len(), 1, "{err}");
    let delete = advised(&err, "windlass delete")[0];
    shell(&place, &format!("{delete} --yes"));
    assert_eq!(on(&["get", "long"]).0, 3, "{delete}");
}

/// Regression: `--again` and `--retry-failed` were advised for a task that they do not replace.
#[test]
fn an_option_is_advised_only_for_a_task_that_it_replaces() {
    let place = Place::new();
    let props = r#"{"command":"true"}"#;
    let submit = |id: &str| ["submit", "exec", "--id", id, "--props", props].map(str::to_owned);
    for (id, end) in [("done", None), ("killed", Some("kill")), ("live", None)] {
        let words = submit(id);
        assert_eq!(place.run(&words.each_ref().map(String::as_str)).0, 0);
        if let Some(end) = end {
            assert_eq!(place.run(&[end, id]).0, 0);
        }
        if id != "live" {
            assert_eq!(place.run(&["worker", "--until-idle"]).0, 0);
        }
        for options in [&[][..], &["--again"], &["--retry-failed"]] {
            let (code, err) = run(&place, options, &line(id, "echo"));
            assert_eq!(code, 1, "{id} {options:?}: {err}");
            let said = err.lines().find(|said| said.contains("line 1: ")).unwrap();
            assert!(!said.contains("--again"), "{said}");
            assert!(!said.contains("--retry-failed"), "{said}");
            assert_eq!(advised(said, "windlass delete").len(), 1, "{said}");
        }
        let (_, err) = run(&place, &[], &line(id, "echo"));
        shell(&place, advised(&err, "windlass delete")[0]);
        let (code, err) = run(&place, &[], &line(id, "echo"));
        assert_eq!(code, 0, "{id}: {err}");
    }

    // A killed task of the batch: the option helps.
    place.write("lines", &line("own", "sleep 600"));
    let started = place.start(&["run", "--batch", "b", "lines"]);
    let get = ["get", "own", "-o", "json"];
    until("it runs", || place.run(&get).1.contains("\"node\":\""));
    assert_eq!(place.run(&["kill", "own", "--wait"]).0, 0);
    assert_eq!(started.wait(), Some(1));
    let (code, err) = run(&place, &[], &line("own", "echo"));
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("line 1: --retry-failed runs the lines that failed"),
        "{err}"
    );
    let (code, err) = run(&place, &["--retry-failed"], &line("own", "echo"));
    assert_eq!(code, 0, "{err}");
}

/// Regression: the advice said that only the line itself runs.
#[test]
fn the_advice_says_that_lines_behind_a_deleted_one_run_again() {
    let place = Place::new();
    let lines = |word: &str| {
        let behind = json!({"id": "u", "shell": "echo u >> log", "after": ["t"]});
        let alone = line("v", "echo v >> log");
        format!(
            "{}{behind}\n{alone}",
            line("t", &format!("echo {word} >> log"))
        )
    };
    assert_eq!(run(&place, &["-j", "1"], &lines("t")).0, 0);
    let (_, err) = run(&place, &[], &lines("T"));
    let says = "`windlass delete t`, then the same run again, runs this line and the lines that wait for it; --again";
    assert!(err.contains(says), "{err}");
    shell(&place, "windlass delete t");
    let (code, err) = run(&place, &[], &lines("T"));
    assert_eq!(code, 0, "{err}");
    let mut log: Vec<String> = place.read("log").lines().map(str::to_owned).collect();
    log.sort();
    assert_eq!(log, ["T", "t", "u", "u", "v"]);
}
