//! [`LeaseClock`]: the clock by which leases end. All processes of one machine share it, and it
//! never jumps when somebody sets the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the machine was started, with the id of that start: a lease of another start
/// has ended, whatever its number says. Where there is no such id, the wall clock has to do.
#[derive(Debug, Clone)]
pub(super) struct LeaseClock {
    boot: String,
}

impl LeaseClock {
    pub(super) fn new() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Self {
            boot: boot.map_or_else(|_| String::new(), |id| id.trim().to_owned()),
        }
    }

    /// The id of the machine's start; empty where there is none.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// The time in milliseconds.
    pub(super) fn now(&self) -> i64 {
        if !self.boot.is_empty()
            && let Some(ms) = monotonic()
        {
            return ms;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
}

#[cfg(unix)]
fn monotonic() -> Option<i64> {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).ok()?;
    Some(time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000)
}

#[cfg(not(unix))]
fn monotonic() -> Option<i64> {
    None
}
