//! [`Clock`]: where the library reads the wall clock, so that tests can put another in its place.

use std::{
    fmt::Debug,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use jiff::Timestamp;

/// Reads the time. One required method, so that a test's clock is one line.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time now.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed moment, which is never set back: that of the operating
    /// system, unless a test's clock has its own.
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
    /// Returns the system's clock, to hand to a store or a runner.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}
