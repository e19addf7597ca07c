//! Times as people write them: the options of the command line, the parameters of requests and the filters of pages.

use jiff::{
    SignedDuration, Timestamp, Zoned,
    civil::{Date, DateTime, Time},
    tz::{AmbiguousOffset, TimeZone},
};

use super::read_duration;
use crate::{Invalid, time};

/// How the errors say which times there are.
const LIKE: &str = "write it like 2030-01-02T03:04:05Z, 2030-01-02 09:30, 2030-01-02, 'yesterday 14:00', '2 hours ago' or 'in 5m'";

/// How far ahead of this clock another clock may be: a time that was read from it is not one of the future.
const AHEAD: SignedDuration = SignedDuration::from_secs(60);

/// Reads a time: RFC 3339; `now`; a day (`2030-01-02`, `today`, `yesterday`, `tomorrow`) with or without a time of the day;
/// a length of time after `in` or before `ago`. Days begin, and times of the day count, in the time zone of `now`.
///
/// # Errors
///
/// [`Invalid`] that names `field`, the time zone, and times that are right. A day and a time of the day are refused if
/// the time zone is unknown ([`TimeZone::is_unknown`]).
///
/// # Example
///
/// ```
/// use jiff::Zoned;
/// use windlass_statemachine::wire::read_time;
///
/// let now: Zoned = "2026-11-29T15:30:00+01:00[Europe/Berlin]".parse()?;
/// assert_eq!(read_time("start_at", "tomorrow 9:30", &now)?.to_string(), "2026-11-30T08:30:00Z");
/// assert_eq!(read_time("start_at", "soon", &now).unwrap_err().field(), "start_at");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_time(field: &'static str, text: &str, now: &Zoned) -> Result<Timestamp, Invalid> {
    moment(text, now).map_err(|reason| Invalid::new(field, reason))
}

/// Reads a time like [`read_time`]; a length of time without `ago`, such as `5m`, counts back from `now`.
///
/// # Errors
///
/// The errors of [`read_time`].
///
/// # Example
///
/// ```
/// use jiff::Zoned;
/// use windlass_statemachine::wire::read_past;
///
/// let now: Zoned = "2030-01-01T00:05:00Z[UTC]".parse()?;
/// for text in ["5m ago", "5m", "today", "2030-01-01"] {
///     assert_eq!(read_past("until", text, &now)?.to_string(), "2030-01-01T00:00:00Z");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_past(field: &'static str, text: &str, now: &Zoned) -> Result<Timestamp, Invalid> {
    let read = match read_duration(text) {
        Ok(_) => length(text, text).and_then(|back| counted(now, -back, text)),
        Err(_) => moment(text, now),
    };
    read.map_err(|reason| Invalid::new(field, reason))
}

/// Reads a time like [`read_past`], from which on a list selects what has happened. A time more than a minute after `now` is
/// refused, because nothing has happened since then.
///
/// # Errors
///
/// The errors of [`read_time`], and [`Invalid`] for a time in the future.
///
/// # Example
///
/// ```
/// use jiff::Zoned;
/// use windlass_statemachine::wire::read_since;
///
/// let now: Zoned = "2030-01-01T00:05:00Z[UTC]".parse()?;
/// assert_eq!(read_since("since", "today", &now)?.to_string(), "2030-01-01T00:00:00Z");
/// let refused = read_since("since", "tomorrow", &now).unwrap_err();
/// assert!(refused.reason().contains("'tomorrow' is in the future"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_since(field: &'static str, text: &str, now: &Zoned) -> Result<Timestamp, Invalid> {
    let at = read_past(field, text, now)?;
    if at.duration_since(now.timestamp()) <= AHEAD {
        return Ok(at);
    }
    let reason = format!("'{text}' is in the future, so nothing can match; give an earlier time");
    Err(Invalid::new(field, reason))
}

