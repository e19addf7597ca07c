//! Reading times, with errors that name the field.

use jiff::{Timestamp, civil::DateTime};
use serde::{Deserialize, Deserializer, de::Error};

use crate::Invalid;

/// Reads an RFC 3339 time.
///
/// # Errors
///
/// [`Invalid`] naming `field`, with an example of what would be right.
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
        let reason = match text.parse::<DateTime>() {
            Ok(local) => format!("'{text}' has no time zone; write {local}Z, or an offset for Z"),
            Err(_) => format!(
                "'{text}' is not a time up to the year 9999; write it like 2030-01-02T03:04:05Z"
            ),
        };
        Invalid::new(field, reason)
    })
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

fn of_field<'de, D: Deserializer<'de>>(
    field: &'static str,
    from: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|t| parse(field, &t))
        .transpose()
        .map_err(D::Error::custom)
}
