//! Texts that people write: durations, and the byte order mark of a file.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

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
/// use windlass_exec::text::duration;
///
/// assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
/// assert!(duration("soon").is_err());
/// ```
pub fn duration(text: &str) -> Result<Duration, String> {
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

/// The byte order mark, in UTF-8. Some editors write it at the start of a file.
pub const MARK: &str = "\u{feff}";

/// Returns a text without a byte order mark at its start.
///
/// # Example
///
/// ```
/// use windlass_exec::text::{MARK, without_mark};
///
/// assert_eq!(without_mark(&format!("{MARK}a")), "a");
/// ```
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}
