//! Which commands a worker ends that other claims of a task have left on this machine.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

use std::{
    fs,
    io::Write,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::live::{Place, is_alive, until, until_gone};
use serde_json::{Value, json};

fn submit(place: &Place, id: &str, script: &str) {
    let props = json!({"shell": script, "cwd": place.path(""), "grace": "10m"});
    let (code, _, err) = place.run(&["submit", "exec", "--id", id, "--props", &props.to_string()]);
    assert_eq!(code, 0, "{err}");
}

/// A process in the role of the command of another claim; it ignores SIGTERM.
struct Other {
    child: Child,
    marker: PathBuf,
}

impl Other {
    fn start(place: &Place) -> Self {
        let script = "exec 2>/dev/null; trap 'echo TERM >> signals' TERM; touch ready; \
                      while :; do sleep 0.05; done";
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(place.path(""))
            .stdin(Stdio::null())
            .process_group(0);
        let child = command.spawn().unwrap();
        let marker = place.path("ready");
        until("the process is there", || marker.exists());
        Self { child, marker }
    }

    fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none() && self.marker.exists()
    }

    /// Writes the record of a claim with this fence that names the process as its command,
    /// replacing the existing record.
    fn record(&self, path: &Path, fence: u64) {
        self.record_held_by(path, fence, &identity(std::process::id()));
    }

    /// The same, with the process that would end the command.
    fn record_held_by(&self, path: &Path, fence: u64, holder: &Value) {
        let command = identity(self.child.id());
        let record =
            json!({"fence": fence, "leader": command, "holders": [holder], "grace_ms": 100});
        let new = path.with_extension("new");
        fs::write(&new, format!("{record}\n")).unwrap();
        set_mode(&new, 0o600);
        fs::rename(new, path).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// A process as a record names it.
fn identity(pid: u32) -> Value {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let start: u64 = fields.clone().nth(19).unwrap().parse().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let space = fs::read_link("/proc/self/ns/pid").unwrap();
    json!({"pid": pid, "start": start, "boot": boot.trim(), "space": space})
}

/// Submits a task, and returns the path of the record of its running command.
fn submit_with_record(place: &Place, id: &str, script: &str) -> PathBuf {
    // One that fails leaves its folder, and so the folder of the store.
    submit(place, "first", "touch \"$WINDLASS_STATE_DIR/file\"; exit 1");
    let (code, _, err) = place.run(&["worker", "--until-idle", "--retry", "never"]);
    assert_eq!(code, 0, "{err}");
    submit(place, id, script);
    let order = place.get(id)["order"].as_u64().unwrap();
    let store = fs::read_dir(place.path("s.db.tasks")).unwrap().next();
    let store = store.unwrap().unwrap().path();
    store.join(format!("{id}@{order}.run"))
}

/// A worker stood still between the claim and the start of the command, while the next owner started
/// its own command.
#[test]
fn a_worker_leaves_the_command_of_a_later_claim_alone() {
    let place = Place::new();
    let record = submit_with_record(&place, "t", "touch started");
    let mut other = Other::start(&place);
    other.record(&record, 1_000_000);
    let before = fs::read(&record).unwrap();
    let worker = place.start(&["worker", "--retry", "never"]);
    until("the task was claimed, and claimed again", || {
        place.get("t")["claims"].as_u64() >= Some(2) || place.path("started").exists()
    });
    assert!(!place.path("started").exists() && other.lives());
    assert_eq!(place.read("signals"), "", "it got SIGTERM");
    assert_eq!(fs::read(&record).unwrap(), before);
    assert_eq!(place.get("t")["attempts"], 0, "a lost claim is no attempt");
    // The other claim has ended.
    fs::remove_file(&record).unwrap();
    until("it runs", || place.get("t")["state"] == "completed");
    drop(worker);
    assert!(other.lives());
}

/// The claim is lost after the search for processes of an earlier attempt.
#[test]
fn a_worker_that_ends_a_leftover_stops_when_a_later_claim_has_a_command() {
    let place = Place::new();
    let record = submit_with_record(&place, "t", "touch started");
    let mut other = Other::start(&place);
    other.record(&record, 1);
    let worker = place.start(&["worker", "--retry", "never", "--grace", "10m"]);
    place.until_lines("signals", 1);
    other.record(&record, 1_000_000);
    let before = fs::read(&record).unwrap();
    // Earlier, this dropped the attempt and so sent SIGKILL.
    assert_eq!(place.run(&["delete", "t", "--yes", "--force"]).0, 0);
    submit(&place, "u", "true");
    until("the worker goes on", || {
        place.get("u")["state"] == "completed"
    });
    until("the delete is done", || place.run(&["get", "t"]).0 != 0);
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(worker.wait(), Some(0));
    assert!(other.lives());
    assert_eq!(place.read("signals"), "TERM\n");
    assert_eq!(fs::read(&record).unwrap(), before);
}

#[test]
fn the_next_attempt_ends_what_left_the_group_when_worker_and_supervisor_were_killed() {
    let place = Place::new();
    let script = "if [ -e pids ]; then exit 0; fi; \
        (setsid sh -c 'echo $$ > far; exec sleep 600' &); while ! [ -s far ]; do sleep 0.01; done; \
        echo $$ $(cat far) > pids.new; mv pids.new pids; sleep 600";
    submit(&place, "t", script);
    let first = place.start(&["worker", "--lease-ttl", "5s"]);
    let pids = place.pids("pids");
    let second = place.start(&["worker", "--grace", "1s"]);
    until("the second worker works", || {
        let nodes = place.run(&["nodes", "-o", "json"]).1;
        nodes.matches("\"name\"").count() == 2
    });
    first.kill();
    until("the next attempt runs", || {
        place.get("t")["state"] == "completed"
    });
    assert!(
        !pids.iter().any(|pid| is_alive(*pid)),
        "something of the first attempt lives beside the next"
    );
    drop(second);
    until_gone(&pids);
}

/// What a worker finds that starts while the worker and the supervisor before it, which were killed together, still end;
/// the task was paused meanwhile, so no attempt ends the command.
#[test]
fn a_worker_ends_the_commands_of_workers_that_die_after_it_has_started() {
    for is_deleted in [false, true] {
        let place = Place::new();
        let record = submit_with_record(&place, "t", "touch started");
        assert_eq!(place.run(&["pause", "t"]).0, 0);
        let folder = record.with_extension("");
        fs::create_dir(&folder).unwrap();
        let mut other = Other::start(&place);
        let mut holder = Command::new("sleep").arg("600").spawn().unwrap();
        other.record_held_by(&record, 1, &identity(holder.id()));
        let worker = place.start(&["worker"]);
        until("the worker works", || {
            place.run(&["nodes", "-o", "json"]).1.contains("\"name\"")
        });
        if is_deleted {
            assert_eq!(place.run(&["delete", "t", "--yes"]).0, 0);
        }
        assert!(other.lives(), "a process that ends it lives");
        holder.kill().unwrap();
        holder.wait().unwrap();
        until("the command is ended", || !other.lives());
        until("its record is removed", || !record.exists());
        until("the folder of a deleted task is removed", || {
            folder.exists() != is_deleted
        });
        worker.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(worker.wait(), Some(0));
        assert!(!place.path("started").exists());
    }
}

/// A user who is not involved in the test.
const NOBODY: u32 = 65534;

/// Gives a file or folder to another user; false where this one has no right to.
fn give_away(path: &Path) -> bool {
    match std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)) {
        Ok(()) => true,
        Err(error) => {
            // Not by a macro, whose output a test that passes does not show.
            let _ = writeln!(std::io::stderr(), "NOT TESTED HERE: {error}");
            false
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_record_that_another_user_may_have_written_ends_no_process() {
    let us = identity(std::process::id());
    let mut gone = us.clone();
    gone["start"] = json!(0);
    // A worker that starts ends the command of an orphan, the next attempt that of any earlier one.
    for (by_mode, holder) in [(true, &us), (true, &gone), (false, &us), (false, &gone)] {
        let place = Place::new();
        let record = submit_with_record(&place, "t", "touch started");
        let mut other = Other::start(&place);
        other.record_held_by(&record, 1, holder);
        match by_mode {
            true => set_mode(&record, 0o666),
            false if give_away(&record) => {}
            false => return,
        }
        let (code, _, err) = place.run(&["worker", "--until-idle", "--grace", "100ms"]);
        assert_eq!(code, 0, "{err}");
        assert!(other.lives(), "it was killed: {err}");
        assert_eq!(place.read("signals"), "", "it got SIGTERM: {err}");
        let ignored = "the record of a running command was ignored";
        assert!(err.contains(ignored), "{err}");
        assert!(place.path("started").exists(), "the task runs all the same");
        assert!(!record.exists(), "the next record takes its place");
    }
}

#[test]
fn a_worker_refuses_a_folder_of_another_user_beside_its_store() {
    let place = Place::new();
    let record = submit_with_record(&place, "t", "touch started");
    let mut other = Other::start(&place);
    other.record(&record, 1);
    let store = record.parent().unwrap();
    for planted in [store.to_owned(), place.path("s.db.tasks")] {
        set_mode(&planted, 0o755);
        if !give_away(&planted) {
            return;
        }
        for args in [&["worker", "--until-idle"][..], &["run", "--each", "true"]] {
            let (code, _, err) = place.run_with(args, b"a\n");
            assert_eq!(code, 4, "{err}");
            let reason = format!(
                "'{}' belongs to another user (uid {NOBODY})",
                planted.display()
            );
            assert!(err.contains(&reason), "{err}");
        }
        let mode = fs::metadata(&planted).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "its mode was changed");
    }
    assert!(other.lives() && !place.path("started").exists());
    assert_eq!(place.read("signals"), "");
}

#[test]
fn a_link_beside_the_store_is_not_followed() {
    let place = Place::new();
    fs::create_dir(place.path("target")).unwrap();
    set_mode(&place.path("target"), 0o755);
    submit(&place, "t", "echo printed; touch started");
    symlink("target", place.path("s.db.tasks")).unwrap();
    let (code, _, err) = place.run(&["worker", "--until-idle"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("s.db.tasks' is a link"), "{err}");
    fs::remove_file(place.path("s.db.tasks")).unwrap();
    // Even without a folder for logs, the command runs.
    symlink("target", place.path("s.db.logs")).unwrap();
    let (code, _, err) = place.run(&["worker", "--until-idle"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("s.db.logs' is a link"), "{err}");
    assert!(place.path("started").exists());
    let target = place.path("target");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    let mode = fs::metadata(&target).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "its mode was changed");
}
