//! [`Json`]: a JSON document kept as its text.

mod pointer;
mod same;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{Invalid, plain};

/// The version of the data of a kind that declares none.
pub const FIRST_DATA_VERSION: u32 = 1;

/// A JSON document, kept as its text: cheap to clone and to store. No number in it is rounded: a
/// 64-bit or larger integer comes out as it went in.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Json;
///
/// let props = Json::parse("props", r#"{"user": 9007199254740993}"#)?;
/// #[derive(serde::Deserialize)]
/// struct Props { user: u64 }
/// assert_eq!(props.get::<Props>("props")?.user, 9_007_199_254_740_993);
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
// Kept as serde's own type for checked text: writing it copies the text and does not check it
// again.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl Hash for Json {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// The deepest nesting of arrays and objects in the props, the data and the result of a task. Most
/// JSON parsers refuse more than 128 levels, and the records that contain a task add some.
pub const MAX_DEPTH: usize = 100;

impl Json {
    /// Returns the document `null`.
    pub fn null() -> Self {
        // Every new task begins with `null`, so the document is shared.
        static NULL: LazyLock<Json> = LazyLock::new(|| Json(RawValue::NULL.to_owned().into()));
        NULL.clone()
    }

    /// Writes a value as JSON. Errors name `field`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the value has no JSON form (a map whose keys are not text, say).
    pub fn new<T: Serialize + ?Sized>(field: &'static str, value: &T) -> Result<Self, Invalid> {
        serde_json::value::to_raw_value(value)
            .map(|raw| Self(raw.into()))
            .map_err(|e| Invalid::new(field, format!("cannot be written as JSON: {e}")))
    }

