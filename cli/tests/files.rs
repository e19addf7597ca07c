//! The program and the file of its store: names, logs, modes, and a file that goes away.

mod live;

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::json;

use live::{Place, Running, until_gone};

/// Whether this machine lets a test make namespaces of its own (root, or a permissive container).
fn may_unshare(kind: &str) -> bool {
    let made = Command::new("unshare").args([kind, "true"]).status();
    let may = made.is_ok_and(|status| status.success());
    if !may {
        eprintln!("NOT TESTED HERE: this machine forbids `unshare {kind}`; run it as root");
    }
    may
}

/// What `docker run -v /srv/jobs.db:/jobs.db` makes.
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
        err.contains("mounted by itself") && err.contains("mount the folder"),
        "{err}"
    );
    assert!(err.contains(&mounted.display().to_string()), "{err}");
    assert_eq!(place.list(&[]).len(), 1);
}

/// The log may hold acknowledged tasks. A new file beside it would make SQLite delete it.
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
