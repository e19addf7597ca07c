//! What the operating system reports about processes. Without `/proc` it reports nothing, and the
//! callers do without.
//!
//! Parsing every field (with the crate `procfs`) would be too slow: each start of a command reads one line of `stat`,
//! each search for leftovers reads that of every process, and only four fields are used.

use std::{
    fs,
    io::{self, Read},
    sync::{Arc, OnceLock},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::{Pid, getpgid, getpgrp, getppid},
};
use serde::{Deserialize, Serialize};

/// The identity of a process, which distinguishes it from a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The process id.
    pub(crate) pid: i32,
    /// When the process started, in ticks since the start of the machine.
    start: u64,
    /// The id of the machine's start.
    boot: String,
    /// The namespace of process ids.
    space: String,
}

/// The fields of `/proc/PID/stat` that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) start: u64,
}

/// More bytes than a line of `/proc/PID/stat` has: 52 numbers of up to 20 digits, and a name.
const LINE: usize = 2048;

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the name, in parentheses; it may hold anything, also ')'.
        let rest = &text[text.rfind(')')? + 1..];
        let mut fields = rest.split_ascii_whitespace();
        Some(Self {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            start: fields.nth(16)?.parse().ok()?,
        })
    }

    pub(crate) fn of(pid: i32) -> Option<Self> {
        // One read, because every start of a command reads its own. The system returns the whole line
        // at once.
        let mut line = [0; LINE];
        let read = fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut f| f.read(&mut line));
        Self::parse(&String::from_utf8_lossy(&line[..read.ok()?]))
    }

    pub(crate) fn lives(self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// Returns the id of this machine's start, and the namespace of process ids. Neither changes while
/// this process runs.
fn this_machine() -> Option<&'static (String, String)> {
    static READ: OnceLock<Option<(String, String)>> = OnceLock::new();
    let read = || {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let space = fs::read_link("/proc/self/ns/pid").ok()?;
        Some((boot.trim().to_owned(), space.to_string_lossy().into_owned()))
    };
    READ.get_or_init(read).as_ref()
}

impl Identity {
    /// Returns the process that has this number now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let (boot, space) = this_machine()?;
        Some(Self {
            pid,
            start: Stat::of(pid)?.start,
            boot: boot.clone(),
            space: space.clone(),
        })
    }

    /// Returns whether the process belongs to this start of this machine.
    pub(crate) fn is_here(&self) -> bool {
        this_machine().is_some_and(|(boot, space)| *boot == self.boot && *space == self.space)
    }

    /// Returns whether the process that has this number now is the same one.
    pub(crate) fn lives(&self) -> bool {
        self.living().is_some()
    }

    fn living(&self) -> Option<Stat> {
        let stat = self.is_here().then(|| Stat::of(self.pid)).flatten();
        stat.filter(|stat| stat.start == self.start && stat.lives())
    }

    /// Returns whether the process lives and leads a process group other than ours, our
    /// supervisor's, and that of process 1, whose number stands for every process in a call of
    /// `kill`.
    pub(crate) fn leads_a_group(&self) -> bool {
        let leads = |stat: Stat| stat.group == self.pid;
        self.pid > 1 && !own_groups().contains(&self.pid) && self.living().is_some_and(leads)
    }
}

/// Returns this process, and its supervisor if it has one; empty where the system does not report
/// them.
pub(crate) fn these(supervisor: Option<u32>) -> Arc<[Identity]> {
    let pids = [Some(std::process::id()), supervisor];
    let pids = pids.into_iter().flatten();
    pids.filter_map(|pid| Identity::of(i32::try_from(pid).ok()?))
        .collect()
}

/// Returns every visible process of the machine, with its group; `None` where the system does not
/// list them.
fn all() -> Option<impl Iterator<Item = (i32, Stat)>> {
    let dir = fs::read_dir("/proc").ok()?;
    Stat::of(std::process::id() as i32)?;
    Some(dir.filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        Some((pid, Stat::of(pid)?))
    }))
}

