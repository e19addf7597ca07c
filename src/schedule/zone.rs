//! The times of an expression in a time zone, across the changes of its clocks.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
};

use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};
use serde::{Deserialize, Serialize};

use super::cron::Expression;

/// What happens at a fixed local time that the clocks skip because they go forward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Gap {
    /// At the first instant after the gap.
    #[default]
    After,
    /// Not at all on that day.
    Skip,
}

/// What happens at a fixed local time that the clocks repeat because they go back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Fold {
    /// At the first occurrence.
    #[default]
    First,
    /// At both occurrences.
    Both,
}

/// Returns which time zone data this machine uses: its version and its folder, or that it is the copy in
/// the program. Nodes with other data may compute other times for a zone whose rules have changed.
///
/// # Example
///
/// ```
/// assert!(!windlass::schedule::zone_data().is_empty());
/// ```
pub fn zone_data() -> String {
    let own = std::env::var_os("TZDIR").map(PathBuf::from);
    let usual = [
        "/usr/share/zoneinfo",
        "/usr/share/lib/zoneinfo",
        "/etc/zoneinfo",
    ];
    let folders = own.into_iter().chain(usual.map(PathBuf::from));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        return "the copy in this program".to_owned();
    };
    // The first line of the file is `# version 2025b`.
    let first = std::fs::File::open(folder.join("tzdata.zi"))
        .ok()
        .and_then(|file| {
            let mut line = String::new();
            let read = BufReader::new(file.take(100)).read_line(&mut line);
            read.ok().map(|_| line)
        });
    let version = first
        .as_deref()
        .and_then(|line| line.strip_prefix("# version "));
    let version = version.map_or("unknown version", str::trim);
    format!("{version} of {}", folder.display())
}

/// The rules by which the local times of a schedule become instants.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    pub(crate) zone: TimeZone,
    pub(crate) gap: Gap,
    pub(crate) fold: Fold,
}

const SECOND: SignedDuration = SignedDuration::from_secs(1);
const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

impl Clocks {
    /// Returns the first instant of an expression after `after`.
    ///
    /// The search proceeds by the spans between two changes of the clocks: within a span, local
    /// times only grow.
    pub(crate) fn next(&self, expression: &Expression, after: Timestamp) -> Option<Timestamp> {
        let mut from = whole_second_after(after)?;
        loop {
            if let Some(at) = self.after_a_gap(expression, from) {
                return Some(at);
            }
            let end = self.zone.following(from).next().map(|t| t.timestamp());
            if let Some(at) = self.within(expression, from, end) {
                return Some(at);
            }
            from = end?;
        }
    }

    /// Returns the first instant of the expression from `from` to the next change of the clocks.
    fn within(
        &self,
        expression: &Expression,
        from: Timestamp,
        end: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let offset = self.zone.to_offset(from);
        let mut local = offset.to_datetime(from);
        loop {
            local = expression.at_or_after(local)?;
            let at = offset.to_timestamp(local).ok()?;
            if end.is_some_and(|end| at >= end) {
                return None;
            }
            if !self.is_repeat(expression, local, at) {
                return Some(at);
            }
            local = local.checked_add(SECOND).ok()?;
        }
    }

    /// Returns whether the instant is the second occurrence of a local time that counts once.
    fn is_repeat(&self, expression: &Expression, local: DateTime, at: Timestamp) -> bool {
        if expression.steps() || self.fold == Fold::Both {
            return false;
        }
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok() != Some(at),
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => false,
        }
    }

    /// Returns by how many seconds the clocks go forward at an instant; less than 0 when they go back.
    pub(crate) fn forward_at(&self, at: Timestamp) -> i64 {
        let before = at.checked_sub(INSTANT).unwrap_or(at);
        let [before, after] = [before, at].map(|at| self.zone.to_offset(at));
        i64::from(after.seconds() - before.seconds())
    }

    /// Returns `at` if the clocks go forward there and skip a fixed time of the expression.
    pub(crate) fn after_a_gap(&self, expression: &Expression, at: Timestamp) -> Option<Timestamp> {
        if expression.steps() || self.gap == Gap::Skip {
            return None;
        }
        let before = self.zone.to_offset(at.checked_sub(INSTANT).ok()?);
        let after = self.zone.to_offset(at);
        if after <= before {
            return None;
        }
        let skipped = expression.at_or_after(before.to_datetime(at))?;
        (skipped < after.to_datetime(at)).then_some(at)
    }

    /// Returns the instant up to which local times have passed, for a schedule that has decided `last`
    /// when the zone's clocks showed `local`. It is later than `last` when the rules of the zone have
    /// changed since then, so that a local time does not come twice.
    pub(crate) fn past(&self, last: Timestamp, local: DateTime) -> Timestamp {
        let offset = self.zone.to_ambiguous_timestamp(local).offset();
        let now = match offset {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local),
            AmbiguousOffset::Gap { before, .. } => before.to_timestamp(local),
        };
        now.map_or(last, |now| now.max(last))
    }
}

