//! [`Note`]: why somebody sent a command.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Invalid, text::check_line};

/// The longest note, in bytes.
pub const MAX_NOTE_BYTES: usize = 500;

/// Why a command was sent: 1 to 500 bytes of printable text on one line. The field is called `note` in JSON.
///
/// The note stays with the command. That of a pause also stays in the state while the task is paused. Clones share the
/// text.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Note;
///
/// assert_eq!(Note::new("the database moves")?.as_str(), "the database moves");
/// assert_eq!(Note::new("").unwrap_err().field(), "note");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Note(Arc<str>);

impl Note {
    /// Creates a note.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `note`) for an empty text, one of more than [`MAX_NOTE_BYTES`] bytes, one with characters that
    /// are not printed, such as a line break, and one that has only spaces or invisible characters.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        match check_line(&text, MAX_NOTE_BYTES) {
            Ok(()) => Ok(Self(text.into())),
            Err(wrong) => Err(Invalid::new(
                "note",
                format!(
                    "{wrong}; write why in one line of 1 to {MAX_NOTE_BYTES} bytes of printable text, or leave the note out"
                ),
            )),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Note {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::new(text)
    }
}

impl TryFrom<String> for Note {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(text)
    }
}

impl TryFrom<&str> for Note {
    type Error = Invalid;
    fn try_from(text: &str) -> Result<Self, Invalid> {
        Self::new(text)
    }
}

impl From<Note> for String {
    fn from(note: Note) -> Self {
        note.0.to_string()
    }
}

/// Reads a stored note. A note that another program wrote and that is not valid is left out: the command without it can
/// be read.
pub(crate) fn stored<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Note>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(from)?;
    let text = value.as_ref().and_then(serde_json::Value::as_str);
    Ok(text.and_then(|text| Note::new(text).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_one_line_of_at_most_500_bytes() {
        let longest = "é".repeat(250);
        for text in ["x", "the database moves: see 4711", &longest] {
            let note = Note::new(text).unwrap();
            assert_eq!(note.as_str(), text);
            let json = serde_json::to_string(&note).unwrap();
            assert_eq!(serde_json::from_str::<Note>(&json).unwrap(), note);
        }
        for (text, says) in [
            ("", "note: is empty; write why"),
            (&*"x".repeat(501), "note: has 501 bytes"),
            ("a\nb", "note: has a line break"),
            ("a\u{1b}[31m", "the character '\\u{1b}'"),
            ("a\u{202e}b", "the character '\\u{202e}'"),
            ("a\u{61c}b", "the character '\\u{61c}'"),
            ("a\u{e0041}b", "the character '\\u{e0041}'"),
            ("   ", "note: has only spaces or invisible"),
            (
                "\u{200d}\u{3164} \u{fe0f}",
                "note: has only spaces or invisible",
            ),
        ] {
            let refused = Note::new(text).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
