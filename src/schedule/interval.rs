//! [`Interval`]: the distance of the times of `every`, fixed or in months of the calendar.

use jiff::{
    SignedDuration, Span, Timestamp, ToSpan,
    civil::{DateTime, date},
    tz::AmbiguousOffset,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use windlass_statemachine::{Invalid, time};

use super::{
    span::Length,
    zone::{Clocks, Fold, Gap},
};

/// The most months between two times.
const MOST_MONTHS: i32 = 1200;

/// The distance between two times: `90s`, `15m`, `7d`, or months of the calendar: `1mo`, `3mo`, `1y`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interval {
    Fixed(Length),
    Months(i32),
}

impl Interval {
    /// Returns the same interval, checked.
    pub(crate) fn check(self) -> Result<Self, Invalid> {
        let wrong = |reason: String| Err(Invalid::new("every", reason));
        match self {
            Self::Fixed(length) => {
                if length.check("every")? < SignedDuration::from_secs(1) {
                    return wrong(format!("{length} is less than a second; give 1s or more"));
                }
            }
            Self::Months(months) => {
                if !(1..=MOST_MONTHS).contains(&months) {
                    return wrong(format!("{self} is not from 1mo to {MOST_MONTHS}mo"));
                }
            }
        }
        Ok(self)
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(length) => length.fmt(f),
            Self::Months(months) => write!(f, "{months}mo"),
        }
    }
}

impl std::str::FromStr for Interval {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(span) = time::span(text) else {
            let number = text.strip_suffix('M').filter(|n| !n.is_empty());
            return Err(match number {
                Some(n) if n.bytes().all(|b| b.is_ascii_digit()) => {
                    format!("'{text}' has no unit; write {n}mo for months, or {n}m for minutes")
                }
                _ => {
                    format!("'{text}' is not a duration; write it like 90s, 15m, 1h30m, 7d or 1mo")
                }
            });
        };
        let months = i32::from(span.get_years()) * 12 + span.get_months();
        if months == 0 {
            // Text that counts no months, or names none.
            let names_months = text.contains("mo") || text.replace("day", "").contains('y');
            return match names_months && span.is_zero() {
                true => Err(format!("'{text}' is not from 1mo to {MOST_MONTHS}mo")),
                false => text.parse().map(Self::Fixed),
            };
        }
        let rest = span.years(0).months(0);
        if !rest.is_zero() {
            return Err(format!(
                "'{text}' has months beside a fixed time; write months alone, like 1mo, or a fixed time, like 30d"
            ));
        }
        Ok(Self::Months(months))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Interval {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Interval".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Times that are months of the calendar apart, at the local time of the anchor. Each is counted from the anchor, so
/// that the 31st is the last day of shorter months, and the 31st again in longer ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monthly {
    anchor: DateTime,
    months: i32,
}

impl Monthly {
    /// Returns the times of an anchor; without one they are counted from midnight of 1970-01-01, local time.
    pub(crate) fn new(months: i32, anchor: Option<Timestamp>, clocks: &Clocks) -> Self {
        let anchor = anchor.map(|at| clocks.zone.to_datetime(at));
        Self {
            anchor: anchor.unwrap_or_else(|| date(1970, 1, 1).at(0, 0, 0, 0)),
            months,
        }
    }

    /// Returns the first time after an instant.
    pub(crate) fn next(&self, clocks: &Clocks, after: Timestamp) -> Option<Timestamp> {
        let local = clocks.zone.to_datetime(after);
        let months = |at: DateTime| i32::from(at.year()) * 12 + i32::from(at.month());
        let passed = (months(local) - months(self.anchor)).div_euclid(self.months);
        // The time of the month of `after` may be before or after it, and the clocks may leave one out.
        (passed - 1..=passed + 3)
            .filter_map(|number| self.number(number, clocks))
            .flatten()
            .flatten()
            .find(|at| *at > after)
    }

