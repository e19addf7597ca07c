//! [`Author`]: who made a change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Invalid, text::check_line};

/// The longest author, in bytes.
pub const MAX_AUTHOR_BYTES: usize = 300;

/// Who made a change or sent a command: 1 to 300 bytes of printable text. The field is called `by` in JSON.
///
/// For a program with direct access to a store, the author is a claim, not a proof. Clones share the
/// text.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Author;
///
/// assert_eq!(Author::new("alice")?.as_str(), "alice");
/// assert_eq!(Author::new("").unwrap_err().field(), "by");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Author(Arc<str>);

impl Author {
    /// Creates an author from a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `by`) for an empty text, one of more than [`MAX_AUTHOR_BYTES`] bytes, one with characters that
    /// are not printed, and one that has only spaces or invisible characters.
    pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        if check_line(&name, MAX_AUTHOR_BYTES).is_err() {
            let reason = format!(
                "{name:?} is not 1 to {MAX_AUTHOR_BYTES} bytes of printable text; give the name of a user or program"
            );
            return Err(Invalid::new("by", reason));
        }
        Ok(Self(name.into()))
    }

    /// Returns the author of the changes that a client of Metafora makes.
    pub fn metafora() -> Self {
        Self("metafora".into())
    }

    /// Returns the author of the changes that the handler of a task makes: `task ID`.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Author;
    ///
    /// assert_eq!(Author::task(&"nightly".parse()?).as_str(), "task nightly");
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn task(id: &crate::TaskId) -> Self {
        // At most 256 bytes of printable text.
        Self(format!("task {id}").into())
    }

    /// Returns the author for the operating-system user with this number: `uid 1000`.
    pub fn user(uid: u32) -> Self {
        Self(format!("uid {uid}").into())
    }

    /// Returns the author of the operations that other programs insert with SQL: `inbox`.
    pub fn inbox() -> Self {
        Self("inbox".into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Author {
    type Err = Invalid;
    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl TryFrom<String> for Author {
    type Error = Invalid;
    fn try_from(name: String) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Author {
    type Error = Invalid;
    fn try_from(name: &str) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl From<Author> for String {
    fn from(author: Author) -> Self {
        author.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_printable_text() {
        let longest = "x".repeat(MAX_AUTHOR_BYTES);
        for name in ["", " ", "a\nb", "a\u{61c}b", &format!("{longest}x")] {
            assert_eq!(Author::new(name).unwrap_err().field(), "by", "{name:?}");
            let text = serde_json::to_string(name).unwrap();
            assert!(serde_json::from_str::<Author>(&text).is_err(), "{name:?}");
        }
        for name in ["alice", "token deploy", &longest] {
            assert_eq!(Author::new(name).unwrap().as_str(), name);
        }
        let longest_id = crate::TaskId::new("i".repeat(256)).unwrap();
        let author = Author::task(&longest_id);
        assert_eq!(Author::new(author.as_str()), Ok(author));
    }
}
