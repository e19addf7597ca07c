//! Whether the processes that hold a lease still live.
//!
//! All nodes on a SQLite file are processes of one machine. One that was killed cannot renew its
//! lease, and cannot write either: its tasks need not wait for the lease to end. Only certainty
//! counts here; whatever cannot be told leaves the lease its time.
//!
//! A process may have a supervisor, which ends what the process has started. Then both hold the
//! lease: the tasks are free when both have ended.

use std::fs;

/// This process and its supervisor, as other processes of the machine can recognize them: their
/// namespace of process ids, and for each its id there and when it was started. `None` where that
/// cannot be told (not Linux).
pub(super) fn holders(supervisor: Option<u32>) -> Option<String> {
    let mut text = namespace()?;
    // The supervisor first: versions that know of one process only look at the first.
    for pid in supervisor.into_iter().chain([std::process::id()]) {
        text.push_str(&format!(" {pid} {}", stat(pid)?.started));
    }
    Some(text)
}

/// Whether all of these processes have certainly ended.
pub(super) fn has_ended(holders: &str) -> bool {
    let parts: Vec<&str> = holders.split(' ').collect();
    let Some((space, processes)) = parts.split_first() else {
        return false;
    };
    let (processes, rest) = processes.as_chunks::<2>();
    !processes.is_empty()
        && rest.is_empty()
        && namespace().as_deref() == Some(*space)
        && processes.iter().all(|[pid, started]| is_over(pid, started))
}

fn is_over(pid: &str, started: &str) -> bool {
    let Ok(pid) = pid.parse() else { return false };
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
        assert!(!has_ended(&holders(None).unwrap()));
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
        let own = holders(None).unwrap();
        let (front, _) = own.rsplit_once(' ').unwrap();
        assert!(has_ended(&format!("{front} 1")));
    }

    #[test]
    fn what_cannot_be_told_leaves_the_lease_its_time() {
        let space = namespace().unwrap();
        for process in ["", "x", "pid:[1] 1 1", "pid:[1] x 1"] {
            assert!(!has_ended(process), "{process}");
        }
        for rest in ["", " ", " 1", " x 1", " 1 1 1"] {
            assert!(!has_ended(&format!("{space}{rest}")), "{rest}");
        }
    }

    #[test]
    fn a_lease_with_a_supervisor_lasts_until_both_have_ended() {
        let start = || Command::new("sleep").arg("600").spawn().unwrap();
        for supervisor_first in [true, false] {
            let (mut first, mut second) = (start(), start());
            let pids = match supervisor_first {
                true => [first.id(), second.id()],
                false => [second.id(), first.id()],
            };
            let [one, other] = pids.map(of);
            let (_, other) = other.split_once(' ').unwrap();
            let both = format!("{one} {other}");
            first.kill().unwrap();
            first.wait().unwrap();
            assert!(!has_ended(&both), "the other one lives");
            second.kill().unwrap();
            second.wait().unwrap();
            assert!(has_ended(&both));
        }
        let me = std::process::id();
        let supervised = holders(Some(me)).unwrap();
        assert_eq!(supervised.split(' ').count(), 5, "{supervised}");
    }
}
