//! How the thread that reads the log of changes is woken, and how long it sleeps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::file_watch::OwnWrites;

/// How often the thread polls for commits of other processes if no file watch reports them.
const POLL: Duration = Duration::from_millis(5);
/// How often the thread polls for commits that the file watch has not reported.
const QUIET: Duration = Duration::from_secs(1);

/// How often the thread polls right after a write: a fraction of the time of a fast sync.
const SYNC: Duration = Duration::from_micros(40);
/// How often the thread polls long after a write whose commit may still follow.
const SELDOM: Duration = Duration::from_millis(100);

/// Wakes the thread, unless it is awake or has no readers.
#[derive(Debug, Default)]
pub(super) struct WakeFlags {
    /// Whether the thread has readers.
    pub(super) watching: AtomicBool,
    /// Whether a message about a commit of this process is on its way to the thread.
    pub(super) committed: AtomicBool,
    /// Whether a message about a write of another process is on its way to the thread.
    pub(super) written: AtomicBool,
    /// Whether a message about a write that may be of another process is on its way to the thread.
    pub(super) perhaps_written: AtomicBool,
}

impl WakeFlags {
    /// Returns whether to send a message.
    pub(super) fn must_send(&self, which: &AtomicBool) -> bool {
        self.watching.load(Ordering::Acquire) && !which.swap(true, Ordering::AcqRel)
    }
}

/// Wakes the thread after each transaction of the writer of this process.
pub(super) struct CommitNotifier {
    /// Sends the thread a message, unless it is awake or has no readers.
    pub(super) notify: Box<dyn Fn() + Send>,
    pub(super) own: Arc<OwnWrites>,
}

impl CommitNotifier {
    /// Begins a transaction. It ends when the returned value is dropped.
    pub(super) fn begin(&self) -> Transacting<'_> {
        self.own.begin();
        Transacting(self)
    }
}

/// A transaction of the writer of this process.
pub(super) struct Transacting<'a>(&'a CommitNotifier);

impl Drop for Transacting<'_> {
    fn drop(&mut self) {
        self.0.own.end();
        // Even after a failure: another process may have written while this one waited for the lock.
        (self.0.notify)();
    }
}

/// Makes the sleeps of the calling thread exact. By default Linux adds up to 50 microseconds.
#[cfg(target_os = "linux")]
pub(super) fn sleep_exactly() {
    if let Err(error) = nix::sys::prctl::set_timerslack(1) {
        tracing::debug!(%error, "could not make the timers of a thread exact");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn sleep_exactly() {}

/// Decides how long the thread sleeps before it polls for commits again.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The last write of another process, until its commit is certainly visible.
    written: Option<Write>,
}

/// A write of another process.
#[derive(Debug, Clone, Copy)]
struct Write {
    /// When it was noticed, or when a commit became visible after it.
    at: Instant,
    expected: Expected,
}

/// Whether a commit follows a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// A commit follows.
    Commit,
    /// A commit follows if another process wrote, and not this one.
    PerhapsCommit,
    /// A commit has become visible since. It may be an earlier one; then the commit of this write follows
    /// soon.
    PerhapsAnother,
}

impl Pace {
    pub(super) fn written(&mut self, now: Instant) {
        self.written = Some(Write {
            at: now,
            expected: Expected::Commit,
        });
    }

    /// Notes that another process may have written. The polls become rarer sooner than after a write that another
    /// process has certainly made, because usually there was none.
    pub(super) fn perhaps_written(&mut self, now: Instant) {
        let is_awaited = |write: Write| {
            let since = now.saturating_duration_since(write.at);
            write.expected == Expected::Commit && since < Duration::from_secs(5)
        };
        if !self.written.is_some_and(is_awaited) {
            self.written = Some(Write {
                at: now,
                expected: Expected::PerhapsCommit,
            });
        }
    }

    /// Notes that a commit is visible.
    pub(super) fn committed(&mut self, now: Instant) {
        let awaits = |write: &&mut Write| write.expected == Expected::Commit;
        if let Some(write) = self.written.as_mut().filter(awaits) {
            *write = Write {
                at: now,
                expected: Expected::PerhapsAnother,
            };
        }
    }

    pub(super) fn wait(&self, has_file_watch: bool, now: Instant) -> Duration {
        if !has_file_watch {
            return POLL;
        }
        let Some(write) = self.written else {
            return QUIET;
        };
        // A sync of the disk takes between a tenth of a millisecond and seconds.
        let since = now.saturating_duration_since(write.at).as_millis();
        match (write.expected, since) {
            (Expected::PerhapsAnother, 0..2) => Duration::from_micros(250),
            (_, 0..2) => SYNC,
            (_, 2..10) | (Expected::Commit, 10..30) => Duration::from_millis(1),
            (_, 10..30) | (Expected::Commit, 30..5000) => POLL,
            // A write that was noticed before an earlier commit became visible may still be on its way.
            (Expected::PerhapsCommit, 30..300)
            | (Expected::PerhapsAnother, 30..5000)
            | (Expected::Commit, 5000..60_000) => SELDOM,
            _ => QUIET,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_makes_the_thread_look_often_until_the_commit_is_visible() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert_eq!(pace.wait(true, start), QUIET);
        assert_eq!(pace.wait(false, start), POLL, "nothing gives notice");
        pace.written(start);
        for (millis, wait) in [
            (0, SYNC),
            (2, Duration::from_millis(1)),
            (30, POLL),
            (4999, POLL),
            (5000, SELDOM),
            (60_000, QUIET),
        ] {
            assert_eq!(pace.wait(true, after(millis)), wait, "after {millis} ms");
        }
    }

    /// Regression: each renewal of an idle node caused up to a thousand polls when the report of its write came
    /// late.
    #[test]
    fn a_write_that_may_be_of_this_process_is_looked_for_less_often() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        pace.perhaps_written(start);
        // The commit may be that of this process.
        pace.committed(start);
        let (mut looks, mut at) = (0, start);
        while at < after(5000) {
            at += pace.wait(true, at);
            looks += 1;
        }
        assert!(looks < 75, "{looks}");
        pace.written(after(5000));
        pace.perhaps_written(after(5001));
        let wait = pace.wait(true, after(5001));
        assert_eq!(wait, SYNC, "it hides no write of another process");
        pace.perhaps_written(after(60_000));
        let wait = pace.wait(true, after(60_000));
        assert_eq!(wait, SYNC, "that write was given up");
        assert_eq!(pace.wait(true, after(60_050)), SELDOM);
    }

    #[test]
    fn a_commit_that_was_on_its_way_hides_no_write_after_it() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        pace.committed(start);
        assert_eq!(pace.wait(true, start), QUIET, "nothing was written");
        pace.written(start);
        pace.committed(after(20));
        pace.committed(after(25));
        for (millis, wait) in [
            (20, Duration::from_micros(250)),
            (22, Duration::from_millis(1)),
            (30, POLL),
            (50, SELDOM),
            (5020, QUIET),
        ] {
            assert_eq!(pace.wait(true, after(millis)), wait, "after {millis} ms");
        }
        pace.written(after(60));
        let wait = pace.wait(true, after(60));
        assert_eq!(wait, SYNC);
    }
}
