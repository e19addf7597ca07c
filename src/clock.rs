//! [`Clock`]: the source of the wall-clock time, which tests can replace.

use std::{
    fmt::Debug,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use jiff::Timestamp;

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
