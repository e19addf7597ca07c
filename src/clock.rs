//! [`Clock`]: the source of the wall-clock time, which tests can replace.

use std::{
    fmt::Debug,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use jiff::{Timestamp, Zoned, tz::TimeZone};

/// Reads the time. Only one method is required, so that a test's clock is one line.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time now.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed moment, which is never set back: by the operating system's
    /// clock, unless a test's clock overrides it.
    fn monotonic(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

impl SystemClock {
    /// Returns the system's clock, to pass to a store or a runner.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}

/// Returns a time in the time zone of this machine, for texts with days such as `yesterday`
/// ([`read_time`](crate::statemachine::wire::read_time)).
///
/// The environment variable `TZ` names the zone, or `/etc/localtime` is its file; without both the zone is UTC. A `TZ` that
/// names no zone is an unknown zone ([`TimeZone::is_unknown`]), in which these texts are refused.
///
/// # Example
///
/// ```
/// use windlass::{clock::in_local_zone, jiff::Timestamp, statemachine::wire::read_past};
///
/// let now = in_local_zone(Timestamp::now());
/// assert!(read_past("since", "1h ago", &now)? < now.timestamp());
/// # Ok::<(), windlass::Invalid>(())
/// ```
pub fn in_local_zone(now: Timestamp) -> Zoned {
    let named = || std::env::var_os("TZ").is_some_and(|name| !name.is_empty());
    let zone = TimeZone::try_system().unwrap_or_else(|_| match named() {
        true => TimeZone::unknown(),
        false => TimeZone::UTC,
    });
    now.to_zoned(zone)
}
