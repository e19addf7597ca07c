//! Reads the operations that other programs write.

use jiff::Timestamp;
use windlass_statemachine::{CommandId, Invalid, wire::Line};

/// Reads an operation, or the guards of one task, as one JSON object: the form of a row of `windlass_inbox`. A command
/// without an id gets a UUID.
///
/// # Errors
///
/// [`Invalid`] that names the field; the field is `operation` for a text that is not a JSON object.
///
/// # Example
///
/// ```
/// use windlass::store::{Line, Operation, read_line};
///
/// let line = read_line(r#"{"op":"send","task":"report-7","command":"pause"}"#)?;
/// assert!(matches!(line, Line::Operation(Operation::Send(_))));
/// let wrong = read_line(r#"{"op":"send","task":"report-7"}"#).unwrap_err();
/// assert_eq!(wrong.field(), "command");
/// # Ok::<(), windlass::Invalid>(())
/// ```
pub fn read_line(text: &str) -> Result<Line, Invalid> {
    Line::read(text, new_id)
}

/// Reads a line like [`read_line`]; times may also be relative, such as `in 5m`, and count from
/// `now` ([`read_moment`](windlass_statemachine::wire::read_moment)).
///
/// # Errors
///
/// The errors of [`read_line`].
pub fn read_line_at(text: &str, now: Timestamp) -> Result<Line, Invalid> {
    Line::read_at(text, now, new_id)
}

fn new_id() -> Result<CommandId, Invalid> {
    CommandId::new(crate::unique_id::new().to_string())
}
