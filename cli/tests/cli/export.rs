//! `windlass export` and `windlass import`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::os::unix::fs::PermissionsExt;

use crate::live::Place;

fn ok(place: &Place, args: &[&str], expected: i32) -> String {
    let (code, out, err) = place.run(args);
    assert_eq!(code, expected, "{args:?}: {out}{err}");
    format!("{out}{err}")
}

/// A store with a few tasks in several states.
fn filled() -> Place {
    let place = Place::new();
    place.run_with(&["run", "--each", "echo {}"], b"1\n2\n3\n");
    let submit = ["submit", "exec", "--props", r#"{"command":"true"}"#, "--id"];
    ok(&place, &[&submit[..], &["b"]].concat(), 0);
    ok(&place, &[&submit[..], &["a", "--in", "2h"]].concat(), 0);
    ok(&place, &["pause", "b"], 0);
    place
}

fn listed(place: &Place, store: &str) -> Vec<serde_json::Value> {
    let mut tasks = place.list(&["--store", store]);
    for task in &mut tasks {
        let task = task.as_object_mut().unwrap();
        task.remove("order");
        // It grows from list to list.
        task.remove("late_seconds");
    }
    tasks
}

#[test]
fn a_store_goes_through_a_file_and_can_be_imported_again() {
    let place = filled();
    let said = ok(&place, &["export", "all.jsonl"], 0);
    assert!(said.contains("5 tasks in 'all.jsonl'"), "{said}");
    let mode = std::fs::metadata(place.path("all.jsonl"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let said = ok(&place, &["export", "all.jsonl"], 2);
    assert!(said.contains("it exists; name another file"), "{said}");
    let import = ["--store", "sqlite:t.db", "import", "all.jsonl"];
    let said = ok(&place, &import, 0);
    assert!(
        said.contains("5 tasks: 5 imported; 5 compared and the same"),
        "{said}"
    );
    assert_eq!(listed(&place, "sqlite:s.db"), listed(&place, "sqlite:t.db"));
    let said = ok(&place, &import, 0);
    assert!(said.contains("0 imported, 5 there already"), "{said}");
}

#[test]
fn a_store_goes_through_a_pipe() {
    let place = filled();
    let (code, text, err) = place.run(&["export"]);
    assert_eq!((code, err.as_str()), (0, "5 tasks exported\n"));
    assert_eq!(text.lines().count(), 7, "{text}");
    let import = ["--store", "sqlite:t.db", "import", "-"];
    let (code, out, err) = place.run_with(&import, text.as_bytes());
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("5 tasks: 5 imported; 5 compared"), "{out}");
    // The last line is missing.
    let cut = text.trim_end().rsplit_once('\n').unwrap().0;
    let import = ["--store", "sqlite:u.db", "import", "-"];
    let (code, out, err) = place.run_with(&import, cut.as_bytes());
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("the file is incomplete: it ends after line 6"),
        "{err}"
    );
    assert!(err.contains("nothing was written"), "{err}");
    assert!(!place.path("u.db").exists(), "no store was made");
}

/// Regression: parts of a task were left out, and the others were written; an unknown field was silently
/// dropped.
#[test]
fn a_line_that_the_store_does_not_take_whole_is_refused_before_anything_is_written() {
    let place = filled();
    ok(&place, &["export", "all.jsonl"], 0);
    let text = place.read("all.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut task: serde_json::Value = serde_json::from_str(lines[4]).unwrap();
        change(&mut task);
        let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        changed[4] = task.to_string();
        changed.join("\n") + "\n"
    };
    let labels: serde_json::Map<_, _> = (0..100).map(|n| (format!("l{n}"), "v".into())).collect();
    let labels = serde_json::Value::from(labels);
    for (text, says) in [
        (
            changed(&|task| task["task"]["labels"] = labels.clone()),
            "line 5: labels: ",
        ),
        (
            changed(&|task| task["fence"] = (1_u64 << 63).into()),
            "line 5: fence: ",
        ),
        (
            changed(&|task| task["state"]["later"] = 1.into()),
            "line 5: has a field or a value",
        ),
    ] {
        let import = ["--store", "sqlite:t.db", "import", "-"];
        let (code, out, err) = place.run_with(&import, text.as_bytes());
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(says), "{says}: {err}");
        assert!(err.contains("nothing was written"), "{err}");
        assert!(!place.path("t.db").exists());
    }
}

