//! Compacts the history of etcd, if enabled ([`Options::compact_after`]).
//!
//! etcd has revisions but no times. So the nodes store marks in one key: times with their
//! revisions. They compact to the revision of a mark that is old enough. The node that finds the
//! next mark due does both. Two nodes may do so at once without harm.
//!
//! [`Options::compact_after`]: crate::store::etcd::Options::compact_after

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tracing::{info, warn};

use crate::store::{
    etcd::{
        client::Fault,
        read::Access,
        schema::{
            json::{parse, write},
            revision,
        },
        tasks::hold,
        write::Item,
    },
    retention::PruneClock,
};

/// How many marks cover the time for which history is kept. It is kept longer by at most one such
/// interval.
const MARKS: i32 = 12;

/// `/NS/meta/compaction`: times with their revisions, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Marks {
    marks: Vec<(Timestamp, i64)>,
}

impl Marks {
    /// Returns whether the next mark is due. A mark from the future comes from a wrong clock.
    fn is_time(&self, now: Timestamp, after: SignedDuration) -> bool {
        let last = self.marks.last().map(|(at, _)| *at);
        last.is_none_or(|last| now.duration_since(last).abs() >= after / MARKS)
    }

    /// Adds a mark for now. Returns the revision to compact to. `latest` is an upper bound of the
    /// present time ([`PruneClock`]): a clock that is ahead compacts nothing early.
    fn note(
        &mut self,
        (now, latest): (Timestamp, Timestamp),
        newest: i64,
        after: SignedDuration,
    ) -> Option<i64> {
        // A greater revision than the newest is from before the cluster was restored.
        self.marks
            .retain(|(at, revision)| *at <= now && *revision <= newest);
        let is_old = |at: &Timestamp| latest.duration_since(*at) >= after;
        let old = self.marks.iter().take_while(|(at, _)| is_old(at)).count();
        // The last of them stays, so that a failed compaction is repeated.
        self.marks.drain(..old.saturating_sub(1));
        let passed = (old > 0).then(|| self.marks[0].1);
        self.marks.push((now, newest));
        passed
    }
}

/// Compacts the history of etcd.
pub(crate) struct Compaction {
    pub(crate) access: Access,
    pub(crate) after: Option<Duration>,
    /// The clock that decides what is old enough.
    pub(crate) prune_clock: OnceCell<PruneClock>,
}

impl Compaction {
    pub(crate) fn new(access: Access, after: Option<Duration>) -> Self {
        let prune_clock = OnceCell::new();
        Self {
            access,
            after,
            prune_clock,
        }
    }

    /// Compacts the history that is old enough, if configured and due.
    pub(crate) async fn compact_what_is_old(&self) {
        let Some(after) = self.after else {
            return;
        };
        match self.try_compact_what_is_old(after).await {
            Ok(None) => {}
            Ok(Some(revision)) => info!(revision, ?after, "compacted the older history of etcd"),
            Err(fault) => {
                let error = fault.into_error("compact the history");
                warn!(%error, "could not compact the history of etcd; retrying later");
            }
        }
    }

    /// Returns the revision that this call compacted to, if it did.
    async fn try_compact_what_is_old(&self, after: Duration) -> Result<Option<i64>, Fault> {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        let key = self.access.keys().compaction();
        let (kvs, newest) = self.access.link().get_all(&key).await?;
        let marks = kvs.first().and_then(|kv| parse(kv).ok());
        let mut marks: Marks = marks.unwrap_or_default();
        let now = self.access.now();
        let newest_mark = marks.marks.iter().rev().map(|(at, _)| *at);
        let newest_mark = newest_mark.into_iter().find(|at| *at <= now);
        let make = async || PruneClock::new(self.access.clock.clone(), newest_mark);
        let latest = self.prune_clock.get_or_init(make).await.now();
        if !marks.is_time(now, after) {
            return Ok(None);
        }
        // Before the mark is written: if the quota is full, only a compaction makes room.
        let mut compacted = None;
        if let Some(old) = marks.note((now, latest), newest, after) {
            // Read after `newest`: an export that is not among these reads a later revision than `old`.
            let held = hold::first(&self.access.reader).await?;
            let old = held.map_or(old, |held| old.min(held));
            if self.access.link().compact(old).await? {
                compacted = Some(old);
            }
        }
        let mut item = Item::new("compaction");
        item.when_at(&key, revision(kvs.first()));
        let value = write("compaction", &marks).map_err(Fault::Refused)?;
        item.put(&key, value);
        // If the comparison fails, another node has written the same mark.
        self.access.pipeline.write(item).await?;
        Ok(compacted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn minute(n: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(n)
    }

    #[test]
    fn only_what_is_old_enough_is_compacted() {
        let mut marks = Marks::default();
        for n in 0..200 {
            assert_eq!(marks.is_time(minute(n), HOUR), n % 5 == 0, "minute {n}");
            if n % 5 != 0 {
                continue;
            }
            let expected = (n >= 60).then(|| (n - 60) * 100);
            assert_eq!(
                marks.note((minute(n), minute(n)), n * 100, HOUR),
                expected,
                "minute {n}"
            );
            assert!(marks.marks.len() <= 14, "{marks:?}");
        }
        // Long after the last node ended, its newest mark is used.
        assert_eq!(
            marks.note((minute(9000), minute(9000)), 90_000, HOUR),
            Some(195 * 100)
        );
    }

    #[test]
    fn a_clock_that_is_ahead_compacts_nothing_early() {
        let mut marks = Marks::default();
        for n in [0, 5, 10] {
            assert_eq!(marks.note((minute(n), minute(n)), n * 100, HOUR), None);
        }
        assert_eq!(marks.note((minute(9000), minute(15)), 1500, HOUR), None);
        // Marks of other clocks still count.
        let noted = marks.note((minute(60), minute(60)), 6000, HOUR);
        assert_eq!(noted, Some(0));
    }

    #[test]
    fn wrong_clocks_and_restored_copies_compact_nothing() {
        let mut marks = Marks::default();
        assert_eq!(marks.note((minute(600), minute(600)), 50, HOUR), None);
        assert!(!marks.is_time(minute(599), HOUR), "clocks differ a little");
        assert!(marks.is_time(minute(100), HOUR), "that one was wrong");
        assert_eq!(marks.note((minute(100), minute(100)), 60, HOUR), None);
        assert_eq!(marks.marks, [(minute(100), 60)]);
        assert_eq!(
            marks.note((minute(200), minute(200)), 30, HOUR),
            None,
            "etcd went back"
        );
        assert_eq!(marks.marks, [(minute(200), 30)]);
    }
}
