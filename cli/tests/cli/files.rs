//! The program and the file of its store: names, logs, modes, a file that goes away, and processes in
//! namespaces of their own.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::live::{Place, Running, until, until_gone};

/// Whether this machine lets a test make namespaces of its own (root, or a permissive container).
fn may_unshare(kind: &str) -> bool {
    let made = Command::new("unshare")
        .args([kind, "--fork", "true"])
        .status();
    let may = made.is_ok_and(|status| status.success());
    if !may {
        // Not by a macro, whose output a test that passes does not show.
        let text = format!("NOT TESTED HERE: this machine forbids unshare {kind}; run it as root");
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    may
}

/// As made by `docker run -v /srv/jobs.db:/jobs.db`.
#[test]
fn a_file_that_is_mounted_by_itself_is_refused() {
    if !may_unshare("--mount") {
        return;
    }
    let place = Place::new();
    assert_eq!(place.run(&["submit", "k", "--id", "t"]).0, 0);
    let mounted = place.write("with space/mounted.db", "");
    let script = "mount --bind s.db \"$1\" && exec \"$2\" --store \"sqlite:$1\" list";
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&mounted)
        .arg(env!("CARGO_BIN_EXE_windlass"))
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(4), "{err}");
    assert!(
        err.contains("mounted on its own") && err.contains("mount the folder"),
        "{err}"
    );
    assert!(err.contains(&mounted.display().to_string()), "{err}");
    assert_eq!(place.list(&[]).len(), 1);
}

/// Regression: only the doctor named the full disk. The other commands, which write nothing, said that no node lives.
#[test]
fn a_full_disk_is_named_by_why_and_top() {
    if !may_unshare("--mount") {
        return;
    }
    let place = Place::new();
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let script = "set -e
        mount -t tmpfs -o size=4m none \"$1\"; cd \"$1\"; export WINDLASS_STORE=sqlite:s.db
        \"$2\" submit mail --id t; \"$2\" why; echo '==>'; cat /dev/zero > zeros 2>&1 || true
        \"$2\" why; \"$2\" top --once --every 100ms; \"$2\" why t; \"$2\" why -o json";
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&disk)
        .arg(env!("CARGO_BIN_EXE_windlass"))
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{out}{err}");
    let (before, full) = out.split_once("==>").unwrap();
    let says = "the store takes no writes, so no task makes progress: ";
    assert!(!before.contains(says), "{out}");
    assert_eq!(full.matches(says).count(), 3, "{out}");
    assert!(full.contains("   try: windlass doctor"), "{out}");
    let json = serde_json::from_str::<serde_json::Value>(full.lines().last().unwrap()).unwrap();
    let text = json["no_writes"].as_str().unwrap();
    assert!(text.contains("is full (0 KiB free)"), "{text}");
}