fn moment(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    if text == "now" {
        return Ok(now.timestamp());
    }
    if let Some(back) = text.strip_suffix(" ago") {
        return length(back, text).and_then(|back| counted(now, -back, text));
    }
    if let Some(wait) = text.strip_prefix("in ") {
        return length(wait, text).and_then(|wait| counted(now, wait, text));
    }
    let rfc = match time::parse("time", text) {
        Ok(at) => return Ok(at),
        Err(error) => error,
    };
    match (day_of(text, now), text.parse::<DateTime>()) {
        (Some(_), _) if now.time_zone().is_unknown() => Err(format!(
            "'{text}' depends on the time zone of this machine, and TZ names one that is not known; set TZ to a name \
             like Europe/Berlin, or write the time like 2030-01-02T03:04:05Z"
        )),
        (Some((day, None)), _) => day
            .to_zoned(now.time_zone().clone())
            .map(|start| start.timestamp())
            .map_err(|_| rfc.reason().to_owned()),
        (Some((day, Some(clock))), _) => local(day.to_datetime(clock), text, now.time_zone()),
        // It looks like a time, and the error about it says what is wrong with it.
        (None, Ok(_)) => Err(rfc.reason().to_owned()),
        (None, Err(_)) if rfc.reason().contains(time::LAST) => Err(rfc.reason().to_owned()),
        (None, Err(_)) => {
            let zone = name_of(now.time_zone());
            Err(format!(
                "'{text}' is not a time; {LIKE}; days are those of the time zone {zone}"
            ))
        }
    }
}

/// Reads a day with or without a time of the day.
fn day_of(text: &str, now: &Zoned) -> Option<(Date, Option<Time>)> {
    let split = match text.get(..10).map(str::parse::<Date>) {
        // `2030-01-02T03:04` is read like `2030-01-02 03:04`.
        Some(Ok(_)) => text.split_once([' ', 'T']),
        _ => text.split_once(' '),
    };
    let (day, clock) = split.map_or((text, None), |(day, clock)| (day, Some(clock)));
    let today = now.date();
    let day = match day {
        "today" => today,
        "yesterday" => today.yesterday().ok()?,
        "tomorrow" => today.tomorrow().ok()?,
        // A shorter form, such as 20300102, may be a number by mistake.
        date if date.len() == 10 => date.parse().ok()?,
        _ => return None,
    };
    Some((day, clock.map(clock_of).transpose().ok()?))
}

/// Reads a time of the day: `9:30`, `14:00:05`.
fn clock_of(text: &str) -> Result<Time, ()> {
    let (hour, rest) = text.split_once(':').ok_or(())?;
    let is_plain = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_digit() || b":.".contains(&b))
    };
    match hour.len() {
        1 | 2 if is_plain(hour) && is_plain(rest) => {
            format!("{hour:0>2}:{rest}").parse().map_err(drop)
        }
        _ => Err(()),
    }
}

/// Returns the moment of a local time. One that the clocks skip or show twice is refused: its writer knows which is meant.
fn local(local: DateTime, text: &str, zone: &TimeZone) -> Result<Timestamp, String> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    let what = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => {
            return ambiguous.unambiguous().map_err(|_| {
                format!(
                    "'{text}' is not a time up to {}; give an earlier one",
                    time::LAST
                )
            });
        }
        AmbiguousOffset::Gap { .. } => "does not exist",
        AmbiguousOffset::Fold { .. } => "happens twice",
    };
    let zone = name_of(zone);
    Err(format!(
        "'{text}' {what} in the time zone {zone}, because the clocks change; write it with an offset, like {local}+01:00"
    ))
}

/// Reads a length of time, as a part of a text.
fn length(part: &str, text: &str) -> Result<SignedDuration, String> {
    let read = read_duration(part.trim()).ok();
    let signed = read.and_then(|length| SignedDuration::try_from(length).ok());
    signed.ok_or_else(|| {
        format!("'{text}' is not a time; write the length of time like '2 hours ago', '5m ago' or 'in 1h 30m'")
    })
}

/// Returns the moment at this distance from now.
fn counted(now: &Zoned, distance: SignedDuration, text: &str) -> Result<Timestamp, String> {
    let at = now.timestamp().checked_add(distance).ok();
    at.ok_or_else(|| {
        format!("'{text}' is beyond the years 0 to 9999; give a shorter length of time")
    })
}

