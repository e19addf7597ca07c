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

/// A clock that stands still until a test moves it.
///
/// # Caveats
///
/// On a memory store, a move by more than the lease time (15 s by default) ends the lease of a
/// [`Runner`](crate::Runner). The runner notices this at its next renewal, after a third of the
/// lease, and joins again, so that such a move costs about 5 s. `testing::Simulation` moves the time
/// without ending leases.
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
pub struct ManualClock(Mutex<(Timestamp, Duration)>);

impl ManualClock {
    /// Returns a clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(Mutex::new((start, Duration::ZERO)))
    }

    /// Sets the clock, forward or back. No time passes: [`Clock::monotonic`] stays.
    pub fn set(&self, to: Timestamp) {
        self.lock().0 = to;
    }

    /// Moves the clock forward; that time passes for [`Clock::monotonic`] too.
    pub fn advance(&self, by: Duration) {
        let mut clock = self.lock();
        *clock = (after(clock.0, by), clock.1.saturating_add(by));
    }

    fn lock(&self) -> MutexGuard<'_, (Timestamp, Duration)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.lock().1
    }
}

/// A clock that follows tokio's time from a given start. Under paused time it moves with the timers.
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
    /// Returns a clock that shows `start` now.
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

    fn monotonic(&self) -> Duration {
        self.since.elapsed()
    }
}
