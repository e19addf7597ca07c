//! Durations and times of a schedule, in their JSON form.

use std::time::Duration;

use jiff::{SignedDuration, SpanRelativeTo, Timestamp, civil::Date, fmt::friendly};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use windlass_statemachine::{
    Invalid,
    time::{self, parse},
};

/// A duration as it is written: `90s`, `15m`, `1h30m`, `7d`. It may be negative until it is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Length(pub(crate) SignedDuration);

impl From<Duration> for Length {
    fn from(length: Duration) -> Self {
        Self(SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX))
    }
}

impl Length {
    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// Returns the duration, which must not be negative.
    pub(crate) fn check(self, field: &'static str) -> Result<SignedDuration, Invalid> {
        if !self.0.is_negative() {
            return Ok(self.0);
        }
        let reason = format!("{self} is negative; write it like 90s, 15m, 1h30m or 7d");
        Err(Invalid::new(field, reason))
    }
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&friendly::SpanPrinter::new().duration_to_string(&self.0))
    }
}

impl std::str::FromStr for Length {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a duration; write it like 90s, 15m, 1h30m or 7d");
        let span = time::span(text).ok_or_else(wrong)?;
        let length = span.to_duration(SpanRelativeTo::days_are_24_hours());
        length.map(Self).map_err(|_| wrong())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Length {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Reads a time that may be absent. The error is the same as for every other time; the caller adds
/// the field.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<TimeText>::deserialize(from)?.map(|at| at.0))
}

/// Reads times like [`time`]; `null` for none.
pub(super) fn times<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Timestamp>, D::Error> {
    let times = Option::<Vec<TimeText>>::deserialize(from)?.unwrap_or_default();
    Ok(times.into_iter().map(|at| at.0).collect())
}

/// Reads days of the calendar; `null` for none.
pub(super) fn dates<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Date>, D::Error> {
    let days = Option::<Vec<Day>>::deserialize(from)?.unwrap_or_default();
    Ok(days.into_iter().map(|day| day.0).collect())
}

struct Day(Date);

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = |_| {
            let reason = format!("'{text}' is not a day of the calendar; write it like 2030-01-02");
            D::Error::custom(reason)
        };
        text.parse().map(Self).map_err(wrong)
    }
}

struct TimeText(Timestamp);

impl<'de> Deserialize<'de> for TimeText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = parse("time", &String::deserialize(from)?);
        read.map(Self)
            .map_err(|wrong| D::Error::custom(wrong.reason()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_survives_its_text_and_a_negative_one_names_its_field() {
        for text in ["0s", "90s", "15m", "1h30m", "7d", "1ms"] {
            let length: Length = text.parse().unwrap();
            assert_eq!(length.to_string().parse(), Ok(length), "{text}");
            assert!(length.check("offset").is_ok());
        }
        let negative: Length = "-5m".parse().unwrap();
        let refused = negative.check("offset").unwrap_err();
        assert_eq!(refused.field(), "offset");
        assert!(
            refused.reason().starts_with("-5m is negative")
                || refused.reason().starts_with("5m ago"),
            "{refused}"
        );
        assert!("soon".parse::<Length>().unwrap_err().contains("'soon'"));
    }
}