/// Regression: the export ended silently, like a list whose reader has closed the pipe.
#[test]
fn an_export_whose_reader_closes_the_pipe_fails() {
    let place = filled();
    let large: String = (0..200)
        .map(|n| {
            format!(
                "{{\"id\":\"l{n}\",\"kind\":\"k\",\"props\":\"{}\"}}\n",
                "x".repeat(9000)
            )
        })
        .collect();
    let (code, _, err) = place.run_with(&["submit", "--lines", "-"], large.as_bytes());
    assert_eq!(code, 0, "{err}");
    let mut export = place.windlass(&["export", "-"]);
    export.stdout(std::process::Stdio::piped());
    export.stderr(std::process::Stdio::piped());
    let mut export = export.spawn().unwrap();
    drop(export.stdout.take());
    let ended = export.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(4), "{err}");
    assert!(err.contains("the export is not whole"), "{err}");
}

#[test]
fn what_is_not_in_the_file_is_named() {
    let place = filled();
    let damage = "UPDATE windlass_states SET state = '{' WHERE n = (SELECT n FROM windlass_tasks WHERE id = 'a')";
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    file.execute_batch(damage).unwrap();
    let said = ok(&place, &["export", "all.jsonl"], 1);
    assert!(said.contains("error: a: "), "{said}");
    assert!(said.contains("4 tasks in 'all.jsonl'"), "{said}");
    let import = ["--store", "sqlite:t.db", "import", "all.jsonl"];
    let said = ok(&place, &import, 1);
    assert!(
        said.contains("lacks 1 task") && said.contains("--accept-missing"),
        "{said}"
    );
    assert!(!place.path("t.db").exists(), "nothing was written");
    let said = ok(&place, &[&import[..], &["--accept-missing"]].concat(), 1);
    assert!(
        said.contains("error: a: the file does not have it: "),
        "{said}"
    );
    assert!(
        said.contains("5 tasks: 4 imported, 1 left out; 4 compared"),
        "{said}"
    );
}

/// Regression: an export of tasks that cannot be read said that the store has no tasks.
#[test]
fn a_store_whose_tasks_are_all_damaged_is_not_called_empty() {
    let place = filled();
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    file.execute_batch("UPDATE windlass_states SET state = '{'")
        .unwrap();
    let said = ok(&place, &["export", "all.jsonl"], 1);
    assert!(said.contains("0 tasks in 'all.jsonl'"), "{said}");
    assert!(said.contains("tasks that cannot be read"), "{said}");
    assert!(!said.contains("has no tasks"), "{said}");
}

#[test]
fn a_wrong_line_and_a_store_with_tasks_are_refused() {
    let place = filled();
    ok(&place, &["export", "all.jsonl"], 0);
    let said = ok(&place, &["--store", "memory:", "import", "all.jsonl"], 2);
    assert!(
        said.contains("memory: is gone when this program ends"),
        "{said}"
    );
    ok(
        &place,
        &["--store", "sqlite:t.db", "submit", "k", "--id", "x"],
        0,
    );
    let import = ["--store", "sqlite:t.db", "import", "all.jsonl"];
    let said = ok(&place, &import, 1);
    assert!(
        said.contains("nothing was written: the store has 1 task"),
        "{said}"
    );
    place.write(
        "wrong.jsonl",
        &place
            .read("all.jsonl")
            .replacen("\"order\"", "\"ordre\"", 1),
    );
    let said = ok(
        &place,
        &["--store", "sqlite:u.db", "import", "wrong.jsonl"],
        2,
    );
    assert!(
        said.contains("'wrong.jsonl': line 2: order: is missing"),
        "{said}"
    );
}

