//! [`Mask`]: what is hidden of the tasks of a kind.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass::{
    Author, Invalid, Kind,
    store::{Error, NamedValue},
};

use super::path::Path;

/// The folder of the named values with the masks.
pub(crate) const FOLDER: &str = "server/mask/";
/// How many pointers a mask may have.
const MOST: usize = 200;

/// What the server hides of the tasks of a kind.
///
/// # Example
///
/// ```
/// use windlass_server::Mask;
///
/// let mask = Mask::new("exec", ["/props/env/*", "/props/args"])?.errors(true);
/// assert_eq!((mask.kind.as_str(), mask.log), ("exec", false));
/// assert_eq!(Mask::new("exec", ["env"]).unwrap_err().field(), "pointers");
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mask {
    /// The kind; `inbox/*` for every kind that begins with `inbox/`, `*` for every kind.
    pub kind: String,
    /// The places that are hidden: JSON pointers that begin with the name of a document (`props`, `data`, `result`,
    /// `payload`, `reply`, or `*` for each of them). A part `*` stands for every element or member.
    pub pointers: Vec<String>,
    /// Whether the texts of errors are hidden.
    pub errors: bool,
    /// Whether the lines that handlers log are hidden, and the text of the progress.
    pub log: bool,
    /// When it was set.
    pub set_at: Option<Timestamp>,
    /// Who set it, if that is known.
    pub set_by: Option<Author>,
}

/// The stored form. A field of a later version may hide more: a reader that does not know it hides everything.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    kind: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pointers: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    errors: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    log: bool,
    set_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_by: Option<Author>,
}

impl Mask {
    /// Returns a mask of some places of the tasks of a kind.
    ///
    /// # Errors
    ///
    /// [`Invalid`] naming the field: `kind` or `pointers`.
    pub fn new(
        kind: impl Into<String>,
        pointers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, Invalid> {
        let mask = Self {
            kind: kind.into(),
            pointers: pointers.into_iter().map(Into::into).collect(),
            errors: false,
            log: false,
            set_at: None,
            set_by: None,
        };
        check_kind(&mask.kind)?;
        mask.paths()?;
        Ok(mask)
    }

    /// Sets whether the texts of errors are hidden.
    #[must_use]
    pub fn errors(mut self, hidden: bool) -> Self {
        self.errors = hidden;
        self
    }

    /// Sets whether the lines that handlers log are hidden.
    #[must_use]
    pub fn log(mut self, hidden: bool) -> Self {
        self.log = hidden;
        self
    }

    /// Returns the places.
    pub(crate) fn paths(&self) -> Result<Vec<Path>, Invalid> {
        if self.pointers.len() > MOST {
            let what = format!(
                "are {} pointers; at most {MOST} are allowed; '*' stands for every member",
                self.pointers.len()
            );
            return Err(Invalid::new("pointers", what));
        }
        self.pointers
            .iter()
            .map(|pointer| Path::read(pointer))
            .collect()
    }

    /// Refuses a mask that hides nothing.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        check_kind(&self.kind)?;
        match self.paths()?.is_empty() && !self.errors && !self.log {
            false => Ok(()),
            true => Err(Invalid::new(
                "pointers",
                "are empty, and the mask hides neither errors nor the log; give at least one of them",
            )),
        }
    }

    /// Reads a stored mask.
    pub(super) fn read(value: &NamedValue) -> Result<Self, Error> {
        let unreadable = |reason: String| Error::Corrupt {
            what: format!("mask '{}'", name_of(&value.name)),
            reason: format!(
                "{reason}; everything of every task is hidden until the mask is set again or removed"
            ),
        };
        let stored: Stored =
            serde_json::from_str(&value.text).map_err(|error| unreadable(error.to_string()))?;
        let mask = Self {
            kind: stored.kind,
            pointers: stored.pointers,
            errors: stored.errors,
            log: stored.log,
            set_at: Some(stored.set_at),
            set_by: stored.set_by,
        };
        mask.check()
            .map_err(|error| unreadable(error.to_string()))?;
        Ok(mask)
    }

