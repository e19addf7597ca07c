//! The precision of stored times.

use jiff::Timestamp;

/// Returns a time as every store keeps it: in whole microseconds. A store cuts the time of a submit, of a command and of a change
/// before it writes it, so that a copy into another store has the same time.
pub(crate) fn kept(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_time_has_microseconds() {
        for (time, is) in [
            (
                "2030-01-01T00:00:00.123456789Z",
                "2030-01-01T00:00:00.123456Z",
            ),
            ("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
        ] {
            let time: Timestamp = time.parse().unwrap();
            assert_eq!(kept(time).to_string(), is);
        }
        assert!(kept(Timestamp::MAX) <= Timestamp::MAX);
        assert!(kept(Timestamp::MIN) >= Timestamp::MIN);
    }
}