/// The log may hold acknowledged tasks. A new file next to it would make SQLite delete it.
#[test]
fn a_log_whose_file_is_missing_is_refused_by_every_command() {
    let place = Place::new();
    let log = place.write("s.db-wal", "what was acknowledged");
    let target = format!("sqlite:{}", place.path("copy.db").display());
    let source = format!("sqlite:{}", place.path("s.db").display());
    for args in [
        &["list"][..],
        &["get", "t"],
        &["doctor"],
        &["submit", "k"],
        &["worker", "--until-idle"],
        &["copy", "--from", &source, "--to", &target],
    ] {
        let (code, _, err) = place.run(args);
        assert_eq!(code, 4, "{args:?}: {err}");
        assert!(
            err.contains("the file is missing") && err.contains("s.db-wal"),
            "{args:?}: {err}"
        );
    }
    let left: Vec<_> = fs::read_dir(place.path("")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing was created: {left:?}");
    assert_eq!(fs::read_to_string(log).unwrap(), "what was acknowledged");
}

#[test]
fn a_worker_whose_file_goes_away_stops_its_commands_and_ends() {
    let place = Place::new();
    let props = json!({"shell": "echo $$ > pid.new; mv pid.new pid; exec sleep 600", "cwd": place.path("")});
    let props = props.to_string();
    let submit = ["submit", "exec", "--id", "t", "--props", &props];
    assert_eq!(place.run(&submit).0, 0);
    let mut worker = place.windlass(&["worker"]);
    let said = fs::File::create(place.path("said")).unwrap();
    worker.stdout(Stdio::null()).stderr(said);
    let worker = Running::of(worker.spawn().unwrap());
    let pids = place.pids("pid");

    fs::rename(place.path("s.db"), place.path("moved.db")).unwrap();
    assert_eq!(worker.wait(), Some(4));
    until_gone(&pids);
    let said = place.read("said");
    assert!(
        said.contains("was moved, deleted or replaced") && said.contains("start again"),
        "{said}"
    );
    // The log is still there, so that nobody starts with an empty store.
    let (code, _, err) = place.run(&["submit", "k"]);
    assert_eq!(code, 4, "{err}");
    fs::rename(place.path("moved.db"), place.path("s.db")).unwrap();
    assert_eq!(place.get("t")["state"], "runnable");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn no_umask_lets_other_users_read_the_tasks() {
    let place = Place::new();
    // The default store, so that its folder is created, too.
    let mut worker = Command::new("sh");
    worker
        .args(["-c", "umask 0; exec \"$0\" worker"])
        .arg(env!("CARGO_BIN_EXE_windlass"))
        .env("XDG_DATA_HOME", place.path("data"))
        .env_remove("WINDLASS_STORE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let worker = Running::of(worker.spawn().unwrap());
    let folder = place.path("data/windlass");
    let parts = ["windlass.db", "windlass.db-wal", "windlass.db-shm"].map(|name| folder.join(name));
    until("the files are there", || parts.iter().all(|p| p.exists()));
    assert_eq!(mode(&folder), 0o700);
    for part in parts {
        assert_eq!(mode(&part), 0o600, "{}", part.display());
    }
    worker.kill();
}

/// Inside, `/proc` still shows the processes of the machine, with other numbers. Its entry for the
/// number of the worker is about another process, so nothing is recorded and nothing is concluded.
#[test]
fn a_worker_in_a_pid_namespace_with_the_proc_of_the_machine_lives() {
    if !may_unshare("--pid") {
        return;
    }
    let place = Place::new();
    let props = json!({"shell": "touch begun; sleep 600", "cwd": place.path("")}).to_string();
    let submit = ["submit", "exec", "--id", "t", "--props", &props];
    assert_eq!(place.run(&submit).0, 0);
    // The submit ends the leases of processes that have ended.
    let script = "\"$0\" worker & worker=$!
        for i in $(seq 600); do [ -e begun ] || sleep 0.05; done
        \"$0\" submit k >/dev/null
        \"$0\" nodes -o json >nodes
        kill $worker; wait $worker";
    let ran = Command::new("timeout")
        .args(["60", "unshare", "--pid", "--fork", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_windlass"))
        .current_dir(place.path(""))
        .env("WINDLASS_STORE", "sqlite:s.db")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{err}");
    assert_eq!(place.read("nodes").lines().count(), 1, "{err}");
    assert_eq!(place.get("t")["attempts"], 0, "{err}");
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let noted = file.query_row("SELECT process FROM windlass_leases", (), |row| {
        row.get::<_, Option<String>>(0)
    });
    assert_eq!(noted.unwrap(), None, "the start of another process");
}

/// Regression: such inputs filled the memory.
#[test]
fn input_without_an_end_is_refused() {
    let place = Place::new();
    assert_eq!(place.run(&["submit", "k", "--id", "t"]).0, 0);
    for args in [
        &["submit", "k", "--props", "-"][..],
        &["submit", "k", "--props", "@/dev/zero"],
        &["complete", "t", "--result", "-"],
        &["signal", "t", "go", "--payload", "-"],
        &[
            "schedule", "create", "s", "--every", "1h", "--kind", "k", "--props", "-",
        ],
        &["schedule", "create", "s", "--spec", "-"],
        &["schedule", "import", "-"],
        &["schedule", "import", "/dev/zero"],
        &["apply", "-"],
        &["apply", "/dev/zero"],
        &["run", "-"],
        &["run", "/dev/zero"],
        &["import", "-"],
    ] {
        let mut command = place.windlass(args);
        command.stdin(fs::File::open("/dev/zero").unwrap());
        let ended = command.output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {err}");
        assert!(
            err.contains("has more than ") && err.contains(" bytes")
                || args == ["import", "-"] && err.contains("it is not a file of `windlass export`"),
            "{args:?}: {err}"
        );
    }
}

/// Even a command that only lists takes the waiting rows.
#[test]
fn a_command_notes_the_rows_that_it_has_refused() {
    let place = Place::new();
    assert_eq!(place.run(&["submit", "k"]).0, 0);
    let file = rusqlite::Connection::open(place.path("s.db")).unwrap();
    let insert = "INSERT INTO windlass_inbox (operation) VALUES ('{}')";
    for command in [&["list"][..], &["submit", "k"], &["stats"]] {
        file.execute(insert, ()).unwrap();
        file.execute(insert, ()).unwrap();
        let (code, _, err) = place.run(command);
        assert_eq!(code, 0, "{err}");
        let notes: Vec<&str> = err
            .lines()
            .filter(|line| line.contains("windlass_inbox"))
            .collect();
        assert_eq!(notes.len(), 1, "{command:?}: {err}");
        assert!(notes[0].contains("was refused (op: is missing"), "{err}");
        assert!(notes[0].contains(", and 1 more; `windlass doctor"), "{err}");
        // Each is noted once.
        let (_, _, err) = place.run(&["list"]);
        assert!(!err.contains("windlass_inbox"), "{err}");
    }
}