    /// Returns the instants of the time with this number: one, two where the clocks repeat it, or none.
    fn number(&self, number: i32, clocks: &Clocks) -> Option<[Option<Timestamp>; 2]> {
        let months = number.checked_mul(self.months)?;
        let local = self
            .anchor
            .checked_add(Span::new().try_months(months).ok()?)
            .ok()?;
        let offset = clocks.zone.to_ambiguous_timestamp(local).offset();
        Some(match offset {
            AmbiguousOffset::Unambiguous { offset } => [offset.to_timestamp(local).ok(), None],
            AmbiguousOffset::Fold { before, after } => {
                let second = after.to_timestamp(local).ok();
                [
                    before.to_timestamp(local).ok(),
                    second.filter(|_| clocks.fold == Fold::Both),
                ]
            }
            AmbiguousOffset::Gap { before, .. } => {
                let inside = before.to_timestamp(local).ok()?;
                let after = inside.checked_add(1.nanosecond()).ok()?;
                let change = clocks
                    .zone
                    .preceding(after)
                    .next()
                    .map(|change| change.timestamp());
                [change.filter(|_| clocks.gap == Gap::After), None]
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

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

    fn next(
        interval: &str,
        anchor: &str,
        after: &str,
        clocks: &Clocks,
        count: usize,
    ) -> Vec<String> {
        let Ok(Interval::Months(months)) = interval.parse() else {
            panic!("{interval}");
        };
        let monthly = Monthly::new(months, Some(at(anchor)), clocks);
        let mut last = at(after);
        let times = (0..count).map(|_| {
            last = monthly.next(clocks, last).unwrap();
            last.to_string()
        });
        times.collect()
    }

    #[test]
    fn the_31st_is_the_last_day_of_shorter_months_and_does_not_drift() {
        let utc = clocks("UTC");
        let expected = [
            "2030-02-28T06:00:00Z",
            "2030-03-31T06:00:00Z",
            "2030-04-30T06:00:00Z",
            "2030-05-31T06:00:00Z",
        ];
        let anchor = "2030-01-31T06:00:00Z";
        assert_eq!(next("1mo", anchor, anchor, &utc, 4), expected);
        // Also before the anchor.
        let before = "2029-11-01T00:00:00Z";
        let expected = ["2029-11-30T06:00:00Z", "2029-12-31T06:00:00Z", anchor];
        assert_eq!(next("1mo", anchor, before, &utc, 3), expected);
        let expected = ["2031-01-31T06:00:00Z", "2032-01-31T06:00:00Z"];
        assert_eq!(next("1y", anchor, anchor, &utc, 2), expected);
        let leap = "2028-02-29T00:00:00Z";
        let expected = ["2029-02-28T00:00:00Z", "2030-02-28T00:00:00Z"];
        assert_eq!(next("12mo", leap, leap, &utc, 2), expected);
    }

    #[test]
    fn a_month_is_one_of_the_local_calendar() {
        let mut berlin = clocks("Europe/Berlin");
        // 02:30 in Berlin, which the clocks skip on 2030-03-31, and repeat on 2030-10-27.
        let anchor = "2030-01-31T01:30:00Z";
        let expected = [
            "2030-02-28T01:30:00Z",
            "2030-03-31T01:00:00Z",
            "2030-04-30T00:30:00Z",
        ];
        assert_eq!(next("1mo", anchor, anchor, &berlin, 3), expected);
        let anchor = "2030-07-27T00:30:00Z";
        let after = "2030-09-30T00:00:00Z";
        let expected = ["2030-10-27T00:30:00Z", "2030-11-27T01:30:00Z"];
        assert_eq!(next("1mo", anchor, after, &berlin, 2), expected);
        (berlin.gap, berlin.fold) = (Gap::Skip, Fold::Both);
        let expected = ["2030-10-27T00:30:00Z", "2030-10-27T01:30:00Z"];
        assert_eq!(next("1mo", anchor, after, &berlin, 2), expected);
        let anchor = "2030-01-31T01:30:00Z";
        let expected = ["2030-02-28T01:30:00Z", "2030-04-30T00:30:00Z"];
        assert_eq!(next("1mo", anchor, anchor, &berlin, 2), expected);
    }

    #[test]
    fn an_interval_survives_its_text() {
        for text in ["90s", "7d", "1mo", "18mo"] {
            let interval: Interval = text.parse().unwrap();
            assert_eq!(interval.to_string().parse(), Ok(interval), "{text}");
            assert!(interval.check().is_ok());
        }
        assert_eq!("1y 6mo".parse(), Ok(Interval::Months(18)));
        for (text, says) in [
            (
                "soon",
                "'soon' is not a duration; write it like 90s, 15m, 1h30m, 7d or 1mo",
            ),
            ("1mo 3d", "'1mo 3d' has months beside a fixed time"),
        ] {
            assert!(
                text.parse::<Interval>().unwrap_err().starts_with(says),
                "{text}"
            );
        }
        for (text, says) in [
            ("-1mo", "is not from 1mo to 1200mo"),
            ("101y", "is not from 1mo to 1200mo"),
            ("0s", "is less than a second"),
            ("-5m", "negative"),
        ] {
            let refused = text.parse::<Interval>().unwrap().check().unwrap_err();
            assert_eq!(refused.field(), "every");
            assert!(refused.reason().contains(says), "{text}: {refused}");
        }
    }
}
