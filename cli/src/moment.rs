//! Reads the times of options, in the time zone of this machine.

use jiff::{Timestamp, Zoned};
use windlass::{Invalid, clock::in_local_zone, statemachine::wire};

/// Reads a time with one of the readers of texts.
fn spoken(
    text: &str,
    read: fn(&'static str, &str, &Zoned) -> Result<Timestamp, Invalid>,
) -> Result<Timestamp, String> {
    let now = in_local_zone(Timestamp::now());
    read("time", text, &now).map_err(|e| e.reason().to_owned())
}

/// Reads a time.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    spoken(text, wire::read_time)
}

/// Reads a time of a schedule, which has a time zone of its own: RFC 3339 only.
pub(crate) fn time_with_zone(text: &str) -> Result<Timestamp, String> {
    windlass::statemachine::time::parse("time", text).map_err(|e| e.reason().to_owned())
}

/// Reads a time of a filter: also a length of time before now.
pub(crate) fn past(text: &str) -> Result<Timestamp, String> {
    spoken(text, wire::read_past)
}

/// Reads the time from which on a filter selects: none in the future.
pub(crate) fn since(text: &str) -> Result<Timestamp, String> {
    spoken(text, wire::read_since)
}
