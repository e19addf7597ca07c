//! Whether the process that has a lease still lives.
//!
//! All nodes on a SQLite file are processes of one machine. One that was killed cannot renew its
//! lease, and cannot write either: its tasks need not wait for the lease to end. Only certainty
//! counts here; whatever cannot be told leaves the lease its time.

use std::fs;

/// This process, as other processes of the machine can recognize it: its namespace of process ids,
/// its id there, and when it was started. `None` where that cannot be told (not Linux).
pub(super) fn own() -> Option<String> {
    let pid = std::process::id();
    Some(format!("{} {pid} {}", namespace()?, stat(pid)?.started))
}

/// Whether that process has certainly ended.
pub(super) fn has_ended(process: &str) -> bool {
    let mut parts = process.split(' ');
    let (Some(space), Some(pid), Some(started)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Ok(pid) = pid.parse() else { return false };
    if namespace().as_deref() != Some(space) {
        return false;
    }
    match stat(pid) {
        // Dead and not buried yet, or another process that was given the number.
        Some(stat) => stat.dead || stat.started != started,
        // Where processes of other users are hidden, this alone says nothing.
        None => is_free(pid),
    }
}

fn namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str().map(ToOwned::to_owned)
}

struct Stat {
    dead: bool,
    started: String,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X" | "x");
    let started = fields.nth(18)?.to_owned();
    Some(Stat { dead, started })
}

#[cfg(unix)]
fn is_free(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else {
        return false;
    };
    let sent = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None);
    pid > 0 && sent == Err(nix::errno::Errno::ESRCH)
}

#[cfg(not(unix))]
fn is_free(_pid: u32) -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn of(pid: u32) -> String {
        format!(
            "{} {pid} {}",
            namespace().unwrap(),
            stat(pid).unwrap().started
        )
    }

    #[test]
    fn this_process_lives() {
        assert!(!has_ended(&own().unwrap()));
    }

    #[test]
    fn one_that_was_killed_has_ended_buried_or_not() {
        let mut child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let process = of(child.id());
        assert!(!has_ended(&process));
        child.kill().unwrap();
        while !has_ended(&process) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(&process));
    }

    #[test]
    fn another_process_with_its_number_is_not_it() {
        let own = own().unwrap();
        let (front, _) = own.rsplit_once(' ').unwrap();
        assert!(has_ended(&format!("{front} 1")));
    }

    #[test]
    fn what_cannot_be_told_leaves_the_lease_its_time() {
        for process in ["", "x", "pid:[1] 1 1", "pid:[1] x 1"] {
            assert!(!has_ended(process), "{process}");
        }
    }
}
