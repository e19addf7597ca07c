//! Times that are relative to now.

use std::time::Duration;

use jiff::{SignedDuration, SpanRelativeTo, Timestamp};

use crate::{Invalid, Wake, retry::friendly, time};

/// The word before a length of time.
const IN: &str = "in ";

/// Reads a time: RFC 3339, `now`, or `in` with a length of time, such as `in 1h 30m`, which counts from `now`.
///
/// # Errors
///
/// [`Invalid`] that names `field`, also for a time beyond the last one.
///
/// # Example
///
/// ```
/// use jiff::Timestamp;
/// use windlass_statemachine::wire::read_moment;
///
/// let at = read_moment("due", "in 1m", Timestamp::UNIX_EPOCH)?;
/// assert_eq!(at.as_second(), 60);
/// let wrong = read_moment("due", "soon", Timestamp::UNIX_EPOCH).unwrap_err();
/// assert!(wrong.to_string().ends_with("'now' and 'in 5m' are times too"));
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
pub fn read_moment(field: &'static str, text: &str, now: Timestamp) -> Result<Timestamp, Invalid> {
    let wake = read_wake(field, text)?;
    wake.resolve(now).map_err(|_| {
        let last = time::LAST;
        let reason = format!("'{text}' is beyond {last}; give a shorter length of time");
        Invalid::new(field, reason)
    })
}

/// Reads a duration such as `90s`, `15m`, `1h30m` or `7d`.
///
/// # Errors
///
/// A text that says what is wrong, and how a duration is written.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_statemachine::wire::read_duration;
///
/// assert_eq!(read_duration("1h30m"), Ok(Duration::from_secs(5400)));
/// assert!(read_duration("soon").is_err());
/// ```
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let like = || format!("'{text}' is not a duration; write it like 90s, 15m, 1h30m or 7d");
    if text.starts_with('-') {
        return Err(format!(
            "'{text}' is negative; write it like 90s, 15m, 1h30m or 7d"
        ));
    }
    let span = time::span(text).ok_or_else(like)?;
    let signed: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| like())?;
    Duration::try_from(signed).map_err(|_| like())
}

/// Reads a time as [`read_moment`] does, without a clock: a length of time stays one until [`Wake::resolve`] counts it.
///
/// # Errors
///
/// [`Invalid`] that names `field`.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_statemachine::{Wake, wire::read_wake};
///
/// assert_eq!(read_wake("until", "in 1m")?, Wake::After(Duration::from_secs(60)));
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
pub fn read_wake(field: &'static str, text: &str) -> Result<Wake, Invalid> {
    if text == "now" {
        return Ok(Wake::After(Duration::ZERO));
    }
    match text.strip_prefix(IN) {
        Some(wait) => match friendly::parse(wait.trim()) {
            Some(wait) => Ok(Wake::After(wait)),
            None => {
                let what = match wait.trim_start().starts_with('-') {
                    true => "is negative",
                    false => "is not a time",
                };
                let how = "write a length of time after 'in', like in 5m";
                Err(Invalid::new(field, format!("'{text}' {what}; {how}")))
            }
        },
        None => time::parse(field, text).map(Wake::At).map_err(|e| {
            let reason = format!("{}; 'now' and 'in 5m' are times too", e.reason());
            Invalid::new(field, reason)
        }),
    }
}

/// Returns the text of a time, which [`read_wake`] reads.
pub(super) fn text(wake: Wake) -> String {
    match wake {
        Wake::At(at) => at.to_string(),
        Wake::After(wait) => format!("{IN}{}", friendly::text(wait)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_time_is_read_as_it_is_written() {
        for wait in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(1500),
            Duration::from_secs(86_400 * 400 + 3661),
        ] {
            let text = text(Wake::After(wait));
            assert_eq!(read_wake("until", &text), Ok(Wake::After(wait)), "{text}");
        }
    }

    #[test]
    fn a_time_beyond_the_last_one_names_the_field() {
        let error = read_moment("due", "in 90000000h", Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(error.field(), "due");
        // Regression: the error did not name the time, and advised to sleep for a shorter one.
        assert_eq!(
            error.reason(),
            "'in 90000000h' is beyond 9999-12-30T22:00:00Z; give a shorter length of time"
        );
        let error = read_moment("due", "in a while", Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(
            error.to_string(),
            "due: 'in a while' is not a time; write a length of time after 'in', like in 5m"
        );
    }
}