/// Returns the live processes that this one has started, directly or indirectly.
pub(crate) fn descendants(of: i32) -> Vec<(i32, Stat)> {
    let all: Vec<(i32, Stat)> = all().into_iter().flatten().collect();
    let mut family = vec![of];
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        next += 1;
        for (pid, stat) in all.iter().filter(|(_, stat)| stat.parent == parent) {
            // A tree that changes while it is read may seem to contain a circle.
            if !family.contains(pid) {
                family.push(*pid);
                found.push((*pid, *stat));
            }
        }
    }
    found.retain(|(_, stat)| stat.lives());
    found
}

/// Returns whether a process of the group lives. A process that has ended and waits for its parent
/// does not count.
pub(crate) fn group_lives(group: i32) -> bool {
    match killpg(Pid::from_raw(group), None) {
        Err(Errno::ESRCH) => false,
        _ => all().is_none_or(|mut all| all.any(|(_, s)| s.group == group && s.lives())),
    }
}

/// Returns our own group, and that of our parent (the supervisor).
fn own_groups() -> [i32; 2] {
    [Ok(getpgrp()), getpgid(Some(getppid()))].map(|group| group.map_or(0, Pid::as_raw))
}

/// Returns the environment of a process (entries that end with a zero byte), if this user can read it.
pub(crate) fn environment(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Returns the groups that have a process with a matching environment (entries that end with a zero byte),
/// except our own group and that of our parent (the supervisor).
pub(crate) fn groups_where(matches: impl Fn(&[u8]) -> bool) -> Vec<i32> {
    let own = own_groups();
    // The environments of other users' processes cannot be read, and are not ours.
    let has = |pid: i32| environment(pid).is_some_and(|environment| matches(&environment));
    let mut groups: Vec<i32> = all()
        .into_iter()
        .flatten()
        .filter(|(pid, stat)| !own.contains(&stat.group) && stat.lives() && has(*pid))
        .map(|(_, stat)| stat.group)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Sends a signal to a group. A group that is gone is not an error.
pub(crate) fn signal_group(group: i32, signal: Signal) -> io::Result<()> {
    match killpg(Pid::from_raw(group), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "12 (a) b) (c) S 1 77 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group), ('S', 1, 77));
        assert_eq!(stat.start, 4242);
        assert_eq!(Stat::parse("12 (a"), None);
    }

    #[test]
    fn descendants_are_found_through_their_parents() {
        let me = std::process::id() as i32;
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 600 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        let (shell_pid, child): (i32, i32) = (shell.id() as i32, line.trim().parse().unwrap());
        let found = |of: i32| -> Vec<i32> {
            let all = descendants(of).into_iter();
            all.map(|(pid, _)| pid)
                .filter(|pid| [shell_pid, child].contains(pid))
                .collect()
        };
        assert_eq!(found(me), [shell_pid, child]);
        assert_eq!(found(shell_pid), [child]);
        for pid in [child, shell_pid] {
            nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
        shell.wait().unwrap();
        assert!(!found(me).contains(&shell_pid));
    }

    #[test]
    fn a_name_that_is_cut_within_a_character_hides_no_process() {
        let dir = tempfile::tempdir().unwrap();
        // The system keeps 15 bytes of a name: here, only the first byte of the last character.
        let path = dir.path().join("fourteen-bytesä");
        std::fs::write(&path, "#!/bin/sh\nread line\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&path, mode).unwrap();
        let mut command = std::process::Command::new(&path);
        command.stdin(std::process::Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().unwrap();
        let pid = child.id() as i32;
        let lives = Identity::of(pid).is_some_and(|identity| identity.lives());
        let group_lives = group_lives(pid);
        signal_group(pid, Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        assert!(lives && group_lives, "lives: {lives}, group: {group_lives}");
    }

    #[test]
    fn we_live_and_nobody_else_is_us() {
        let me = std::process::id() as i32;
        let identity = Identity::of(me).unwrap();
        assert!(identity.lives());
        assert!(group_lives(getpgrp().as_raw()));
        let earlier = Identity {
            start: identity.start - 1,
            ..identity.clone()
        };
        assert!(
            !earlier.lives(),
            "the number is the same, the process is not"
        );
        let other_boot = Identity {
            boot: "x".into(),
            ..identity
        };
        assert!(!other_boot.lives());
    }
}
