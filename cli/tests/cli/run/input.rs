//! The lines of a batch, and the options of `windlass run`.

use serde_json::json;

use super::*;

#[test]
fn malformed_lines_are_reported_by_number_and_nothing_is_run() {
    let place = Place::new();
    let lines = "{\"id\":\"good\",\"command\":\"true\"}\n\n{\"command\":\n{\"kommand\":\"x\"}\n\
                 {\"id\":\"a/b\",\"command\":\"x\"}\n{\"command\":\"x\",\"timeout\":\"soon\"}\n\
                 {\"command\":\"x\",\"props\":{}}\n{\"kind\":\"mail\",\"command\":\"x\"}\n\
                 {\"command\":\"x\",\"labels\":{\"batch\":\"y\"}}\n";
    place.write("tasks", lines);
    let wrong = [
        "line 3: task: is not JSON: EOF while parsing a value at character 11",
        "line 4: task: 'kommand' is not a field; write 'command'",
        "line 5: id: 'a/b' contains '/'",
        "line 6: props.timeout: 'soon' is not a duration",
        "line 7: props: are given together with the fields of a command",
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
        err.contains("standard input: line 2: text: is not UTF-8 at byte 2"),
        "{err}"
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_line() {
    let place = Place::new();
    let each = [
        "run",
        "-j",
        "1",
        "--each",
        "printf <%s> {}",
        "--print-output",
    ];
    let lines = "\u{feff}a\r\nb\r\nlast";
    place.write("list", lines);
    let (code, out, err) = place.run(&[&each[..], &["--batch", "file", "list"]].concat());
    assert_eq!((code, out.as_str()), (0, "<a><b><last>"), "{err}");
    let from_pipe = [&each[..], &["--batch", "pipe"]].concat();
    let (code, out, err) = place.run_with(&from_pipe, lines.as_bytes());
    assert_eq!((code, out.as_str()), (0, "<a><b><last>"), "{err}");
    place.write(
        "tasks",
        "\u{feff}{\"command\":\"printf\",\"args\":[\"hi\"]}\r\n",
    );
    let (code, out, err) = place.run(&["run", "--print-output", "tasks"]);
    assert_eq!((code, out.as_str()), (0, "hi"), "{err}");
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
    // Names that end with NUL may contain any other byte.
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
            "'0s' is too short; give a longer one",
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
    // The command in the message runs them.
    let hint = err.split('`').nth(1).unwrap();
    let words: Vec<&str> = hint.split(' ').skip(1).collect();
    let (code, _, err) = place.run(&words);
    assert_eq!(code, 0, "{err}");
    assert_eq!(place.read("ran").lines().count(), 4);
    let (code, out, _) = place.run(&json);
    assert_eq!((code, &summary(&out)["left_out"]), (0, &0.into()));
}

/// Another task in the store has the id: that task does not run, and the line does not replace it.
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

/// A path is cached for a second; a missing one is not an error while another folder has the
/// program.
#[test]
fn a_program_that_is_removed_is_found_in_a_later_folder_of_path() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    for (folder, also) in [("a", "rm \"$0\""), ("b", "")] {
        let text = format!("#!/bin/sh\necho {folder} $1 >> ran\n{also}\n");
        let tool = place.write(&format!("{folder}/tool"), &text);
        fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).unwrap();
    }
    place.write("lines", "1\n2\n3\n");
    let folders = [place.path("a"), place.path("b")];
    let rest = std::env::var_os("PATH").unwrap();
    let all = folders.into_iter().chain(std::env::split_paths(&rest));
    let mut run = place.windlass(&["run", "-j", "1", "--each", "tool {}", "lines"]);
    run.env("PATH", std::env::join_paths(all).unwrap());
    let output = run.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(place.read("ran"), "a 1\nb 2\nb 3\n");
}

/// `shell_words` reads a word that begins with `#` as a comment.
#[test]
fn a_number_sign_in_each_is_an_ordinary_character() {
    let place = Place::new();
    let each = "printf '%s|' issue #{} end";
    let (code, out, err) = place.run_with(&["run", "--each", each, "--print-output"], b"7\n");
    assert_eq!((code, out.as_str()), (0, "issue|#7|end|"), "{err}");

    // The line is an argument of the program `#touch`, and not a program.
    let each = ["run", "--each", "#touch {}", "--retry", "1"];
    let (code, _, err) = place.run_with(&each, b"true\n");
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("#touch"), "{err}");
}

/// Regression: with a line that was too large the others ran, and the exit code was 1.
#[test]
fn a_line_that_is_too_large_is_wrong_before_anything_runs() {
    let place = Place::new();
    let large = "x".repeat(1_500_000);
    place.write(
        "tasks",
        &format!(
            "{{\"id\":\"small\",\"shell\":\"touch ran\"}}\n{{\"id\":\"large\",\"command\":\"echo\",\"args\":[\"{large}\"]}}\n"
        ),
    );
    let (code, _, err) = place.run(&["run", "tasks"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("tasks: line 2: props has 15000"), "{err}");
    assert!(err.contains("the store takes at most 1048576"), "{err}");
    assert!(
        err.contains("1 of 2 lines is wrong and nothing was run"),
        "{err}"
    );
    assert!(!place.path("ran").exists() && !place.path("s.db").exists());

    let (code, _, err) = place.run(&["run", "tasks", "--keep-going"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("line 2: props has 15000"), "{err}");
    assert!(place.path("ran").exists());
}

/// Regression: the node listed the kind `schedule`, and claimed no schedule.
#[test]
fn the_node_of_a_run_lists_no_schedules() {
    let place = Place::new();
    place.write("tasks", "1\n");
    let each = ": {}; touch began; while [ ! -e go ]; do sleep 0.02; done";
    let run = place.start(&["run", "--each", each, "--shell", "tasks"]);
    until("its command runs", || place.path("began").exists());
    let (code, out, err) = place.run(&["nodes", "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let node: Value = serde_json::from_str(out.trim()).unwrap();
    let node = if node.is_array() { &node[0] } else { &node };
    assert_eq!(node["kinds"], json!(["exec/run"]), "{out}");
    place.write("go", "");
    assert_eq!(run.wait(), Some(0));
}
