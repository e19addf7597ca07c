//! Decides which records are past their retention, even when clocks are wrong.
//!
//! Records have the times of many machines, and a pruned record is lost. So a single wrong clock
//! deletes nothing ([`PruneClock`]), and a single wrong time does not keep records for ever
//! ([`oldest`]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tracing::warn;

use crate::clock::Clock;

/// How far clocks may be apart without a warning.
pub(crate) const TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// The clock by which records are pruned.
///
/// It shows the time of the clock, but never a later time than the newest record at the opening of the
/// store plus the time since then on the monotonic clock. So a process whose clock is ahead deletes
/// nothing early, whatever it writes. (After a restart with the same clock it trusts the records that it
/// wrote before, but it has logged a warning by then.) A process that opens an idle store prunes later
/// by the idle time, until it is restarted.
#[derive(Debug)]
pub(crate) struct PruneClock {
    clock: Arc<dyn Clock>,
    /// The time of the newest record when the monotonic clock showed `since`.
    newest: Timestamp,
    since: Duration,
    has_warned: AtomicBool,
}

impl PruneClock {
    /// Returns the clock of an opened store. `newest` is the time of the newest record; `None` for
    /// an empty store.
    pub(crate) fn new(clock: Arc<dyn Clock>, newest: Option<Timestamp>) -> Self {
        Self {
            newest: newest.unwrap_or_else(|| clock.now()),
            since: clock.monotonic(),
            clock,
            has_warned: AtomicBool::new(false),
        }
    }

    /// Returns the time against which the age of records is measured.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.clock.now();
        let passed = self.clock.monotonic().saturating_sub(self.since);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        let proven = self.newest.checked_add(passed).unwrap_or(Timestamp::MAX);
        let latest = proven.checked_add(TOLERANCE).unwrap_or(Timestamp::MAX);
        now.min(latest)
    }

    /// Logs a warning, once, when the clock and the newest record are further apart than `retention`.
    pub(crate) fn check(&self, retention: Duration) {
        let Ok(retention) = SignedDuration::try_from(retention) else {
            return;
        };
        let (wall, now) = (self.clock.now(), self.now());
        let ahead = wall.duration_since(now);
        let behind = self.newest.duration_since(wall);
        let is_wrong = ahead > retention.max(TOLERANCE) || behind > TOLERANCE;
        if is_wrong && !self.has_warned.swap(true, Ordering::Relaxed) {
            warn!(clock = %wall, newest_record = %self.newest, counted_from = %now,
                "the clock and the newest record of the store are far apart: if the clock is wrong, stop \
                 this node and set the clock, since the next node believes the times that this node \
                 writes; what is past its retention is pruned later");
        }
    }

    /// Returns the time before which records are past their retention; `None` when there is no such
    /// time.
    pub(crate) fn before(&self, retention: Duration) -> Option<Timestamp> {
        self.check(retention);
        let retention = SignedDuration::try_from(retention).ok()?;
        let now = self.now();
        now.checked_sub(retention).ok()
    }
}

/// Returns the number of the oldest changes that are past their retention, at most `limit`. `ats` are
/// the times of all changes, oldest change first.
///
/// History is pruned from its beginning up to the first change within the retention, so that it has no
/// gaps. A time in the future comes from a clock that was ahead. The age of such a change is that of
/// the next change whose time is not in the future.
pub(crate) fn oldest<E>(
    ats: impl IntoIterator<Item = Result<Timestamp, E>>,
    (before, now): (Timestamp, Timestamp),
    limit: usize,
) -> Result<usize, E> {
    let mut old = 0;
    for (index, at) in ats.into_iter().enumerate() {
        match at? {
            at if at < before => old = index + 1,
            at if at <= now => break,
            _ => {}
        }
        if old >= limit {
            break;
        }
    }
    Ok(old.min(limit))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
    }

    fn count(seconds: &[i64]) -> usize {
        let ats = seconds.iter().map(|s| Ok::<_, Infallible>(at(*s)));
        let Ok(old) = oldest(ats, (at(100), at(200)), 4);
        old
    }

    #[test]
    fn old_changes_are_counted_from_the_beginning() {
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[10, 20, 150, 30]), 2, "no gap behind a young one");
        assert_eq!(
            count(&[10, 900, 901, 20, 100]),
            4,
            "from the future, and old"
        );
        assert_eq!(count(&[900, 901, 150]), 0, "from the future, and young");
        assert_eq!(count(&[10, 100]), 1, "written at the limit: young");
        assert_eq!(count(&[10, 900]), 1, "nothing says how old the last one is");
        assert_eq!(count(&[900, 900, 900, 900, 900, 10, 10]), 4, "the limit");
    }

    #[derive(Debug)]
    struct Fixed(Timestamp, Duration);

    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            self.0
        }

        fn monotonic(&self) -> Duration {
            self.1
        }
    }

    #[test]
    fn a_clock_that_is_far_from_the_newest_record_is_warned_of() {
        let warns = |now, newest, retention| {
            let clock = Arc::new(Fixed(at(now), Duration::ZERO));
            let clock = PruneClock::new(clock, Some(at(newest)));
            clock.check(Duration::from_secs(retention));
            clock.has_warned.load(Ordering::Relaxed)
        };
        // A difference of a minute to the newest record is tolerated.
        let ahead_by = |seconds: i64, retention| warns(1_060 + seconds, 1_000, retention);
        assert!(!ahead_by(500, 500) && ahead_by(501, 500));
        assert!(
            !ahead_by(60, 1) && ahead_by(61, 1),
            "clocks differ a little"
        );
        let behind_by = |seconds: i64| warns(1_000, 1_000 + seconds, 500);
        assert!(!behind_by(60) && behind_by(61));
    }

    #[test]
    fn a_clock_is_not_believed_beyond_the_newest_record_and_the_time_since() {
        let fixed = |now, passed| Arc::new(Fixed(at(now), Duration::from_secs(passed)));
        let clock = |now, newest| PruneClock {
            since: Duration::from_secs(1000),
            ..PruneClock::new(fixed(now, 1500), Some(at(newest)))
        };
        assert_eq!(clock(10_000, 9_900).now(), at(10_000));
        assert_eq!(clock(10_000, 1_000).now(), at(1_000 + 500 + 60));
        assert_eq!(
            clock(10_000, 90_000).now(),
            at(10_000),
            "an old clock waits"
        );
        let empty = PruneClock::new(fixed(10_000, 1500), None);
        assert_eq!(empty.now(), at(10_000));
        let before = |retention| clock(10_000, 1_000).before(retention);
        assert_eq!(before(Duration::from_secs(60)), Some(at(1_000 + 500)));
        assert_eq!(before(Duration::MAX), None, "kept for ever");
    }
}
