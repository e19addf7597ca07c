//! [`Horizon`]: how far back history is reported, and the revisions of past times.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// For how many past times `maintain` stores the revisions.
const MARKS: usize = 64;

/// `/NS/meta/horizon`: past times with their revisions, and the first revision whose history is
/// reported.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Horizon {
    /// Changes up to this revision are no longer reported.
    pub(crate) pruned: i64,
    /// Past times with their revisions, oldest first.
    pub(crate) marks: Vec<(Timestamp, i64)>,
}

impl Horizon {
    /// Returns the last revision known to be before a time, and the first known to be after it.
    pub(crate) fn around(&self, time: Timestamp) -> (i64, i64) {
        let before = self.marks.iter().rev().find(|(at, _)| *at < time);
        let after = self.marks.iter().find(|(at, _)| *at >= time);
        let revision = |mark: Option<&(Timestamp, i64)>| mark.map(|(_, revision)| *revision);
        (
            revision(before).unwrap_or(0),
            revision(after).unwrap_or(i64::MAX),
        )
    }

    /// Returns whether the next mark is due: 64 marks cover the retention. A mark from the near
    /// future comes from a slightly different clock, one from the far future from a wrong clock.
    pub(crate) fn is_time(&self, now: Timestamp, before: Timestamp) -> bool {
        let apart = now.duration_since(before) / MARKS as i32;
        let last = self.marks.last().map(|(at, _)| *at);
        last.is_none_or(|last| now.duration_since(last).abs() >= apart)
    }

    /// Drops the marks from the future, and those before the retention.
    pub(crate) fn drop_outdated(&mut self, before: Timestamp, now: Timestamp) {
        self.marks.retain(|(at, _)| (before..=now).contains(at));
    }
}
