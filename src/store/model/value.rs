//! [`NamedValue`]: the small values that a namespace keeps beside its tasks.

use windlass_statemachine::{Author, Invalid};

/// The most bytes of a name.
const LONGEST_NAME: usize = 200;
/// The most bytes of a value.
const LARGEST: usize = 64 * 1024;

/// A text that a namespace keeps under a name, beside its tasks: the tokens of a server, for example.
///
/// The program that owns the name defines the form of the text. A store neither reads nor checks it. Values are not
/// exported, and not copied with the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedValue {
    /// The name: 1 to 200 of the characters `a-z`, `A-Z`, `0-9`, `.`, `_`, `-` and `/`. A `/` ends a folder.
    pub name: String,
    /// The text: at most 64 KiB.
    pub text: String,
    /// The version of the text. Each write makes another one; it says nothing else.
    pub version: u64,
}

impl NamedValue {
    /// Returns a value.
    pub fn new(name: impl Into<String>, text: impl Into<String>, version: u64) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            version,
        }
    }
}

/// What must be true of a named value before it is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// Nothing.
    #[default]
    Anything,
    /// The name has no value.
    Absent,
    /// The value has this version.
    Version(u64),
}

impl Expected {
    /// Returns whether a present version is what is expected; `None` is a name without a value.
    pub fn is(self, version: Option<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => version.is_none(),
            Self::Version(expected) => version == Some(expected),
        }
    }
}

/// Sets or deletes a [`NamedValue`].
///
/// # Example
///
/// ```
/// use windlass::store::{Expected, SetValue, Store};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let store = Store::open("memory:").await?;
/// let registry = store.registry();
/// let new = SetValue::new("app/theme", "dark").expect(Expected::Absent);
/// assert!(registry.set_value(&new).await?);
/// assert!(!registry.set_value(&new).await?, "it has a value now");
/// assert_eq!(registry.values("app/").await?[0].text, "dark");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetValue {
    /// The name.
    pub name: String,
    /// The text; `None` deletes the value.
    pub text: Option<String>,
    /// What must be true before; nothing by default.
    pub expected: Expected,
    /// The author; `None` by default.
    pub by: Option<Author>,
}

impl SetValue {
    /// Sets a value.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: Some(text.into()),
            expected: Expected::Anything,
            by: None,
        }
    }

    /// Deletes a value. A name without a value stays without one.
    pub fn delete(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: None,
            expected: Expected::Anything,
            by: None,
        }
    }

    /// Sets what must be true before.
    #[must_use]
    pub fn expect(mut self, expected: Expected) -> Self {
        self.expected = expected;
        self
    }

    /// Names the author.
    #[must_use]
    pub fn by(mut self, by: Option<Author>) -> Self {
        self.by = by;
        self
    }

    /// Checks the name and the size. A store does so before it writes.
    ///
    /// # Errors
    ///
    /// Names the field: `name` or `text`.
    pub fn check(&self) -> Result<(), Invalid> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        if !(1..=LONGEST_NAME).contains(&self.name.len()) || !self.name.bytes().all(fits) {
            let what = "is not 1 to 200 of the characters a-z, A-Z, 0-9, '.', '_', '-' and '/'";
            return Err(Invalid::new("name", what));
        }
        let bytes = self.text.as_ref().map_or(0, String::len);
        if bytes > LARGEST {
            let what = format!("has {bytes} bytes; at most {LARGEST} are allowed");
            return Err(Invalid::new("text", what));
        }
        Ok(())
    }
}
