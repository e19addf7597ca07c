//! The folders in which commands keep their own progress: their owners and modes.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
};

use crate::live::{Place, until};
use nix::sys::signal::Signal;
use serde_json::json;

/// The first attempt leaves a file in the task's folder and fails; one that finds it says so.
const STEPS: &str =
    "cd \"$WINDLASS_STATE_DIR\"; [ -e step ] && { echo again; exit; }; touch step; exit 1";

fn submit(place: &Place) {
    let props = json!({"shell": STEPS}).to_string();
    let (code, _, err) = place.run(&["submit", "exec", "--id", "t", "--props", &props]);
    assert_eq!(code, 0, "{err}");
}

fn work(place: &Place, more: &[&str]) {
    let args = [&["worker", "--until-idle", "--retry", "never"], more].concat();
    let (code, _, err) = place.run(&args);
    assert_eq!(code, 0, "{err}");
}

fn retry(place: &Place) {
    let (code, _, err) = place.run(&["retry", "t"]);
    assert_eq!(code, 0, "{err}");
}

/// The folder of the only store, with those of its tasks in it.
fn of_store(place: &Place) -> PathBuf {
    let mut found = fs::read_dir(place.path("s.db.tasks")).unwrap();
    found.next().unwrap().unwrap().path()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Gives a store another name: the file, and its log if a process has left one.
fn rename(place: &Place, from: &str, to: &str) {
    for end in ["", "-wal", "-shm"] {
        let [from, to] = [from, to].map(|name| place.path(&format!("{name}{end}")));
        if end.is_empty() || from.exists() {
            fs::rename(from, to).unwrap();
        }
    }
}

#[test]
fn a_worker_on_another_store_leaves_folders_alone() {
    let place = Place::new();
    submit(&place);
    work(&place, &[]);
    assert_eq!(place.get("t")["state"], "failed");
    // Another file replaces the store for a while.
    rename(&place, "s.db", "kept.db");
    work(&place, &[]);
    rename(&place, "s.db", "other.db");
    rename(&place, "kept.db", "s.db");
    retry(&place);
    work(&place, &[]);
    assert_eq!(place.run(&["logs", "t"]).1, "again\n");
    assert!(!place.path("s.db.tasks").exists(), "no folder is left");
}

#[test]
fn a_task_submitted_again_begins_with_an_empty_folder() {
    let place = Place::new();
    for _ in 0..2 {
        submit(&place);
        work(&place, &[]);
        assert_eq!(place.get("t")["state"], "failed");
        assert_eq!(place.run(&["delete", "t", "--yes"]).0, 0);
    }
    // The next worker removes the folders of the deleted tasks.
    work(&place, &[]);
    assert!(!place.path("s.db.tasks").exists(), "no folder is left");
}

#[test]
fn a_link_to_the_store_leads_to_the_same_folders() {
    let place = Place::new();
    submit(&place);
    work(&place, &[]);
    retry(&place);
    symlink(place.path("s.db"), place.path("link.db")).unwrap();
    work(&place, &["--store", "sqlite:link.db"]);
    assert_eq!(place.run(&["logs", "t"]).1, "again\n");
    assert!(!place.path("link.db.tasks").exists());
}

#[test]
fn folders_and_records_are_only_for_their_user() {
    let place = Place::new();
    fs::create_dir(place.path("s.db.tasks")).unwrap();
    fs::set_permissions(place.path("s.db.tasks"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "umask 0; touch \"$WINDLASS_STATE_DIR/x\"; touch ready; sleep 600";
    let props = json!({"shell": script, "cwd": place.path("")}).to_string();
    let (code, _, err) = place.run(&["submit", "exec", "--id", "t", "--props", &props]);
    assert_eq!(code, 0, "{err}");
    let worker = place.start(&["worker"]);
    until("it runs", || place.path("ready").exists());
    let mut found = Vec::new();
    until("the command is written down", || {
        let of_store = of_store(&place);
        found = fs::read_dir(of_store)
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .collect();
        found.len() == 2
    });
    assert_eq!(mode(&place.path("s.db.tasks")), 0o700);
    assert_eq!(mode(&of_store(&place)), 0o700);
    for path in found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
}

/// Regression: the name of such a folder was predictable, so a link at that path could lead
/// elsewhere.
#[test]
fn the_store_in_memory_trusts_no_folder_that_is_there() {
    let place = Place::new();
    let kept = place.write("others/t/kept", "");
    fs::create_dir(place.path("tmp")).unwrap();
    let mut shell = std::process::Command::new("sh");
    // `exec` gives the program the process number of the shell.
    let script = "ln -s \"$PWD/others\" \"tmp/windlass-$$.tasks\"; exec \"$0\" \"$@\"";
    shell
        .args(["-c", script, env!("CARGO_BIN_EXE_windlass")])
        .args(["--store", "memory:", "run", "--each", "touch {}"])
        .current_dir(place.path(""))
        .env("TMPDIR", place.path("tmp"))
        .stdin(fs::File::open(place.write("lines", "made\n")).unwrap());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(place.path("made").exists());
    assert!(kept.exists(), "a folder that the link leads to was removed");
    let left = fs::read_dir(place.path("tmp")).unwrap().count();
    assert_eq!(left, 1, "only the link is left");
}

/// The next attempt uses the folder of the attempt that a worker has lost.
#[test]
fn a_worker_that_has_lost_a_task_leaves_its_folder_to_the_next() {
    let place = Place::new();
    let script = "echo $$ > pid-$WINDLASS_ATTEMPT.new; mv pid-$WINDLASS_ATTEMPT.new pid-$WINDLASS_ATTEMPT; \
                  until [ -e go ]; do sleep 0.05; done; touch \"$WINDLASS_STATE_DIR/x\" && echo kept";
    let props = json!({"shell": script, "cwd": place.path(""), "grace": "100ms"}).to_string();
    let (code, _, err) = place.run(&["submit", "exec", "--id", "t", "--props", &props]);
    assert_eq!(code, 0, "{err}");
    let zombie = place.start(&["worker", "--name", "zombie", "--lease-ttl", "1s"]);
    place.pids("pid-1");
    // Also stops its supervisor, which would end the command of a worker that stands still.
    zombie.signal(Signal::SIGSTOP);
    zombie.signal_worker(Signal::SIGSTOP);
    let next = place.start(&["worker", "--name", "next", "--lease-ttl", "1s"]);
    place.pids("pid-2");
    zombie.signal_worker(Signal::SIGCONT);
    zombie.signal(Signal::SIGCONT);
    zombie.signal(Signal::SIGTERM);
    assert_eq!(zombie.wait(), Some(0));
    place.write("go", "");
    until("it ends", || {
        place.get("t")["state"] == "completed" || place.get("t")["attempts"] == 2
    });
    assert_eq!(place.run(&["logs", "t"]).1, "kept\n");
    next.signal(Signal::SIGTERM);
    assert_eq!(next.wait(), Some(0));
}

#[test]
fn folders_that_a_command_left_without_write_permission_are_removed_with_its_task() {
    const NOBODY: u32 = 65534;
    let place = Place::new();
    let script = "cd \"$WINDLASS_STATE_DIR\" && mkdir -p mod/cache && echo x > mod/cache/f && chmod -R a-w . && \
                  chmod 0 mod/cache";
    // Root may remove everything, so another user runs it then.
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(place.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let run = |args: &[&str]| {
        let mut command = place.windlass(args);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{err}");
        err
    };
    run(&["submit", "--id", "t", "--shell", script]);
    let err = run(&["worker", "--until-idle"]);
    assert_eq!(place.get("t")["state"], "completed", "{err}");
    assert!(!place.path("s.db.tasks").exists(), "{err}");
}
