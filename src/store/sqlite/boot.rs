//! [`LeaseClock`]: the clock by which leases end. All processes of a machine share it. Setting the wall clock does not
//! change it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use super::process;

/// Milliseconds since the machine was started, with the id of that start. A lease of another start has
/// ended. On a system without such an id, the wall clock is used.
#[derive(Debug, Clone)]
pub(super) struct LeaseClock {
    boot: String,
    process: Option<String>,
    /// When the processes were last checked.
    looked: Arc<AtomicI64>,
    next_end: Arc<Mutex<Option<NextEnd>>>,
}

/// No live lease ends before a time. Holds until another connection has committed: this process only renews leases, and
/// forgets the time when it grants one.
#[derive(Debug, Clone, Copy)]
struct NextEnd {
    /// The `data_version` of the writer.
    version: i64,
    at: i64,
}

/// How often the processes that hold leases are checked.
const LOOK_EVERY_MS: i64 = 400;

impl LeaseClock {
    /// Returns a clock. `supervisor` is another process that holds the leases of this one.
    pub(super) fn new(supervisor: Option<u32>) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Self {
            boot: boot.map_or_else(|_| String::new(), |id| id.trim().to_owned()),
            process: process::holders(supervisor),
            looked: Arc::new(AtomicI64::new(i64::MIN)),
            next_end: Arc::default(),
        }
    }

    /// Returns this process and its supervisor; `None` if the system does not show them.
    pub(super) fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }

    /// Returns whether the processes that hold a lease have certainly ended. Returns false for those of this
    /// process without checking: an idle node would spend most of its time on that.
    pub(super) fn have_ended(&self, holders: &str) -> bool {
        self.process() != Some(holders) && process::has_ended(holders)
    }

    /// Returns whether it is time to check the processes again.
    pub(super) fn looks_at_processes(&self) -> bool {
        let (now, last) = (self.now(), self.looked.load(Ordering::Relaxed));
        let due = now.saturating_sub(last) >= LOOK_EVERY_MS || now < last;
        if due {
            self.looked.store(now, Ordering::Relaxed);
        }
        due
    }

    /// Returns whether no lease has ended, as far as the last look tells. A look reads every lease, of which a server of
    /// workers has thousands.
    pub(super) fn none_has_ended(&self, version: i64) -> bool {
        let next = *self.next_end();
        next.is_some_and(|next| next.version == version && self.now() < next.at)
    }

    /// Records that no live lease ends before this time.
    pub(super) fn ends_next(&self, version: i64, at: i64) {
        *self.next_end() = Some(NextEnd { version, at });
    }

    /// Forgets when the next lease ends: one was granted, or a transaction was rolled back.
    pub(super) fn forget_next_end(&self) {
        *self.next_end() = None;
    }

    fn next_end(&self) -> MutexGuard<'_, Option<NextEnd>> {
        self.next_end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id of the machine's start; empty if the system has none.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    /// Returns the time in milliseconds.
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
