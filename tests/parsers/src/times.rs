//! Times and lengths of time as people write them.

use std::{str, sync::LazyLock};

use jiff::{SignedDuration, Zoned};
use windlass::statemachine::{
    time,
    wire::{read_duration, read_moment, read_past, read_since, read_time, read_wake},
};

/// The field that every error has to name.
const FIELD: &str = "at";

/// Now, in zones with and without changes of the clocks, and with an offset of three quarters of an hour.
static NOW: LazyLock<[Zoned; 4]> = LazyLock::new(|| {
    [
        "2026-10-25T02:30:00+02:00[Europe/Berlin]",
        "2026-11-29T15:30:00+00:00[UTC]",
        "0001-01-01T00:00:00+00:00[UTC]",
        "9999-12-30T21:00:00+05:45[Asia/Kathmandu]",
    ]
    .map(|now| now.parse().unwrap())
});

/// Reads a text as a time and as a length of time. Returns whether one reader accepts it.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    let mut accepted = read_duration(text).is_ok();
    let _ = time::span(text);
    if let Ok(at) = time::parse(FIELD, text) {
        assert_eq!(time::parse(FIELD, &at.to_string()), Ok(at), "{text}");
        assert!(read_wake(FIELD, text).is_ok(), "{text}");
    }
    for now in &*NOW {
        accepted |= at_moment(text, now);
    }
    accepted
}

fn at_moment(text: &str, now: &Zoned) -> bool {
    let is_length = read_duration(text).is_ok();
    let (time, past) = (read_time(FIELD, text, now), read_past(FIELD, text, now));
    let moment = read_moment(FIELD, text, now.timestamp());
    for read in [&time, &past, &moment] {
        match read {
            // Each reader reads the time that it has returned.
            Ok(at) => {
                let again = at.to_string();
                assert_eq!(read_time(FIELD, &again, now), Ok(*at), "{text}: {again}");
                assert_eq!(read_past(FIELD, &again, now), Ok(*at), "{text}: {again}");
                let moment = read_moment(FIELD, &again, now.timestamp());
                assert_eq!(moment, Ok(*at), "{text}: {again}");
            }
            Err(refused) => {
                assert_eq!(refused.field(), FIELD);
                let reason = refused.reason();
                assert!(reason.contains(&format!("'{text}'")), "{text}: {reason}");
            }
        }
    }
    match is_length {
        true => assert!(past.as_ref().is_ok_and(|past| *past <= now.timestamp()) || past.is_err()),
        false => assert_eq!(past, time, "{text}"),
    }
    if let Ok(at) = read_since(FIELD, text, now) {
        assert_eq!(past, Ok(at));
        let ahead = at.duration_since(now.timestamp());
        assert!(ahead <= SignedDuration::from_mins(1), "{text}: {at}");
    }
    time.is_ok() || past.is_ok() || moment.is_ok()
}
