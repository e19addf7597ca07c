//! Clocks for tests.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::clock::Clock;

fn after(at: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// A clock that stands still until it is moved.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use jiff::Timestamp;
/// use windlass::{clock::Clock, testing::ManualClock};
///
/// let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
/// clock.advance(Duration::from_secs(90));
/// assert_eq!(clock.now().to_string(), "1970-01-01T00:01:30Z");
/// ```
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Mutex::new(start))
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, to: Timestamp) {
        *self.lock() = to;
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        *now = after(*now, by);
    }

    fn lock(&self) -> MutexGuard<'_, Timestamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.lock()
    }
}

/// A clock that follows tokio's time from a given start: under paused time it moves exactly when
/// the timers do.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use jiff::Timestamp;
/// use windlass::{clock::Clock, testing::TokioClock};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let clock = TokioClock::new(Timestamp::UNIX_EPOCH);
/// tokio::time::sleep(Duration::from_secs(3600)).await; // at once, under paused time
/// assert_eq!(clock.now().as_second(), 3600);
/// # });
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Timestamp,
    since: Instant,
}

impl TokioClock {
    /// A clock that shows `start` now.
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            since: Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        after(self.start, self.since.elapsed())
    }
}