    pub(super) fn write(&self, now: Timestamp, by: Option<Author>) -> Result<String, Error> {
        let stored = Stored {
            kind: self.kind.clone(),
            pointers: self.pointers.clone(),
            errors: self.errors,
            log: self.log,
            set_at: now,
            set_by: by,
        };
        let unwritable = |error: serde_json::Error| Invalid::new("mask", error.to_string());
        Ok(serde_json::to_string(&stored).map_err(unwritable)?)
    }
}

/// Checks the kind of a mask: a kind, or the beginning of kinds followed by `*`.
fn check_kind(kind: &str) -> Result<(), Invalid> {
    let stem = kind.strip_suffix('*').unwrap_or(kind);
    if stem.contains('*') {
        let what = format!(
            "'{kind}' has a '*' that is not at its end; 'inbox/*' stands for every kind below inbox/"
        );
        return Err(Invalid::new("kind", what));
    }
    if kind == "*" {
        return Ok(());
    }
    // The name of a row has at most 200 bytes.
    if key_of(kind).len() > 200 {
        return Err(Invalid::new(
            "kind",
            "is too long for a mask; end it earlier with '*'",
        ));
    }
    Kind::new(stem.trim_end_matches('/')).map(drop)
}

/// Returns the name of the row of a kind. Characters that a name cannot have are written as `_` and hexadecimal digits.
pub(super) fn key_of(kind: &str) -> String {
    let mut key = FOLDER.to_owned();
    for byte in kind.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => key.push(byte.into()),
            // Writing to a text does not fail.
            _ => drop(write!(key, "_{byte:02x}")),
        }
    }
    key
}

/// Returns the kind that a row is named after, or the rest of its name if that is no kind.
pub(super) fn name_of(key: &str) -> String {
    let name = key.strip_prefix(FOLDER).unwrap_or(key);
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'_' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(Option::unwrap_or_default);
        let digits = std::str::from_utf8(&digits).unwrap_or_default();
        match u8::from_str_radix(digits, 16) {
            Ok(byte) => bytes.push(byte),
            Err(_) => return name.to_owned(),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_kind_has_a_name_of_its_own() {
        for kind in ["exec", "inbox/*", "*", "größe_1/a.b-c"] {
            let key = key_of(kind);
            assert!(
                key.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b)),
                "{key}"
            );
            assert_eq!(name_of(&key), kind);
        }
        assert_eq!(name_of("server/mask/a_zz"), "a_zz");
        assert_ne!(key_of("a_2a"), key_of("a*"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let none: [&str; 0] = [];
        for kind in ["", "a*b", "/", "a**"] {
            assert!(Mask::new(kind, ["/props"]).is_err(), "{kind}");
        }
        let long = "k".repeat(250);
        assert_eq!(Mask::new(long, ["/props"]).unwrap_err().field(), "kind");
        let nothing = Mask::new("k", none).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(nothing.check().unwrap_err().field(), "pointers");
        assert!(nothing.log(true).check().is_ok());
        let many = vec!["/props/a"; MOST + 1];
        assert_eq!(Mask::new("k", many).unwrap_err().field(), "pointers");
    }

    #[test]
    fn a_row_that_is_not_known_in_full_is_not_read() {
        for text in [
            "",
            "{}",
            r#"{"kind":"k","pointers":["/props"],"set_at":"2030-01-01T00:00:00Z","more":1}"#,
            r#"{"kind":"k","pointers":["x"],"set_at":"2030-01-01T00:00:00Z"}"#,
            r#"{"kind":"k","set_at":"2030-01-01T00:00:00Z"}"#,
        ] {
            let value = NamedValue::new("server/mask/k", text, 1);
            let error = Mask::read(&value).map(drop).unwrap_err().to_string();
            assert!(error.contains("mask 'k'"), "{text}: {error}");
        }
    }
}
