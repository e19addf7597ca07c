//! Reading times, with errors that name the field.

use jiff::{Span, Timestamp, civil::DateTime, tz::TimeZone};
use serde::{Deserialize, Deserializer, de::Error};

use crate::Invalid;

/// The last time that a task may have, in whole seconds. It is earlier than the end of the year 9999, because in
/// some time zones the last day of that year in UTC is not a day of the year 9999.
pub const LAST: &str = "9999-12-30T22:00:00Z";

/// Reads an RFC 3339 time.
///
/// # Errors
///
/// [`Invalid`] that names `field`, with an example of a valid time.
///
/// # Example
///
/// ```
/// use windlass_statemachine::time::parse;
///
/// assert!(parse("until", "2030-01-02T03:04:05Z").is_ok());
/// let local = parse("until", "2030-01-02T03:04").unwrap_err();
/// assert_eq!(
///     local.to_string(),
///     "until: '2030-01-02T03:04' has no time zone; write 2030-01-02T03:04:00Z, or an offset for Z"
/// );
/// assert!(parse("until", "tomorrow").unwrap_err().to_string().starts_with("until: 'tomorrow'"));
/// ```
pub fn parse(field: &'static str, text: &str) -> Result<Timestamp, Invalid> {
    text.parse().map_err(|_| {
        // Do not suggest a local time that has no time in UTC.
        let local = text.parse::<DateTime>().ok();
        let reason = match local.filter(|local| local.to_zoned(TimeZone::UTC).is_ok()) {
            Some(local) => format!("'{text}' has no time zone; write {local}Z, or an offset for Z"),
            None if is_beyond(text) => {
                format!("'{text}' is not a time up to {LAST}; write it like 2030-01-02T03:04:05Z")
            }
            None => format!("'{text}' is not a time; write it like 2030-01-02T03:04:05Z"),
        };
        Invalid::new(field, reason)
    })
}

/// Reads a length of time, such as `90s`, `1h 30m` or `P1DT2H`. `20:30:00` is none, although it could be read as hours,
/// minutes and seconds: people who write it mean a time of the day.
///
/// # Example
///
/// ```
/// use windlass_statemachine::time::span;
///
/// assert!(span("1h 30m").is_some());
/// assert!(span("20:30:00").is_none());
/// ```
pub fn span(text: &str) -> Option<Span> {
    text.parse().ok().filter(|_| !text.contains(':'))
}

/// Returns whether a text is a date and a time beyond [`LAST`].
fn is_beyond(text: &str) -> bool {
    let year = text.bytes().take_while(u8::is_ascii_digit).count();
    match text.get(..19) {
        _ if year > 4 => text.get(year..).is_some_and(|rest| rest.starts_with('-')),
        Some(local) => text.starts_with("9999-12-3") && local.parse::<DateTime>().is_ok(),
        None => false,
    }
}

pub(crate) fn start_at<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    of_field("start_at", from)
}

pub(crate) fn start_by<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    of_field("start_by", from)
}

pub(crate) fn end_by<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    of_field("end_by", from)
}

pub(crate) fn after_deadline<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Timestamp>, D::Error> {
    of_field("after_deadline", from)
}

fn of_field<'de, D: Deserializer<'de>>(
    field: &'static str,
    from: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|t| parse(field, &t))
        .transpose()
        .map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::*;

    /// Returns the text of the time this many seconds after the last one, in December 9999. The
    /// text may not be a valid time.
    fn text(after: i64) -> String {
        let second = (30 * 24 + 22) * 3600 + after;
        let (day, second) = (second / 86_400, second % 86_400);
        let (minute, second) = (second / 60, second % 60);
        format!(
            "9999-12-{day:02}T{:02}:{:02}:{second:02}Z",
            minute / 60,
            minute % 60
        )
    }

    #[test]
    fn a_time_of_the_day_is_no_length() {
        for text in ["20:30:00", "1:00", "1d 02:00:00"] {
            assert!(span(text).is_none(), "{text}");
        }
        for text in ["90s", "1h 30m", "P1DT2H", "7d"] {
            assert!(span(text).is_some(), "{text}");
        }
    }

    #[test]
    fn the_last_time_is_named_by_the_errors() {
        let last: Timestamp = LAST.parse().unwrap();
        assert_eq!(last.as_second(), Timestamp::MAX.as_second());
        for after in [
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59",
            "10000-01-01T00:00:00Z",
        ] {
            let refused = parse("until", after).unwrap_err();
            let says = format!("'{after}' is not a time up to {LAST}");
            assert!(refused.reason().starts_with(&says), "{refused}");
        }
    }

    #[test]
    fn only_the_error_of_a_time_that_is_too_late_names_the_last_one() {
        for text in [
            "tomorrow",
            "2030-13-01T00:00:00Z",
            "2030-02-30T00:00:00Z",
            "",
        ] {
            let refused = parse("until", text).unwrap_err();
            let says = format!("'{text}' is not a time; write it like 2030-01-02T03:04:05Z");
            assert_eq!(refused.reason(), says);
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_up_to_the_last_one_and_no_further(seconds in -300_000_i64..=93_599) {
            let text = text(seconds);
            match parse("until", &text) {
                Ok(at) => {
                    prop_assert!(seconds <= 0, "{text}");
                    prop_assert_eq!(at.to_string(), text);
                }
                Err(refused) => {
                    prop_assert!(seconds > 0, "{text}: {refused}");
                    prop_assert!(refused.reason().contains(LAST), "{refused}");
                }
            }
        }

        #[test]
        fn a_local_time_gets_the_advice_that_works(second in -377_705_116_800_i64..253_402_300_800) {
            let local = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
            let Ok(local) = local.checked_add(SignedDuration::from_secs(second)) else {
                return Ok(());
            };
            let refused = parse("until", &local.to_string()).unwrap_err();
            let advice = refused.reason().split_once("; write ").map(|(_, advice)| advice);
            let advice = advice.and_then(|advice| advice.split(", or").next()).unwrap();
            let advice = advice.trim_start_matches("it like ");
            prop_assert!(parse("until", advice).is_ok(), "{refused}");
        }
    }
}
