//! Names: of tasks, kinds, nodes and commands, and the fence of a claim.
//!
//! A name that breaks a rule cannot be constructed, so no code after this module checks it again.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    Invalid,
    text::{is_blank, is_unprintable},
};

/// The longest id, kind or node name, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

fn check(field: &'static str, text: &str) -> Result<(), Invalid> {
    check_text(field, text, '/')
}

/// Checks the name of a kind. It may be a path, such as `inbox/err`: each part is a name.
fn check_kind(field: &'static str, text: &str) -> Result<(), Invalid> {
    // No name has this character.
    check_text(field, text, '\0')?;
    if text.ends_with('*') {
        let reason = format!(
            "'{text}' ends with '*', by which filters select every kind that begins so; end it with another character"
        );
        return Err(Invalid::new(field, reason));
    }
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    if text.split('/').all(is_part) {
        return Ok(());
    }
    let reason =
        format!("'{text}' has an empty part, '.' or '..' beside a '/'; write it like inbox/err");
    Err(Invalid::new(field, reason))
}

fn check_text(field: &'static str, text: &str, refused: char) -> Result<(), Invalid> {
    let wrong = |reason: String| Err(Invalid::new(field, reason));
    if is_blank(text) {
        return wrong(format!(
            "is empty, or shows nothing; give 1 to {MAX_NAME_BYTES} bytes of printable text"
        ));
    }
    if text.len() > MAX_NAME_BYTES {
        return wrong(format!(
            "has {} bytes; at most {MAX_NAME_BYTES} are allowed",
            text.len()
        ));
    }
    if text == "." || text == ".." {
        return wrong(format!("'{text}' is reserved; choose another name"));
    }
    if text.starts_with('_') {
        return wrong(format!(
            "'{text}' begins with '_', which is reserved; begin with another character"
        ));
    }
    if let Some(bad) = text.chars().find(|c| *c == refused || is_unprintable(*c)) {
        let without = if refused == '/' { " without '/'" } else { "" };
        return wrong(format!(
            "'{}' contains {bad:?}; use printable text{without}",
            text.escape_debug()
        ));
    }
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return wrong(format!(
            "'{text}' begins or ends with white space; remove it"
        ));
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        name! { $(#[$doc])* $name, $field, check, "holds `/` or an unprintable character" }
    };
    ($(#[$doc:meta])* $name:ident, $field:literal, $check:ident, $holds:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and makes the name.
            ///
            /// # Errors
            ///
            /// [`Invalid`] when the text is empty, longer than 256 bytes, `.` or `..`, begins with
            #[doc = concat!("`_`, begins or ends with white space, or ", $holds, ".")]
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                $check($field, text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// Returns the text of the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Invalid;
            fn try_from(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl TryFrom<&String> for $name {
            type Error = Invalid;
            fn try_from(text: &String) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl From<&$name> for $name {
            fn from(name: &$name) -> Self {
                name.clone()
            }
        }

        // Iterators over borrowed names yield `&&Name`.
        impl From<&&$name> for $name {
            fn from(name: &&$name) -> Self {
                (*name).clone()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().to_owned()
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name! {
    /// The immutable name of a task: 1 to 256 bytes of printable text without `/`, not `.` or
    /// `..`, and not beginning with `_`.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::TaskId;
    ///
    /// let id: TaskId = "report-2026-11".parse()?;
    /// assert_eq!(id.as_str(), "report-2026-11");
    /// assert!(TaskId::new("a/b").is_err());
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    TaskId, "id"
}

name! {
    /// The name of a handler; a task of this kind is run by it. The rules are those of [`TaskId`], but a kind may be a
    /// path: `inbox/err` is a kind of its own beside `inbox`. No part of a path is empty, `.` or `..`, and a kind does
    /// not end with `*`.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Kind;
    ///
    /// assert_eq!(Kind::new("inbox/err")?.as_str(), "inbox/err");
    /// assert!(Kind::new("inbox//err").is_err() && Kind::new("/inbox").is_err());
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    Kind, "kind", check_kind, "holds an unprintable character, or a `/` beside an empty part"
}

name! {
    /// The unique name of a node in its namespace. The rules are those of [`TaskId`].
    NodeName, "node"
}

name! {
    /// The id of a command, unique in its namespace. A command sent again with the same id is the
    /// same command, not a second one. The rules are those of [`TaskId`].
    CommandId, "command id"
}

name! {
    /// The id of a transaction, unique in its namespace. A transaction sent again with the same id is
    /// the same transaction, not a second one. The rules are those of [`TaskId`].
    TransactionId, "transaction id"
}

impl Kind {
    /// The kind of schedules. A task keeps it, and no other task gets it later.
    pub const SCHEDULE: &'static str = "schedule";
    /// The kind of bulk operations, which windlass-server runs.
    pub const BULK: &'static str = "bulk";
    /// The kind of commands of the operating system, which `windlass worker` runs.
    pub const COMMAND: &'static str = "exec";
    /// The kind of the lines of `windlass run`: commands that a run executes itself, and a worker only with `--take-runs`.
    pub const RUN_LINE: &'static str = "exec/run";

    /// Returns whether windlass itself has the handler of the kind: such tasks need no slot of a node, every node that has the
    /// handler takes them whatever its labels are, and no remote worker runs them.
    pub fn is_built_in(&self) -> bool {
        [Self::SCHEDULE, Self::BULK].contains(&self.as_str())
    }

    /// Returns whether its tasks are commands of the operating system, with the props and results of such.
    pub fn is_command(&self) -> bool {
        [Self::COMMAND, Self::RUN_LINE].contains(&self.as_str())
    }
}

/// The number of a claim: greater than that of every earlier claim of the same task.
///
/// A handler that writes to another system can pass the fence along, so that the other system can
/// reject a write with a smaller fence than the greatest it has seen. Zero means: never claimed.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// The greatest fence that a copy or a repair may set, 2^62. On every store later claims count on from that
    /// fence.
    pub const MOST: Self = Self(1 << 62);
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of one write of a claim, drawn at random by the writer.
///
/// A store keeps it with the state. When a writer sends a write again, it compares the ids to find out whether its
/// own write was applied, and not another of the same version. In JSON it is 16 hexadecimal digits, because a JSON
/// number could be rounded.
///
/// # Example
///
/// ```
/// use windlass_statemachine::CommitId;
///
/// let id = CommitId(0xabc);
/// assert_eq!(id.to_string(), "0000000000000abc");
/// assert_eq!(serde_json::from_str::<CommitId>("\"0000000000000abc\"")?, id);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct CommitId(pub u64);

impl CommitId {
    /// Returns the digits. Returns an array because each stored state has one: no text is
    /// allocated.
    fn digits(self) -> [u8; 16] {
        let mut digits = [0; 16];
        for (n, digit) in digits.iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(self.0 >> (4 * n)) as usize & 15];
        }
        digits
    }
}

impl Serialize for CommitId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = self.digits();
        let text = std::str::from_utf8(&digits).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(text)
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TryFrom<String> for CommitId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        let id = u64::from_str_radix(&text, 16);
        id.map(Self)
            .map_err(|_| Invalid::new("commit", "has to be 16 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_of_a_commit_id_are_its_text() {
        for id in [0, 1, 0xabc, u64::MAX, 0x0123_4567_89ab_cdef] {
            let id = CommitId(id);
            let text = format!("\"{id}\"");
            assert_eq!(serde_json::to_string(&id).unwrap(), text);
            assert_eq!(serde_json::from_str::<CommitId>(&text).unwrap(), id);
        }
        assert!(serde_json::from_str::<CommitId>("\"x\"").is_err());
    }

    #[test]
    fn legal_ids() {
        for text in [
            "a",
            "ab",
            "0198-…",
            "häuser",
            "with space",
            "...",
            "a_b",
            &"x".repeat(256),
        ] {
            assert_eq!(TaskId::new(text).map(String::from).as_deref(), Ok(text));
        }
    }

    #[test]
    fn illegal_ids_name_the_field_and_the_rule() {
        let cases = [
            ("", "is empty"),
            (".", "reserved"),
            ("..", "reserved"),
            ("_x", "begins with '_'"),
            ("a/b", "'/'"),
            ("a\nb", "'\\n'"),
            ("a\0b", "printable"),
            ("a\u{7f}b", "printable"),
            ("a\u{202e}b", "printable"),
            (" a", "white space"),
            ("a ", "white space"),
        ];
        for (text, says) in cases {
            let error = TaskId::new(text).expect_err(text);
            assert_eq!(error.field(), "id");
            assert!(error.to_string().contains(says), "{text:?}: {error}");
        }
        let long = TaskId::new("x".repeat(257))
            .expect_err("too long")
            .to_string();
        assert!(long.contains("257 bytes") && long.contains("256"), "{long}");
    }

    #[test]
    fn names_and_fences_print_as_their_text_padded_on_request() {
        let id = TaskId::new("a\"b").unwrap();
        assert_eq!(format!("{id}|{id:>5}|{id:?}"), r#"a"b|  a"b|"a\"b""#);
        assert_eq!(format!("{}|{:>3}", Fence(41), Fence(41)), "41| 41");
    }

    #[test]
    fn a_bad_id_does_not_deserialize() {
        assert!(serde_json::from_str::<TaskId>("\"a/b\"").is_err());
        assert_eq!(
            serde_json::from_str::<TaskId>("\"a\"").unwrap().as_str(),
            "a"
        );
    }
}
