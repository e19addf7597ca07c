//! [`Horizon`]: how far back history is reported, and what is known of times in the past.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How many times of the past `maintain` remembers the revision of.
const MARKS: usize = 64;

/// `/NS/meta/horizon`: which revision it was at which time, and since which one history is reported.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Horizon {
    /// Changes up to this revision are not reported any more.
    pub(crate) pruned: i64,
    /// Times and the revisions then, oldest first.
    pub(crate) marks: Vec<(Timestamp, i64)>,
}

impl Horizon {
    /// The last revision that is known to be before a time, and the first that is known to be after.
    pub(crate) fn around(&self, time: Timestamp) -> (i64, i64) {
        let before = self.marks.iter().rev().find(|(at, _)| *at < time);
        let after = self.marks.iter().find(|(at, _)| *at >= time);
        let revision = |mark: Option<&(Timestamp, i64)>| mark.map(|(_, revision)| *revision);
        (
            revision(before).unwrap_or(0),
            revision(after).unwrap_or(i64::MAX),
        )
    }

    /// Whether the next mark is due: as many as are kept are spread over the retention. One from the
    /// future is of a clock that was wrong, unless clocks differ a little.
    pub(crate) fn is_time(&self, now: Timestamp, before: Timestamp) -> bool {
        let apart = now.duration_since(before) / MARKS as i32;
        let last = self.marks.last().map(|(at, _)| *at);
        last.is_none_or(|last| now.duration_since(last).abs() >= apart)
    }

    /// Forgets the marks from the future, and those before which nothing is reported any more.
    pub(crate) fn drop_outdated(&mut self, before: Timestamp, now: Timestamp) {
        self.marks.retain(|(at, _)| (before..=now).contains(at));
    }
}
