//! A store in its own folder, and the program on it.
#![allow(dead_code, reason = "each test file uses its own part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of the test functions that clippy knows"
)]

pub(crate) mod printed;

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

/// No test waits longer for anything.
const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    dir: TempDir,
    store: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", dir.path().join("s.db").display());
        Self { dir, store }
    }

    /// Returns a place whose store is elsewhere.
    pub(crate) fn on(store: String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, store }
    }

    pub(crate) fn store(&self) -> String {
        self.store.clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The program, in the place and on its store.
    pub(crate) fn windlass(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("WINDLASS_STORE", &self.store)
            // Folders of a store that is not a file are in the place too.
            .env("XDG_DATA_HOME", self.path("data"))
            .env_remove("WINDLASS_LOG")
            .env_remove("WINDLASS_CONFIG")
            .env_remove("WINDLASS_LOG_FORMAT")
            .env("XDG_CONFIG_HOME", self.path("config"))
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end, and returns its exit code, standard output and standard error.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        ended(self.windlass(args).output().unwrap())
    }

    /// Runs it to its end with this on its standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> (i32, String, String) {
        let file = self.path("stdin");
        fs::write(&file, input).unwrap();
        let mut command = self.windlass(args);
        command.stdin(fs::File::open(&file).unwrap());
        ended(command.output().unwrap())
    }

    /// Starts it, and discards its output.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.windlass(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    /// Starts it as the leader of its own process group, as a shell on a terminal does.
    pub(crate) fn start_in_group(&self, args: &[&str]) -> Running {
        let mut command = self.windlass(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.process_group(0).spawn().unwrap())
    }

    /// Asserts that a worker has released this task and left, without an attempt.
    pub(crate) fn assert_released(&self, id: &str) {
        let task = self.get(id);
        let released = ("runnable".into(), 0.into());
        assert_eq!(
            (&task["state"], &task["attempts"]),
            (&released.0, &released.1)
        );
        assert_eq!(self.run(&["nodes", "-o", "json"]).1, "[]\n");
    }

    /// Returns the output of `get` for a task.
    pub(crate) fn get(&self, id: &str) -> Value {
        let (code, out, err) = self.run(&["get", id, "-o", "json"]);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).unwrap()
    }

    /// Returns the output of `list` with these filters.
    pub(crate) fn list(&self, filters: &[&str]) -> Vec<Value> {
        let args = [
            &["list", "--reverse", "-o", "json", "--limit", "10000"],
            filters,
        ]
        .concat();
        let (code, out, err) = self.run(&args);
        assert_eq!(code, 0, "{err}");
        out.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// Waits until the file has this many lines.
    pub(crate) fn until_lines(&self, name: &str, lines: usize) {
        until(name, || self.read(name).lines().count() >= lines);
    }

    /// Waits until the file is there, and reads the process numbers in it.
    pub(crate) fn pids(&self, name: &str) -> Vec<i32> {
        until(name, || self.path(name).exists());
        let text = self.read(name);
        let pids: Vec<i32> = text
            .split_whitespace()
            .map(|p| p.parse().unwrap())
            .collect();
        assert!(!pids.is_empty(), "{name} names no process");
        pids
    }
}

fn ended(output: Output) -> (i32, String, String) {
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// A program that runs; it is killed when the test fails.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn of(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// The worker below it: what was started is a supervisor.
    pub(crate) fn worker(&self) -> i32 {
        let mut worker = None;
        until("the worker is there", || {
            worker = worker_of(self.pid());
            worker.is_some()
        });
        worker.unwrap()
    }

    pub(crate) fn signal_worker(&self, signal: Signal) {
        kill(Pid::from_raw(self.worker()), signal).unwrap();
    }

    pub(crate) fn wait(self) -> Option<i32> {
        self.wait_status().code()
    }

    pub(crate) fn wait_status(mut self) -> ExitStatus {
        let mut ended = None;
        until("the program ends", || {
            ended = self.0.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// Kills it and its worker together, so that neither reacts to the other's death.
    pub(crate) fn kill(mut self) {
        kill_both(&mut self.0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            kill_both(&mut self.0);
        }
    }
}

/// Ends the commands that the test has left: a worker that is killed with its supervisor does not end them.
impl Drop for Place {
    fn drop(&mut self) {
        let is_inside = |pid: i32| {
            let folder = fs::read_link(format!("/proc/{pid}/cwd"));
            folder.is_ok_and(|folder| folder.starts_with(self.dir.path()))
        };
        let Ok(processes) = fs::read_dir("/proc") else {
            return;
        };
        for process in processes.flatten() {
            let pid = process
                .file_name()
                .to_str()
                .and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.filter(|pid| is_inside(*pid)) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

/// The process that this one has started from its own program.
fn worker_of(supervisor: i32) -> Option<i32> {
    let program = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program(supervisor)?;
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let parent = fields.split(' ').nth(2).and_then(|p| p.parse().ok());
        parent == Some(supervisor) && program(*pid).as_ref() == Some(&own)
    })
}

fn kill_both(supervisor: &mut Child) {
    let pid = supervisor.id() as i32;
    // It starts no worker in the meantime, and does nothing about its death.
    let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
    if let Some(worker) = worker_of(pid) {
        let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
    }
    let _ = supervisor.kill();
    let _ = supervisor.wait();
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {LONG:?}");
        sleep(Duration::from_millis(10));
    }
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|s| !s[s.rfind(')').unwrap()..].starts_with(") Z"))
}

/// Waits until none of the processes is left.
pub(crate) fn until_gone(pids: &[i32]) {
    until("the processes are gone", || {
        !pids.iter().any(|p| is_alive(*p))
    });
}
