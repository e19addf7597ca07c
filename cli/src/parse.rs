//! Parsers of durations, sizes, times, priorities and labels.

use std::{
    fmt::Display,
    ops::{Bound, RangeBounds},
    str::FromStr,
    time::Duration,
};

use jiff::Timestamp;
use windlass::{Invalid, Limit, Note, Unique};

pub(crate) use crate::moment::{past, since, time, time_with_zone};
pub(crate) use windlass_exec::text::duration;

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

/// Reads a number that is at least 1.
pub(crate) fn from_one<T>(text: &str) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display + From<u8>,
{
    number(text, T::from(1)..)
}

/// Reads a number that is at least 0.
pub(crate) fn from_zero<T>(text: &str) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    number(text, ..)
}

/// Reads how long commands have to end; 0 for no limit.
pub(crate) fn grace(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(NO_LIMIT);
    }
    Ok(match duration(text)? {
        Duration::ZERO => NO_LIMIT,
        grace => grace,
    })
}

/// Longer than the grace of any task, and short enough to be added to any time.
const NO_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

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

/// Reads the note of a command.
pub(crate) fn note(text: &str) -> Result<Note, String> {
    Note::new(text).map_err(|e| e.reason().to_owned())
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

/// Reads `name=value` of the text that travels with a task.
pub(crate) fn meta(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "'{text}' is not NAME=VALUE; write it like request=7f3a"
        )),
    }
}

/// A time, or a duration until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    At(Timestamp),
    In(Duration),
}

/// Reads a time or a duration.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    match duration(text) {
        Ok(wait) => return Ok(Moment::In(wait)),
        Err(reason) if text.starts_with('-') => return Err(reason),
        Err(_) => {}
    }
    time(text).map(Moment::At).map_err(|reason| {
        // A text that looks like a time gets the error of one.
        let is_date = text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('-');
        match is_date {
            true => reason,
            false => format!(
                "'{text}' is neither a time nor a duration; write it like 2030-01-02T03:04:05Z or 15m"
            ),
        }
    })
}

/// Reads `key=duration`.
pub(crate) fn unique(text: &str) -> Result<Unique, String> {
    let Some((key, within)) = text.rsplit_once('=') else {
        return Err(format!(
            "'{text}' is not a key with a period; write it like mail-ann=1h"
        ));
    };
    Unique::new(key, duration(within)?).map_err(|e| of_period(&e, within))
}

/// Returns the text of an error about a key or its period, with the period as it was given.
fn of_period(error: &Invalid, within: &str) -> String {
    match error.field() {
        "unique.within" => format!("'{within}' is not from 1ms to 366d"),
        "limits.within" => format!("'{within}' is not from 1ms to 7d"),
        _ => error.to_string(),
    }
}

/// Reads `key=number`.
pub(crate) fn at_once(text: &str) -> Result<Limit, String> {
    let parts = text.rsplit_once('=');
    let Some((key, Ok(most))) = parts.map(|(key, most)| (key, most.parse())) else {
        return Err(format!(
            "'{text}' is not a key with a number; write it like customer=acme=3"
        ));
    };
    one_limit(key, "--at-once")?;
    Limit::at_once(key, most).map_err(|e| e.to_string())
}

/// Refuses a key that ends one limit and starts another: `api=3,x` of `api=3,x=4`.
fn one_limit(key: &str, option: &str) -> Result<(), String> {
    let ends_a_limit = |part: &str| {
        let number = part.rsplit_once('=').map_or("", |(_, number)| number);
        let (number, _) = number.split_once('/').unwrap_or((number, ""));
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    let mut parts: Vec<&str> = key.split(',').collect();
    parts.pop();
    match parts.into_iter().find(|part| ends_a_limit(part)) {
        Some(part) => Err(format!(
            "'{part}' is a limit of its own; give the option for each: {option} {part} {option} …"
        )),
        None => Ok(()),
    }
}

/// Reads `key=number/duration`.
pub(crate) fn rate(text: &str) -> Result<Limit, String> {
    let parts = text.rsplit_once('=');
    let parts = parts.and_then(|(key, rate)| Some((key, rate.split_once('/')?)));
    let Some((key, (Ok(most), within))) = parts.map(|(k, (n, d))| (k, (n.parse(), d))) else {
        return Err(format!(
            "'{text}' is not a key with a number and a period; write it like api=100/1m"
        ));
    };
    one_limit(key, "--rate")?;
    Limit::starts(key, most, duration(within)?).map_err(|e| of_period(&e, within))
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
    fn limits() {
        let minute = Duration::from_secs(60);
        assert_eq!(at_once("a=b=3"), Ok(Limit::at_once("a=b", 3).unwrap()));
        assert_eq!(
            rate("a=b=9/1m"),
            Ok(Limit::starts("a=b", 9, minute).unwrap())
        );
        for (text, says) in [
            ("a", "is not a key with a number"),
            ("a=x", "is not a key with a number"),
            ("a=0", "limits.at_once: 0 is not from 1 to 10000"),
            ("a/b=1", "limits.key: "),
        ] {
            let error = at_once(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        for (text, says) in [
            ("a=1", "is not a key with a number and a period"),
            ("a=0/1m", "limits.starts: 0 is not from 1 to 10000"),
            ("a=1/0s", "'0s' is not from 1ms to 7d"),
            ("c=3/9999d", "'9999d' is not from 1ms to 7d"),
        ] {
            let error = rate(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_key_that_ends_a_limit_is_refused() {
        let says =
            "'api=3' is a limit of its own; give the option for each: --at-once api=3 --at-once …";
        assert_eq!(at_once("api=3,x=4").unwrap_err(), says);
        assert!(at_once("a,b=3,x=4").unwrap_err().starts_with("'b=3' is"));
        let error = rate("api=3/1m,x=4/1s").unwrap_err();
        assert!(
            error.starts_with("'api=3/1m' is a limit of its own"),
            "{error}"
        );
        for text in ["a=x,b=3", "a,1=3", "a=b=3"] {
            assert!(at_once(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn times_and_durations() {
        assert_eq!(moment("15m"), Ok(Moment::In(Duration::from_secs(900))));
        let at = time("2030-01-02T03:04:05Z").map(Moment::At);
        assert_eq!(moment("2030-01-02T03:04:05Z"), at);
        assert!(
            moment("soon")
                .unwrap_err()
                .contains("neither a time nor a duration")
        );
        for (text, says) in [
            ("-5m", "'-5m' is negative"),
            (
                "9999-12-31T23:59:59Z",
                "is not a time up to 9999-12-30T22:00:00Z",
            ),
        ] {
            assert!(moment(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_grace_of_0_is_no_limit() {
        assert_eq!(grace("30s"), Ok(Duration::from_secs(30)));
        for text in ["0", "0s"] {
            assert!(grace(text).unwrap() > Duration::from_secs(3600), "{text}");
        }
    }

    #[test]
    fn unique_keys() {
        let hour = Duration::from_secs(3600);
        assert_eq!(
            unique("a=b=1h"),
            Unique::new("a=b", hour).map_err(|e| e.to_string())
        );
        for (text, says) in [
            ("a", "write it like mail-ann=1h"),
            ("a=soon", "'soon' is not a duration"),
            ("=1h", "unique.key: "),
            ("a=0s", "'0s' is not from 1ms to 366d"),
            ("ab=500d", "'500d' is not from 1ms to 366d"),
        ] {
            let error = unique(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn labels() {
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(label("a").is_err() && label("=b").is_err());
    }
}