/// Waits until a process has a file of this folder open.
fn has_a_file_in(process: u32, folder: &std::path::Path) {
    let started = std::time::Instant::now();
    let has_one = || {
        let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
            .any(|file| file.starts_with(folder))
    };
    while !has_one() {
        let waited = started.elapsed();
        assert!(
            waited.as_secs() < 30,
            "no file of {} is open",
            folder.display()
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Regression: an export that a signal ended left its temporary file, and so did an import from a
/// pipe.
#[test]
fn an_export_or_import_that_is_killed_leaves_no_file() {
    use std::{
        io::Write,
        process::Stdio,
        time::{Duration, Instant},
    };
    let place = filled();
    let (code, text, _) = place.run(&["export"]);
    assert_eq!(code, 0);
    let files = |folder: &std::path::Path| -> Vec<String> {
        let files = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = files
            .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        files
    };
    let temporary = place.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut import = place.windlass(&["--store", "sqlite:t.db", "import", "-"]);
    import.env("TMPDIR", &temporary);
    import.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut import = import.spawn().unwrap();
    let mut stdin = import.stdin.take().unwrap();
    // All but the last line: the import waits for it.
    let most = text.trim_end().rsplit_once('\n').unwrap().0;
    stdin.write_all(most.as_bytes()).unwrap();
    stdin.flush().unwrap();
    has_a_file_in(import.id(), &temporary);
    import.kill().unwrap();
    import.wait().unwrap();
    assert_eq!(files(&temporary), [] as [String; 0]);

    // A node works on the store: the export waits with its file open.
    let mut worker = place.windlass(&["worker"]);
    worker.stdout(Stdio::null()).stderr(Stdio::null());
    let mut worker = worker.spawn().unwrap();
    let started = Instant::now();
    while !place.run(&["nodes", "-o", "json"]).1.contains("\"name\"") {
        assert!(started.elapsed() < Duration::from_secs(30), "no node lives");
    }
    let folder = place.path("out");
    std::fs::create_dir(&folder).unwrap();
    let mut export = place.windlass(&["export", "--wait", "10m", "out/all.jsonl"]);
    export.stderr(Stdio::null());
    let mut export = export.spawn().unwrap();
    has_a_file_in(export.id(), &folder);
    export.kill().unwrap();
    export.wait().unwrap();
    assert_eq!(files(&folder), [] as [String; 0]);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(worker.id() as i32),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    worker.wait().unwrap();
}

/// Regression: an endless stream that only began like an export filled the disk.
#[test]
fn a_stream_that_is_no_export_is_refused_at_its_first_wrong_line() {
    use std::io::Write;
    let place = filled();
    let (_, text, _) = place.run(&["export"]);
    let head = text.lines().next().unwrap().to_owned();
    let mut import = place.windlass(&["--store", "sqlite:t.db", "import", "-"]);
    import
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut import = import.spawn().unwrap();
    let mut stdin = import.stdin.take().unwrap();
    writeln!(stdin, "{head}").unwrap();
    // It ends while its input stays open.
    while stdin.write_all(b"{\"zeros\":0}\n").is_ok() {}
    let ended = import.wait_with_output().unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{err}");
    assert!(err.contains("line 2: "), "{err}");
}

/// Makes an export of many tasks from that of the task `one`.
fn many(text: &str, tasks: u64) -> String {
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [head, one, end] = &lines[..] else {
        panic!("{text}")
    };
    let (mut head, mut end) = (head.clone(), end.clone());
    head["tasks"] = tasks.into();
    end["tasks"] = tasks.into();
    let mut text = head.to_string() + "\n";
    for n in 1..=tasks {
        let mut line = one.clone();
        let id = format!("t{n}");
        line["task"]["id"] = id.clone().into();
        line["order"] = n.into();
        for change in line["history"].as_array_mut().unwrap() {
            change["task"] = id.clone().into();
            change["seq"] = n.into();
        }
        text += &(line.to_string() + "\n");
    }
    text + &end.to_string() + "\n"
}

/// Regression: the error of the last write said that nothing was written.
#[test]
fn an_import_that_the_disk_ends_says_how_many_tasks_are_in_the_store() {
    let place = Place::new();
    let props = serde_json::json!({ "text": "x".repeat(4000) }).to_string();
    ok(
        &place,
        &["submit", "k", "--id", "one", "--props", &props],
        0,
    );
    let (_, one, _) = place.run(&["export"]);
    place.write("many.jsonl", &many(&one, 2000));
    let import = ["--store", "sqlite:t.db", "import", "many.jsonl"];
    let program = place.windlass(&import);
    // The unit is 512 or 1024 bytes.
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 6000; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(import)
        .current_dir(place.path(""));
    let output = limited.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{err}");
    assert!(!err.contains("nothing was written"), "{err}");
    let there = listed(&place, "sqlite:t.db").len();
    assert!((1..2000).contains(&there), "{there}");
    let says = format!("{there} tasks of the file are in the store: import the file again");
    assert!(err.contains(&says), "{err}");
    let said = ok(&place, &import, 0);
    assert!(said.contains("2000 compared and the same"), "{said}");
}
