//! Texts that people write: durations, and the byte order mark of a file.

pub use windlass::statemachine::wire::read_duration as duration;

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
