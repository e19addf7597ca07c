//! [`Word`]: a word of a command, which may contain any bytes.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};

/// The name of the JSON form for a word that is not text.
const PERCENT: &str = "percent";

/// A word of a command. In JSON it is a string. A word that is not UTF-8 is `{"percent":"caf%E9"}`,
/// where `%` and two hexadecimal digits stand for a byte (`%25` for `%` itself).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word(Vec<u8>);

impl Word {
    /// Makes a word of these bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the word as an argument of a process.
    pub fn to_os_string(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }

    /// Returns the word, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the bytes of the word.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the word with `%XX` for `%` and for bytes that are not text.
    fn percent(&self) -> String {
        let mut text = String::with_capacity(self.0.len() + 8);
        for chunk in self.0.utf8_chunks() {
            text.push_str(&chunk.valid().replace('%', "%25"));
            for byte in chunk.invalid() {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
        text
    }

    /// Reads what [`percent`](Self::percent) writes.
    fn from_percent(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut parts = text.split('%');
        bytes.extend(parts.next().unwrap_or_default().as_bytes());
        for part in parts {
            let digits = part.get(..2).filter(|d| !d.starts_with('+'))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            bytes.extend(&part.as_bytes()[2..]);
        }
        Some(Self(bytes))
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl AsRef<OsStr> for Word {
    fn as_ref(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) => f.write_str(text),
            Err(_) => f.write_str(&self.percent()),
        }
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return to.serialize_str(text);
        }
        let mut map = to.serialize_map(Some(1))?;
        map.serialize_entry(PERCENT, &self.percent())?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Visitor)
    }
}

struct Visitor;

impl<'de> serde::de::Visitor<'de> for Visitor {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text in quotes, or {\"percent\":\"caf%E9\"} for one that is not UTF-8")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Word, E> {
        Ok(text.into())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Word, A::Error> {
        let Some((name, text)) = map.next_entry::<String, String>()? else {
            return Err(A::Error::missing_field(PERCENT));
        };
        if name != PERCENT {
            return Err(A::Error::unknown_field(&name, &[PERCENT]));
        }
        if let Some((other, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
            return Err(A::Error::unknown_field(&other, &[PERCENT]));
        }
        Word::from_percent(&text).ok_or_else(|| {
            A::Error::custom(format!(
                "'{text}' has a % without two hexadecimal digits; write %25 for % itself"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written() {
        for (bytes, json) in [
            (&b"plain 100%"[..], r#""plain 100%""#),
            (b"", r#""""#),
            (b"caf\xe9 5%", r#"{"percent":"caf%E9 5%25"}"#),
            (b"\xff\xc3\xa4\x80", r#"{"percent":"%FFä%80"}"#),
        ] {
            let word = Word::from_bytes(bytes.to_vec());
            assert_eq!(serde_json::to_string(&word).unwrap(), json);
            assert_eq!(serde_json::from_str::<Word>(json).unwrap(), word);
        }
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for (json, says) in [
            ("5", "text in quotes, or {\"percent\":"),
            ("{}", "missing field `percent`"),
            (r#"{"bytes":"a"}"#, "unknown field `bytes`"),
            (r#"{"percent":"a","b":1}"#, "unknown field `b`"),
            (r#"{"percent":"5%"}"#, "write %25"),
            (r#"{"percent":"%+1"}"#, "write %25"),
            (r#"{"percent":"%ä"}"#, "write %25"),
        ] {
            let error = serde_json::from_str::<Word>(json).unwrap_err().to_string();
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}