/// Returns the first whole second after an instant.
fn whole_second_after(at: Timestamp) -> Option<Timestamp> {
    let second = at
        .as_second()
        .checked_sub(i64::from(at.subsec_nanosecond() < 0))?;
    Timestamp::from_second(second.checked_add(1)?).ok()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn clocks(zone: &str) -> Clocks {
        Clocks {
            zone: TimeZone::get(zone).unwrap(),
            gap: Gap::After,
            fold: Fold::First,
        }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Returns the next `count` times after `after`, in UTC.
    fn next(clocks: &Clocks, cron: &str, after: &str, count: usize) -> Vec<String> {
        let expression = Expression::parse("cron", cron).unwrap();
        let mut last = at(after);
        let mut found = Vec::new();
        for _ in 0..count {
            let next = clocks.next(&expression, last).unwrap();
            assert!(next > last);
            found.push(next.to_string());
            last = next;
        }
        found
    }

    // Berlin: on 2030-03-31 the clocks go from 02:00 (+01) to 03:00 (+02), at 01:00 UTC; on 2030-10-27
    // from 03:00 (+02) back to 02:00 (+01), at 01:00 UTC.

    #[test]
    fn a_fixed_time_in_a_gap_runs_at_the_first_instant_after_it() {
        let berlin = clocks("Europe/Berlin");
        let expected = [
            "2030-03-30T01:30:00Z",
            "2030-03-31T01:00:00Z",
            "2030-04-01T00:30:00Z",
        ];
        assert_eq!(
            next(&berlin, "30 2 * * *", "2030-03-29T12:00:00Z", 3),
            expected
        );
        // Several times in one gap, and the instant after it, are one run.
        let expected = [
            "2030-03-31T00:59:00Z",
            "2030-03-31T01:00:00Z",
            "2030-04-01T00:00:00Z",
        ];
        let listed = next(&berlin, "0,15,59 1-3 * * *", "2030-03-31T00:30:00Z", 3);
        assert_eq!(listed[..2], expected[..2]);
        assert_eq!(
            next(&berlin, "0 2,3 * * *", "2030-03-31T00:30:00Z", 2)[0],
            expected[1]
        );
        assert_eq!(
            next(&berlin, "0 2 * * *", "2030-03-31T01:00:00Z", 1)[0],
            expected[2]
        );
    }

    #[test]
    fn a_fixed_time_in_a_gap_can_be_left_out() {
        let berlin = Clocks {
            gap: Gap::Skip,
            ..clocks("Europe/Berlin")
        };
        let expected = ["2030-03-30T01:30:00Z", "2030-04-01T00:30:00Z"];
        assert_eq!(
            next(&berlin, "30 2 * * *", "2030-03-29T12:00:00Z", 2),
            expected
        );
    }

    #[test]
    fn a_fixed_time_in_a_fold_runs_once_at_its_first_occurrence() {
        let berlin = clocks("Europe/Berlin");
        let expected = ["2030-10-27T00:30:00Z", "2030-10-28T01:30:00Z"];
        assert_eq!(
            next(&berlin, "30 2 * * *", "2030-10-26T12:00:00Z", 2),
            expected
        );
        // Holds also for a search that starts between the two.
        assert_eq!(
            next(&berlin, "30 2 * * *", "2030-10-27T00:45:00Z", 1),
            expected[1..]
        );
        assert_eq!(
            next(&berlin, "30 2 * * *", "2030-10-27T01:15:00Z", 1),
            expected[1..]
        );
        let both = Clocks {
            fold: Fold::Both,
            ..berlin
        };
        let expected = [
            "2030-10-27T00:30:00Z",
            "2030-10-27T01:30:00Z",
            "2030-10-28T01:30:00Z",
        ];
        assert_eq!(
            next(&both, "30 2 * * *", "2030-10-26T12:00:00Z", 3),
            expected
        );
    }

    #[test]
    fn steps_of_an_hour_or_less_follow_elapsed_time() {
        let berlin = clocks("Europe/Berlin");
        let expected = [
            "2030-03-31T00:30:00Z",
            "2030-03-31T01:00:00Z",
            "2030-03-31T01:30:00Z",
        ];
        assert_eq!(
            next(&berlin, "*/30 * * * *", "2030-03-31T00:00:00Z", 3),
            expected
        );
        let hourly = [
            "2030-10-26T23:15:00Z",
            "2030-10-27T00:15:00Z",
            "2030-10-27T01:15:00Z",
        ];
        assert_eq!(
            next(&berlin, "15 * * * *", "2030-10-26T23:00:00Z", 3),
            hourly
        );
        let quarters = next(&berlin, "*/15 * * * *", "2030-10-26T23:00:00Z", 16);
        assert_eq!(
            quarters[15], "2030-10-27T03:00:00Z",
            "none is left out, none comes twice"
        );
    }

    #[test]
    fn the_half_hour_of_lord_howe_is_a_gap_and_a_fold_too() {
        // From 02:00 (+10:30) to 02:30 (+11) on 2030-10-06, at 15:30 UTC of the day before; from 02:00
        // (+11) back to 01:30 (+10:30) on 2030-04-07, at 15:00 UTC of the day before.
        let howe = clocks("Australia/Lord_Howe");
        let gap = [
            "2030-10-04T15:45:00Z",
            "2030-10-05T15:30:00Z",
            "2030-10-06T15:15:00Z",
        ];
        assert_eq!(next(&howe, "15 2 * * *", "2030-10-04T12:00:00Z", 3), gap);
        let fold = ["2030-04-06T14:45:00Z", "2030-04-07T15:15:00Z"];
        assert_eq!(next(&howe, "45 1 * * *", "2030-04-06T12:00:00Z", 2), fold);
        let steps = next(&howe, "*/10 * * * *", "2030-04-06T14:00:00Z", 12);
        assert_eq!(steps[11], "2030-04-06T16:00:00Z");
    }

    #[test]
    fn a_day_that_a_zone_skips_runs_at_the_first_instant_after_it() {
        // Samoa skipped 2011-12-30.
        let apia = clocks("Pacific/Apia");
        let expected = [
            "2011-12-29T22:00:00Z",
            "2011-12-30T10:00:00Z",
            "2011-12-30T22:00:00Z",
        ];
        assert_eq!(
            next(&apia, "0 12 * * *", "2011-12-29T10:00:00Z", 3),
            expected
        );
    }

    #[test]
    fn a_zone_without_changes_has_none() {
        let utc = clocks("UTC");
        let expected = ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"];
        assert_eq!(
            next(&utc, "0 0 29 2 *", "2026-01-01T00:00:00.5Z", 2),
            expected
        );
        let before = "1969-12-31T23:59:58.5Z";
        assert_eq!(
            next(&utc, "* * * * * *", before, 1),
            ["1969-12-31T23:59:59Z"]
        );
    }

    #[test]
    fn a_local_time_is_past_though_its_zone_moves_it() {
        // Decided at 09:00 UTC, when the data of the zone had +02; the new data has +01.
        let berlin = clocks("Europe/Berlin");
        let (last, local) = (
            at("2030-01-10T09:00:00Z"),
            date(2030, 1, 10).at(11, 0, 0, 0),
        );
        assert_eq!(berlin.past(last, local), at("2030-01-10T10:00:00Z"));
        let same = date(2030, 1, 10).at(10, 0, 0, 0);
        assert_eq!(berlin.past(last, same), last);
        let earlier = date(2030, 1, 10).at(9, 0, 0, 0);
        assert_eq!(berlin.past(last, earlier), last);
    }
}
