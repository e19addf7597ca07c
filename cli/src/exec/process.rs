//! What the operating system tells of processes. Where there is no `/proc`, it tells nothing, and
//! the callers do without.

use std::{fs, io};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::{Pid, getpgrp},
};
use serde::{Deserialize, Serialize};

/// A process, so that it cannot be taken for a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Its number.
    pub(crate) pid: i32,
    /// When it started, in ticks since the machine did.
    start: u64,
    /// Which start of the machine.
    boot: String,
    /// In which space of process numbers.
    space: String,
}

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) group: i32,
    start: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the name, in parentheses; it may hold anything, also ')'.
        let rest = &text[text.rfind(')')? + 1..];
        let mut fields = rest.split_ascii_whitespace();
        Some(Self {
            state: fields.next()?.chars().next()?,
            group: fields.nth(1)?.parse().ok()?,
            start: fields.nth(16)?.parse().ok()?,
        })
    }

    pub(crate) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn lives(self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

fn this_machine() -> Option<(String, String)> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = fs::read_link("/proc/self/ns/pid").ok()?;
    Some((boot.trim().to_owned(), space.to_string_lossy().into_owned()))
}

impl Identity {
    /// The process that has this number now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let (boot, space) = this_machine()?;
        Some(Self {
            pid,
            start: Stat::of(pid)?.start,
            boot,
            space,
        })
    }

    /// Whether it was on this machine, since it was started last.
    pub(crate) fn is_here(&self) -> bool {
        this_machine() == Some((self.boot.clone(), self.space.clone()))
    }

    /// Whether the process that has its number now is the same.
    pub(crate) fn lives(&self) -> bool {
        self.is_here() && Stat::of(self.pid).is_some_and(|s| s.start == self.start && s.lives())
    }
}

/// Every process of the machine that can be seen, with its group; `None` where that is not told.
fn all() -> Option<impl Iterator<Item = (i32, Stat)>> {
    let dir = fs::read_dir("/proc").ok()?;
    Stat::of(std::process::id() as i32)?;
    Some(dir.filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        Some((pid, Stat::of(pid)?))
    }))
}

/// Whether a process of the group lives. One that has ended and waits for its parent does not.
pub(crate) fn group_lives(group: i32) -> bool {
    match killpg(Pid::from_raw(group), None) {
        Err(Errno::ESRCH) => false,
        _ => all().is_none_or(|mut all| all.any(|(_, s)| s.group == group && s.lives())),
    }
}

/// The groups, other than our own, that have a process whose environment has this entry.
pub(crate) fn groups_with(entry: &[u8]) -> Vec<i32> {
    let own = getpgrp().as_raw();
    let mut groups: Vec<i32> = all()
        .into_iter()
        .flatten()
        .filter(|(pid, stat)| {
            stat.group != own
                && stat.lives()
                // Those of other users cannot be read, and are not ours.
                && fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|env| env.split(|b| *b == 0).any(|e| e == entry))
        })
        .map(|(_, stat)| stat.group)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Sends a signal to a group. A group that is gone is no error.
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
        assert_eq!((stat.state, stat.group, stat.start), ('S', 77, 4242));
        assert_eq!(Stat::parse("12 (a"), None);
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
