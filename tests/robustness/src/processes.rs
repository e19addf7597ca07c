//! What `/proc` says about processes.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::BoxError;

/// Returns the child of a process that runs the same program: the worker below a supervisor.
pub(crate) fn below(supervisor: u32) -> Result<Option<Pid>, BoxError> {
    let supervisor = supervisor.to_string();
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = program(&supervisor);
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().filter(|n| n.parse::<i32>().is_ok()) else {
            continue;
        };
        let is_child = stat(pid).is_some_and(|(_, parent)| parent == supervisor);
        if is_child && program(pid) == own {
            return Ok(Some(Pid::from_raw(pid.parse()?)));
        }
    }
    Ok(None)
}

/// Returns whether a process lives, and the id of its parent.
fn stat(pid: &str) -> Option<(bool, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let lives = !matches!(fields.next()?, "Z" | "X");
    Some((lives, fields.next()?.to_owned()))
}

/// Returns whether a process lives; a zombie does not.
pub(crate) fn lives(pid: Pid) -> bool {
    stat(&pid.to_string()).is_some_and(|(lives, _)| lives)
}

/// How long the threads of a process may take to stop: one of them may wait for a disk.
const TO_STOP: Duration = Duration::from_secs(10);

/// Stops a process, and returns when none of its threads runs any more. The signal alone does not tell that: on a busy machine a
/// thread goes on for some milliseconds after it was sent, and what it does then would count as done while it was stopped.
///
/// # Errors
///
/// When the process has ended, or does not stop.
pub(crate) fn suspend(pid: Pid) -> Result<(), BoxError> {
    kill(pid, Signal::SIGSTOP)?;
    let deadline = Instant::now() + TO_STOP;
    while !has_stopped(pid)? {
        if Instant::now() > deadline {
            return Err(format!("process {pid} did not stop within {TO_STOP:?}").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns whether every thread of a process is stopped, or has ended.
fn has_stopped(pid: Pid) -> Result<bool, BoxError> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let Ok(text) = fs::read_to_string(thread?.path().join("stat")) else {
            continue;
        };
        let state = text
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().next());
        if !matches!(state, Some("T" | "t" | "Z" | "X")) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_counts_as_stopped_when_no_thread_of_it_runs() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        assert!(!has_stopped(pid).unwrap());
        suspend(pid).unwrap();
        assert!(has_stopped(pid).unwrap());
        kill(pid, Signal::SIGCONT).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(suspend(pid).is_err());
    }
}
