//! The texts in rows.

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use windlass_statemachine::{TaskState, size::Size};

use super::errors::Stop;

/// A text that another program may have written. SQLite stores any bytes as text, and a query that returns a
/// `String` fails at the first row whose bytes are not UTF-8, so that one row would block all others. Here such
/// bytes are replaced by U+FFFD, which no id, kind or name contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

impl FromSql for Text {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_bytes()?;
        Ok(Self(String::from_utf8_lossy(text).into_owned()))
    }
}

impl Text {
    /// Returns the text, for a query that maps rows to `String`.
    pub(super) fn of(text: Self) -> String {
        text.0
    }
}

/// The approximate number of bytes of a state without its data.
const FRAME: usize = 192;

/// Returns a state as its row stores it.
pub(super) fn to_json(state: &TaskState) -> Result<String, Stop> {
    let invalid = |e: &dyn std::fmt::Display| {
        let reason = format!("cannot be written as JSON: {e}");
        windlass_statemachine::Invalid::new("state", reason)
    };
    // Most of the length is known in advance, and growing a text step by step costs more than
    // writing it.
    let mut text = Vec::with_capacity(FRAME + Size::of(state).bytes());
    serde_json::to_writer(&mut text, state).map_err(|e| invalid(&e))?;
    Ok(String::from_utf8(text).map_err(|e| invalid(&e))?)
}
