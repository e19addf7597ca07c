//! Commands that read, by a user that cannot write the store.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::live::{Place, Running, until};

/// The user `nobody`. Modes do not bind root, so root runs the commands as this one.
const NOBODY: u32 = 65_534;

/// A store in a folder that another user can only read.
struct Shared {
    place: Place,
    program: PathBuf,
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

impl Shared {
    /// With the tasks `done`, which has printed a line, and `waits`.
    fn new() -> Self {
        let place = Place::new();
        // Possibly only the owner may enter the folder of the build.
        let program = place.path("windlass");
        fs::copy(env!("CARGO_BIN_EXE_windlass"), &program).unwrap();
        place.write(
            "lines.jsonl",
            r#"{"id":"done","command":"echo","args":["hello"]}"#,
        );
        let (code, _, err) = place.run(&["run", "lines.jsonl"]);
        assert_eq!(code, 0, "{err}");
        assert_eq!(place.run(&["submit", "k", "--id", "waits"]).0, 0);
        Self { place, program }
    }

    fn file(&self) -> PathBuf {
        self.place.path("s.db")
    }

    fn protect(&self, folder: u32) {
        set_mode(&self.file(), 0o444);
        set_mode(&self.place.path(""), folder);
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = std::process::Command::new(&self.program);
        command
            .args(args)
            .current_dir("/")
            .env("WINDLASS_STORE", self.place.store())
            .env_remove("WINDLASS_LOG")
            .stdin(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        (
            output.status.code().unwrap_or(-1),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }

    fn reads(&self, args: &[&str], says: &str) {
        let (code, out, err) = self.run(args);
        assert!(
            code == 0 && out.contains(says),
            "{args:?}: {code}\n{out}\n{err}"
        );
    }

    /// Asserts the output of every command that reads.
    fn can_be_read(&self) {
        self.reads(&["list"], "waits");
        self.reads(&["get", "done"], "completed");
        self.reads(&["stats"], "exec");
        self.reads(&["nodes", "-o", "json"], "[");
        // The task ended in the past, so the watch times out.
        let (code, _, said) = self.run(&["watch", "--timeout", "50ms"]);
        assert_eq!(code, 5, "{said}");
        self.reads(&["watch", "--after", "0", "--limit", "1"], "submitted");
        self.reads(&["doctor"], "this user can only read '");
        self.reads(&["logs", "done"], "hello\n");
    }

    fn beside(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.path("")).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|n| n.starts_with("s.db")).collect();
        names.sort();
        names
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Its owner removes what is in it.
        set_mode(&self.place.path(""), 0o755);
    }
}

#[test]
fn a_file_and_a_folder_that_are_read_only_are_read() {
    let shared = Shared::new();
    for folder in [0o555, 0o777] {
        shared.protect(folder);
        let before = shared.beside();
        shared.can_be_read();
        assert_eq!(shared.beside(), before, "nothing is made beside the file");
    }
}

/// Modes do not restrict root; the file belongs to root only when root runs the tests.
#[test]
fn a_file_of_another_user_is_reported_with_its_owner_and_mode() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let shared = Shared::new();
    set_mode(&shared.file(), 0o600);
    set_mode(&shared.place.path(""), 0o777);
    for args in [&["submit", "k"][..], &["list"]] {
        let (code, _, err) = shared.run(args);
        assert_eq!(code, 4, "{err}");
        let says = "the file belongs to the user 'root' and has mode 0600; run as that user";
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

#[test]
fn what_writes_says_that_the_file_is_read_only_and_changes_nothing() {
    let shared = Shared::new();
    shared.protect(0o555);
    let before = fs::read(shared.file()).unwrap();
    for args in [
        &["submit", "k"][..],
        &["kill", "waits"],
        &["delete", "waits"],
        &["doctor", "--repair"],
    ] {
        let (code, out, err) = shared.run(args);
        assert_eq!(code, 4, "{args:?}: {out}{err}");
        let says =
            err.contains("is read-only for this user; make the file and its folder writable");
        assert!(says, "{args:?}: {err}");
    }
    assert_eq!(fs::read(shared.file()).unwrap(), before);
}

#[test]
fn a_store_in_use_is_read_as_it_is_now() {
    let shared = Shared::new();
    set_mode(&shared.file(), 0o644);
    let mut worker = shared.place.windlass(&["worker", "--name", "busy"]);
    worker.stdout(Stdio::null()).stderr(Stdio::null());
    let worker = Running::of(worker.spawn().unwrap());
    until("the worker is there", || {
        let (_, out, _) = shared.place.run(&["nodes", "-o", "json"]);
        out.contains("busy")
    });
    set_mode(&shared.place.path(""), 0o755);
    // A change that is only in the log is read too.
    assert_eq!(shared.place.run(&["submit", "k", "--id", "new"]).0, 0);
    shared.reads(&["list"], "new");
    shared.reads(&["nodes"], "busy");
    drop(worker);
}
