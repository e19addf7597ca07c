//! [`Clock`]: where the library reads the wall clock, so that tests can put another in its place.

use std::{fmt::Debug, sync::Arc};

use jiff::Timestamp;

/// Tells the time. One method, so that a test's clock is one line.
pub trait Clock: Send + Sync + Debug {
    /// The time now.
    fn now(&self) -> Timestamp;
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
    /// The system's clock, to hand to a store or a runner.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}