    /// Checks that the text is one JSON document. Errors name `field`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with the place where the text stops being JSON.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Invalid> {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => Ok(Self(raw.to_owned().into())),
            Err(e) => Err(Invalid::new(field, plain::words(&e))),
        }
    }

    /// Reads the document as a value of type `T`. Errors name `field`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when the document is not of that type, with the place and the reason.
    pub fn get<T: DeserializeOwned>(&self, field: &'static str) -> Result<T, Invalid> {
        // The place of an error is costly to find, so a document without an error is read without
        // it.
        serde_json::from_str(self.as_str()).or_else(|_| {
            let read = plain::read(self.as_str());
            read.map_err(|wrong| Invalid::new(field, wrong))
        })
    }

    /// Returns the text of the document.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Returns whether two documents have the same value. `==` compares their texts.
    ///
    /// The order of an object's names, spaces between tokens, and escapes in strings do not matter.
    /// Numbers are compared as they are written, so that no digit is lost: `1`, `1.0` and `1e0` are
    /// three values, as they are for a handler that reads a whole number. When a name occurs twice
    /// in an object, each of its values counts, in order.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Json;
    ///
    /// let props = |text| Json::parse("props", text);
    /// let one = props(r#"{"user":7,"name":"\u00e9"}"#)?;
    /// assert!(one.same_value(&props(r#"{ "name": "é", "user": 7 }"#)?));
    /// assert!(!one.same_value(&props(r#"{"name":"é","user":7.0}"#)?));
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn same_value(&self, other: &Self) -> bool {
        same::same_value(self.as_str(), other.as_str())
    }

    /// Returns the text that all documents of the same value have in common: names of objects in order, no
    /// spaces, numbers as they are written.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Json;
    ///
    /// let props = Json::parse("props", r#"{"user": 7, "name": "\u00e9"}"#)?;
    /// assert_eq!(props.canonical(), r#"{"name":"é","user":7}"#);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn canonical(&self) -> String {
        same::canonical(self.as_str())
    }

    /// Returns the length of the document's text in bytes.
    pub fn len(&self) -> usize {
        self.as_str().len()
    }

    /// Checks that arrays and objects are nested at most [`MAX_DEPTH`] deep. Errors name `field`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with the depth.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Json;
    ///
    /// let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    /// assert!(Json::parse("props", &nested(100))?.check_depth("props").is_ok());
    /// let error = Json::parse("props", &nested(101))?.check_depth("props").unwrap_err();
    /// assert!(error.to_string().starts_with("props: is nested 101 levels deep; at most 100"));
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn check_depth(&self, field: &'static str) -> Result<(), Invalid> {
        match self.depth() {
            ..=MAX_DEPTH => Ok(()),
            depth => Err(Invalid::new(
                field,
                format!(
                    "is nested {depth} levels deep; at most {MAX_DEPTH} are allowed: write the inner \
                     part as text"
                ),
            )),
        }
    }

    /// Returns how deep arrays and objects are nested. For a text that cannot exceed [`MAX_DEPTH`] it
    /// returns an upper bound, which takes a tenth of the time of the exact depth: this runs for each
    /// submit and each write of data.
    fn depth(&self) -> usize {
        // A chunk has at most 255 bytes, so that a byte can hold the count: the compiler then
        // vectorises the loop.
        let opens = |byte: &u8| u8::from(matches!(byte, b'[' | b'{'));
        let chunks = self.as_str().as_bytes().chunks(usize::from(u8::MAX));
        let bound = chunks.map(|chunk| usize::from(chunk.iter().map(opens).sum::<u8>()));
        let bound = bound.sum();
        if bound <= MAX_DEPTH {
            return bound;
        }
        let (mut depth, mut deepest) = (0_usize, 0);
        let (mut in_text, mut escaped) = (false, false);
        for byte in self.as_str().bytes() {
            match byte {
                _ if escaped => escaped = false,
                // A backslash occurs only in strings.
                b'\\' => escaped = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'[' | b'{' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// Returns false: the shortest document has one byte.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// Returns whether the document is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::null()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        // Every `Value` has a JSON form.
        serde_json::value::to_raw_value(&value)
            .map_or_else(|_| Self::null(), |raw| Self(raw.into()))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}

/// Reads an optional document and keeps `null` as a document, not as the absence of one: a stored
/// result of `null` is read back as `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse("test", text).unwrap()
    }

    #[test]
    fn documents_are_equal_and_hash_alike_only_if_their_texts_are_equal() {
        let hash = |json: &Json| BuildHasherDefault::<DefaultHasher>::new().hash_one(json);
        let one = json("[1,2]");
        let copy = json("[1,2]");
        assert_eq!(one, copy);
        assert_eq!(hash(&one), hash(&copy));
        for other in ["[1, 2]", "[2,1]", "null"].map(json) {
            assert_ne!(one, other);
            assert_ne!(hash(&one), hash(&other));
        }
    }

    #[test]
    fn a_document_prints_as_its_text_and_has_its_length() {
        for (text, is_null) in [("null", true), ("\"null\"", false), ("[ 1.0 ]", false)] {
            let document = json(text);
            assert_eq!(format!("{document} {document:?}"), format!("{text} {text}"));
            assert_eq!(document.len(), text.len());
            assert_eq!(document.is_null(), is_null);
            assert!(!document.is_empty());
        }
        assert_eq!(Json::null(), json("null"));
        assert_eq!(Json::default(), json("null"));
    }

    #[test]
    fn nesting_is_counted_outside_of_texts() {
        let deep = |open: &str, close: &str, inner: &str, depth: usize| {
            let text = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            json(&text).check_depth("data").map_err(|e| e.to_string())
        };
        assert_eq!(deep("[", "]", "", MAX_DEPTH), Ok(()));
        assert_eq!(deep("{\"a\":", "}", "1", MAX_DEPTH), Ok(()));
        for (open, close) in [("[", "]"), ("{\"]\\\"}\":", "}")] {
            let error = deep(open, close, "0", MAX_DEPTH + 1).unwrap_err();
            assert!(
                error.starts_with("data: is nested 101 levels deep; at most 100 are allowed"),
                "{error}"
            );
        }
        let text = format!("[\"{}\", \"\\\"{}\"]", "[".repeat(200), "{".repeat(200));
        assert_eq!(json(&text).check_depth("data"), Ok(()));
        let siblings = format!("[{}[]]", "[],".repeat(200));
        assert_eq!(json(&siblings).check_depth("data"), Ok(()));
    }

    #[test]
    fn large_integers_survive() {
        let text = r#"{"n":123456789012345678901234567890,"f":1.10}"#;
        let json: Json = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
    }

    #[test]
    fn a_wrong_type_names_the_field() {
        let error = Json::parse("props", "[1]")
            .unwrap()
            .get::<String>("props")
            .unwrap_err();
        assert_eq!(error.field(), "props");
        assert_eq!(error.to_string(), "props: is an array, not text in quotes");
    }

    #[test]
    fn not_json_says_where() {
        let error = Json::parse("props", "{\"a\": }").unwrap_err().to_string();
        assert!(
            error.starts_with("props: is not JSON") && error.ends_with("at character 7"),
            "{error}"
        );
    }
}
