//! [`LeaseClock`]: the clock by which leases end. All processes of one machine share it, and it
//! never jumps when somebody sets the wall clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use super::process;

/// Milliseconds since the machine was started, with the id of that start: a lease of another start
/// has ended, whatever its number says. Where there is no such id, the wall clock has to do.
#[derive(Debug, Clone)]
pub(super) struct LeaseClock {
    boot: String,
    process: Option<String>,
    /// When it was last looked which processes live.
    looked: Arc<AtomicI64>,
}

/// How often it is looked which processes live.
const LOOK_EVERY_MS: i64 = 400;

impl LeaseClock {
    /// `supervisor` is another process whose leases these are too.
    pub(super) fn new(supervisor: Option<u32>) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Self {
            boot: boot.map_or_else(|_| String::new(), |id| id.trim().to_owned()),
            process: process::holders(supervisor),
            looked: Arc::new(AtomicI64::new(i64::MIN)),
        }
    }

    /// This process; `None` where the system does not show it.
    pub(super) fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }

    /// Whether it is time to look again which processes live.
    pub(super) fn looks_at_processes(&self) -> bool {
        let (now, last) = (self.now(), self.looked.load(Ordering::Relaxed));
        let due = now.saturating_sub(last) >= LOOK_EVERY_MS || now < last;
        if due {
            self.looked.store(now, Ordering::Relaxed);
        }
        due
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
