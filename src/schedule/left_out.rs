//! [`LeftOut`]: times that submitted no run, and the reason.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How many entries a schedule keeps.
const KEPT: usize = 10;

/// Why a time of a schedule submitted no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Why {
    /// No node decided the time soon enough, and it is not made up for.
    Missed,
    /// An operator skipped the time, or the schedule was paused.
    Skipped,
    /// Earlier runs were live, and the overlap policy allows no further run; or a later time that was due at once
    /// replaced this one, under [`Overlap::Cancel`](super::Overlap::Cancel) and [`Overlap::Kill`](super::Overlap::Kill).
    Overlapped,
    /// Another task, which is not a run of the schedule, has the id of the run.
    Refused,
    /// A node of a later version gave a reason that this version does not know.
    #[serde(other)]
    Other,
}

impl Why {
    /// Returns the name: `missed`, `skipped`, `overlapped` or `refused`, as in [`Counts`](super::Counts), or `other`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missed => "missed",
            Self::Skipped => "skipped",
            Self::Overlapped => "overlapped",
            Self::Refused => "refused",
            Self::Other => "other",
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Times of a schedule that submitted no run for the same reason.
///
/// A schedule keeps the last 10 entries
/// ([`ScheduleRecord::left_out`](super::ScheduleRecord::left_out)).
///
/// # Example
///
/// ```
/// use windlass::schedule::{LeftOut, ScheduleRecord, Why};
///
/// fn complain(schedule: &ScheduleRecord) {
///     for LeftOut { first, times, why, .. } in &schedule.left_out {
///         if *why == Why::Missed {
///             println!("{times} times from {first} on were missed");
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LeftOut {
    /// The first of the times.
    pub first: Timestamp,
    /// The last of the times.
    pub last: Timestamp,
    /// The number of the times.
    pub times: u64,
    /// Why the times submitted no run.
    pub why: Why,
}

impl LeftOut {
    /// One time.
    pub(crate) fn one(nominal: Timestamp, why: Why) -> Self {
        Self {
            first: nominal,
            last: nominal,
            times: 1,
            why,
        }
    }

    /// Adds times with the same reason.
    pub(crate) fn add(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.times += other.times;
    }
}

/// Appends an entry, and drops the oldest beyond 10. Times with the same reason are merged into one entry, unless a run
/// came after the first of them.
pub(crate) fn append(all: &mut Vec<LeftOut>, new: LeftOut, last_run: Option<Timestamp>) {
    match all.last_mut() {
        Some(entry) if entry.why == new.why && last_run.is_none_or(|run| run < entry.first) => {
            entry.add(&new);
        }
        _ => all.push(new),
    }
    all.drain(..all.len().saturating_sub(KEPT));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3600).unwrap()
    }

    #[test]
    fn times_of_one_reason_are_one_entry_until_a_run() {
        let mut all = Vec::new();
        for hour in 1..=3 {
            append(
                &mut all,
                LeftOut::one(at(hour), Why::Overlapped),
                Some(at(0)),
            );
        }
        append(&mut all, LeftOut::one(at(4), Why::Missed), Some(at(0)));
        append(&mut all, LeftOut::one(at(6), Why::Missed), Some(at(5)));
        let spans: Vec<_> = all.iter().map(|e| (e.first, e.last, e.times)).collect();
        let expected = [(at(1), at(3), 3), (at(4), at(4), 1), (at(6), at(6), 1)];
        assert_eq!(spans, expected);
    }

    #[test]
    fn the_last_ten_are_kept() {
        let mut all = Vec::new();
        for hour in 0..30 {
            append(
                &mut all,
                LeftOut::one(at(2 * hour + 1), Why::Missed),
                Some(at(2 * hour)),
            );
        }
        assert_eq!(
            (all.len(), all[0].first, all[9].first),
            (10, at(41), at(59))
        );
    }

    #[test]
    fn a_reason_of_a_later_version_is_read_as_other() {
        let stored = r#"{"first":"2030-01-01T00:00:00Z","last":"2030-01-01T00:00:00Z","times":1,"why":"holiday","of":"DE"}"#;
        let entry: LeftOut = serde_json::from_str(stored).unwrap();
        assert_eq!((entry.why, entry.times), (Why::Other, 1));
        for why in [Why::Missed, Why::Skipped, Why::Overlapped, Why::Refused] {
            let text = serde_json::to_string(&why).unwrap();
            assert_eq!(text, format!("\"{why}\""));
            assert_eq!(serde_json::from_str::<Why>(&text).unwrap(), why);
        }
    }
}