/// Returns the name of a time zone.
fn name_of(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) => name.to_owned(),
        None if zone.is_unknown() => "that TZ names, which is not known".to_owned(),
        None => zone.to_offset(Timestamp::UNIX_EPOCH).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns half past three in the afternoon of 29 November 2026, in Berlin.
    fn now() -> Zoned {
        "2026-11-29T15:30:00+01:00[Europe/Berlin]".parse().unwrap()
    }

    #[test]
    fn days_and_clocks_are_those_of_the_machine() {
        for (text, at) in [
            ("now", "2026-11-29T14:30:00Z"),
            ("today", "2026-11-28T23:00:00Z"),
            ("yesterday", "2026-11-27T23:00:00Z"),
            ("tomorrow 9:30", "2026-11-30T08:30:00Z"),
            ("2026-11-28", "2026-11-27T23:00:00Z"),
            ("2026-07-01", "2026-06-30T22:00:00Z"),
            ("2026-07-01 14:00", "2026-07-01T12:00:00Z"),
            ("2026-07-01T14:00:05", "2026-07-01T12:00:05Z"),
            ("2026-07-01T14:00:05Z", "2026-07-01T14:00:05Z"),
            ("2026-07-01T14:00:05-02:00", "2026-07-01T16:00:05Z"),
            ("2 hours ago", "2026-11-29T12:30:00Z"),
            ("5m ago", "2026-11-29T14:25:00Z"),
            ("1 day 2 hours ago", "2026-11-28T12:30:00Z"),
            ("in 1h 30m", "2026-11-29T16:00:00Z"),
        ] {
            assert_eq!(
                read_time("at", text, &now()).unwrap().to_string(),
                at,
                "{text}"
            );
        }
        assert_eq!(
            read_past("at", "90m", &now()).unwrap().to_string(),
            "2026-11-29T13:00:00Z"
        );
        assert_eq!(
            read_past("at", "yesterday", &now()),
            read_time("at", "yesterday", &now())
        );
    }

    #[test]
    fn errors_name_the_time_zone_and_times_that_are_right() {
        for (text, says) in [
            (
                "soon",
                "'soon' is not a time; write it like 2030-01-02T03:04:05Z",
            ),
            ("last week", "days are those of the time zone Europe/Berlin"),
            ("", "'' is not a time"),
            ("5m", "'5m' is not a time"),
            ("soon ago", "write the length of time like '2 hours ago'"),
            ("in a while", "write the length of time like '2 hours ago'"),
            ("-5m ago", "write the length of time like"),
            ("yesterday 25:00", "'yesterday 25:00' is not a time"),
            ("2026-02-30", "'2026-02-30' is not a time"),
            (
                "20261128",
                "'20261128' has no time zone; write 2026-11-28T00:00:00Z",
            ),
            (
                "9999-12-31T23:59:59Z",
                "is not a time up to 9999-12-30T22:00:00Z",
            ),
            (
                "2026-03-29 02:30",
                "does not exist in the time zone Europe/Berlin",
            ),
            (
                "2026-10-25 02:30",
                "happens twice in the time zone Europe/Berlin",
            ),
            ("170000000h ago", "beyond the years"),
        ] {
            let error = read_time("at", text, &now()).unwrap_err();
            assert!(error.reason().contains(says), "{text}: {error}");
            assert_eq!(error.field(), "at");
        }
    }

    #[test]
    fn a_day_that_begins_in_a_gap_begins_after_it() {
        let now: Zoned = "2026-11-29T12:00:00-03:00[America/Sao_Paulo]"
            .parse()
            .unwrap();
        // The clocks went from midnight to one o'clock.
        let start = read_time("at", "2018-11-04", &now).unwrap();
        assert_eq!(start.to_string(), "2018-11-04T03:00:00Z");
    }

    /// Regression: the days of an unknown zone were those of UTC.
    #[test]
    fn days_of_an_unknown_time_zone_are_refused() {
        let now = now().with_time_zone(TimeZone::unknown());
        for text in ["today", "yesterday 9:30", "2026-11-28", "2026-07-01T14:00"] {
            let error = read_past("since", text, &now).unwrap_err();
            assert!(error.reason().contains("set TZ to a name"), "{error}");
        }
        for text in ["now", "5m ago", "5m", "in 5m", "2026-07-01T14:00:05Z"] {
            assert!(read_past("since", text, &now).is_ok(), "{text}");
        }
    }

    /// Regression: the command line took a time in the future, and requests refused some of them.
    #[test]
    fn nothing_has_happened_since_a_time_in_the_future() {
        for text in [
            "tomorrow",
            "in 2m",
            "2026-11-29 15:32",
            "2027-01-01T00:00:00Z",
        ] {
            let error = read_since("ended_from", text, &now()).unwrap_err();
            assert_eq!(error.field(), "ended_from");
            assert!(error.reason().contains("is in the future"), "{error}");
            assert!(read_past("ended_until", text, &now()).is_ok(), "{text}");
        }
        // The clock of another machine may be ahead.
        for text in ["now", "in 1m", "5m", "today"] {
            assert!(read_since("since", text, &now()).is_ok(), "{text}");
        }
    }
}
