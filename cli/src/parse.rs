//! Parsers of durations, sizes, times, priorities and labels.

use std::{
    fmt::Display,
    ops::{Bound, RangeBounds},
    str::FromStr,
    time::Duration,
};

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

/// Reads a duration such as `90s`, `15m`, `1h30m` or `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let like = || format!("'{text}' is not a duration; write it like 90s, 15m, 1h30m or 7d");
    if text.starts_with('-') {
        return Err(format!(
            "'{text}' is negative; write it like 90s, 15m, 1h30m or 7d"
        ));
    }
    let span: Span = text.parse().map_err(|_| like())?;
    let signed: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| like())?;
    Duration::try_from(signed).map_err(|_| like())
}

/// Reads a whole number of this range.
pub(crate) fn number<T>(text: &str, range: impl RangeBounds<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ if text.parse::<i128>().is_err() => Err(format!("'{text}' is not a number")),
        _ => Err(match (range.start_bound(), range.end_bound()) {
            (Bound::Included(least), Bound::Included(most)) => {
                format!("{text} is not from {least} to {most}")
            }
            (Bound::Included(least), _) => format!("{text} is not a number of {least} or more"),
            _ => format!("{text} is not a number from 0 on"),
        }),
    }
}

/// Reads how many commands run at once.
pub(crate) fn slots(text: &str) -> Result<u32, String> {
    number(text, 1..=MOST_SLOTS)
}

/// The most commands that a node runs at once.
const MOST_SLOTS: u32 = 1_000_000;

/// Reads a number from 1 on.
pub(crate) fn from_one<T>(text: &str) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display + From<u8>,
{
    number(text, T::from(1)..)
}

/// Reads a number from 0 on.
pub(crate) fn from_zero<T>(text: &str) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    number(text, ..)
}

/// Reads the time to live of a lease.
pub(crate) fn lease_ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    match (LEAST_LEASE..=LONGEST_LEASE).contains(&ttl) {
        true => Ok(ttl),
        false => Err(format!(
            "{text} is not from 200ms to 1h; 15s is the default"
        )),
    }
}

const LEAST_LEASE: Duration = Duration::from_millis(200);
const LONGEST_LEASE: Duration = Duration::from_secs(3600);

/// Reads a number of bytes such as `65536`, `64KiB`, `10M` or `1GiB`; units are powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let like = || format!("'{text}' is not a size; write it like 65536, 64KiB, 10MiB or 1GiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(like()),
    };
    let number: u64 = number.parse().map_err(|_| like())?;
    number.checked_mul(1 << shift).ok_or_else(like)
}

/// Reads a time as RFC 3339.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    windlass::statemachine::time::parse("time", text).map_err(|e| e.reason().to_owned())
}

/// Reads a priority.
pub(crate) fn priority(text: &str) -> Result<i32, String> {
    let (least, most) = (i32::MIN, i32::MAX);
    text.parse().map_err(|_| {
        format!("'{text}' is not a whole number from {least} to {most}; the usual one is 0, and greater ones are claimed first")
    })
}

/// Reads `name=value`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "'{text}' is not a label; write it like team=billing"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("90s", 90),
            ("1h30m", 5400),
            ("7d", 604_800),
            ("2w", 1_209_600),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "10", "soon", "-5s", "1y", "1mo"] {
            assert!(
                duration(text).unwrap_err().contains("write it like"),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_name_the_valid_ones() {
        assert_eq!(slots("3"), Ok(3));
        assert_eq!(from_zero::<u64>("0"), Ok(0));
        for (text, says) in [
            ("many", "'many' is not a number"),
            ("", "'' is not a number"),
            ("0", "0 is not from 1 to 1000000"),
            ("-1", "-1 is not from 1 to 1000000"),
            ("99999999999999999999", "is not from 1 to 1000000"),
        ] {
            assert!(slots(text).unwrap_err().contains(says), "{text}");
        }
        let zero = from_one::<u32>("0").unwrap_err();
        assert_eq!(zero, "0 is not a number of 1 or more");
    }

    #[test]
    fn sizes() {
        for (text, size) in [
            ("0", 0),
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("2m", 2 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5M", "10 M", "7x", "99999999999T"] {
            assert!(bytes(text).unwrap_err().contains("write it like"), "{text}");
        }
    }

    #[test]
    fn labels() {
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(label("a").is_err() && label("=b").is_err());
    }
}
