//! Errors of JSON in plain words: what the text has and what would be valid, without the Rust types that serde names
//! (`invalid type: map, expected u8`).

mod fields;

use std::fmt;

use serde::de::DeserializeOwned;

pub use self::fields::{Fields, fields};
use self::fields::{Once, TWICE};
use crate::Invalid;

/// Why a text could not be read as JSON of a type.
///
/// # Example
///
/// ```
/// use windlass_statemachine::plain;
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Job { sizes: Vec<u8> }
///
/// let wrong = plain::object::<Job>(r#"{"sizes":[1,256]}"#).unwrap_err();
/// assert_eq!(wrong.to_string(), "sizes[1]: is 256, not a whole number from 0 to 255");
/// assert_eq!(wrong.into_invalid("job").field(), "sizes");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The place in the text: `labels.a` or `after[3]`; empty for the whole text.
    path: String,
    /// The field at that place which is missing or unknown.
    name: Option<String>,
    reason: String,
}

impl Wrong {
    /// Returns an error about the field of the object that is wrong, or else about `whole`.
    pub fn into_invalid(self, whole: &'static str) -> Invalid {
        let Self { path, name, reason } = self;
        // A field may have the empty name, which an error cannot name.
        let name = name.filter(|name| !name.is_empty());
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (root, rest) = path.split_at(end);
        match (root, rest.trim_start_matches('.'), name) {
            ("", _, Some(name)) => {
                let reason = match reason.strip_prefix(&format!("'{name}' ")) {
                    Some("is missing") => "is missing".to_owned(),
                    _ => reason,
                };
                Invalid::new(name, reason)
            }
            ("", _, None) => Invalid::new(whole, reason),
            (root, "", _) => Invalid::new(root.to_owned(), reason),
            (root, rest, _) => Invalid::new(root.to_owned(), format!("{rest}: {reason}")),
        }
    }

    /// Returns whether the error is about all of the text.
    pub fn is_whole(&self) -> bool {
        self.path.is_empty() && self.name.is_none()
    }

    fn whole(reason: String) -> Self {
        let (path, name) = (String::new(), None);
        Self { path, name, reason }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}

impl From<Wrong> for String {
    fn from(wrong: Wrong) -> Self {
        wrong.to_string()
    }
}

/// Reads a JSON object.
///
/// # Errors
///
/// [`Wrong`], with the place in the text. An array is an error too, although serde would read it as the
/// fields of a struct.
pub fn object<T: DeserializeOwned>(text: &str) -> Result<T, Wrong> {
    if text.trim_start().starts_with('[') {
        return Err(Wrong::whole("is an array, not an object".to_owned()));
    }
    read(text)
}

/// Checks that no object in a JSON document has two fields with one name. A reader would take one of them, and two readers
/// need not take the same one. What is no JSON passes: its reader reports that.
///
/// # Errors
///
/// [`Wrong`], with the place in the text and the name.
///
/// # Example
///
/// ```
/// use windlass_statemachine::plain;
///
/// assert!(plain::each_once(r#"{"a":{"b":1},"b":2}"#).is_ok());
/// let twice = plain::each_once(r#"{"a":[{"b":1,"b":2}]}"#).unwrap_err();
/// assert_eq!(twice.to_string(), "a[0]: 'b' is given twice");
/// ```
pub fn each_once(text: &str) -> Result<(), Wrong> {
    match read::<Once>(text) {
        Err(wrong) if wrong.reason.ends_with(TWICE) => Err(wrong),
        _ => Ok(()),
    }
}

/// Reads a JSON document.
///
/// # Errors
///
/// [`Wrong`], with the place in the text.
///
/// # Example
///
/// ```
/// use windlass_statemachine::plain;
///
/// let wrong = plain::read::<u8>("true").unwrap_err();
/// assert_eq!(wrong.to_string(), "is true, not a whole number from 0 to 255");
/// ```
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Wrong> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|e| {
        let path = e.path().to_string();
        let inner = e.inner().to_string();
        let reason = words(e.inner());
        let unknown = || unknown(&inner).filter(|(kind, ..)| *kind == "field");
        let missing = || quoted(inner.strip_prefix("missing field ")?);
        let name = unknown().map(|(_, name, _)| name.to_owned());
        let name = name.or_else(|| missing().map(|(name, _)| name.to_owned()));
        // The last part of the path is the unknown field itself, which the reason already names. The name may have a dot.
        let path = match inner.starts_with("unknown field") {
            true => match name.as_deref().and_then(|name| path.strip_suffix(name)) {
                Some(parent) => parent.trim_end_matches('.'),
                None => path.rsplit_once('.').map_or("", |(parent, _)| parent),
            },
            false => path.trim_matches('?').trim_end_matches('.'),
        };
        // The error comes from a check of windlass that has already named the field.
        let checked = reason.strip_prefix(&format!("{path}: ")).map(str::to_owned);
        Wrong {
            path: path.to_owned(),
            name,
            reason: checked.unwrap_or(reason),
        }
    })?;
    let end = reader.end();
    end.map_err(|e| Wrong::whole(words(&e)))?;
    Ok(read)
}

/// Returns an error of serde in plain words. A text that is not JSON at all keeps the place of the
/// error.
///
/// # Example
///
/// ```
/// use windlass_statemachine::plain;
///
/// let error = serde_json::from_str::<u8>("[]").unwrap_err();
/// assert_eq!(plain::words(&error), "is an array, not a whole number from 0 to 255");
/// ```
pub fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if !error.is_data() {
        // The caller names the line of a file; serde counts lines within this text.
        let text = text.replace(" at line 1 column ", " at character ");
        return match text.strip_prefix("expected ident") {
            // Serde's word for a bare word, of which JSON has three.
            Some(at) => format!("is not JSON: neither true, false, null nor text in quotes{at}"),
            None => format!("is not JSON: {text}"),
        };
    }
    let text = text
        .rsplit_once(" at line ")
        .map_or(&*text, |(text, _)| text);
    let is_not = |rest: &str| {
        // The found text may contain the word itself.
        let (found, wanted) = rest.rsplit_once(", expected ")?;
        Some(format!("is {}, not {}", found_in(found), wanted_as(wanted)))
    };
    let invalid = text
        .strip_prefix("invalid type: ")
        .or_else(|| text.strip_prefix("invalid value: "));
    let plain = invalid.and_then(is_not).or_else(|| {
        let (kind, name, known) = unknown(text)?;
        Some(match kind {
            "field" => unknown_field(name, known),
            _ => format!("'{name}' is not one of {}", known.join(", ")),
        })
    });
    let missing = || text.strip_prefix("missing field ").and_then(quoted);
    let twice = || text.strip_prefix("duplicate field ").and_then(quoted);
    plain
        .or_else(|| missing().map(|(name, _)| format!("'{name}' is missing")))
        .or_else(|| twice().map(|(name, _)| format!("'{name}' is given twice")))
        .unwrap_or_else(|| text.to_owned())
}

/// Returns the error for a field that does not exist: names the nearest one that does.
///
/// # Example
///
/// ```
/// use windlass_statemachine::plain::unknown_field;
///
/// let says = "'prop' is not a field; write 'props', if that is the one";
/// assert_eq!(unknown_field("prop", ["id", "props"]), says);
/// ```
pub fn unknown_field<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    // The option named `in` corresponds to a field for a time, not for a duration.
    if name == "in" && known.contains(&"start_at") {
        return "'in' is not a field; write 'start_at' with a time such as \
                \"2030-01-02T03:04:05Z\""
            .to_owned();
    }
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("'{name}' is not a field; write '{near}', if that is the one"),
        None => format!(
            "'{name}' is not a field; the fields are {}",
            known.join(", ")
        ),
    }
}

/// Returns the error for a field that does not exist in an object, about the object for a field without a name.
pub(crate) fn unknown_in<'a>(
    whole: &'static str,
    name: String,
    known: impl IntoIterator<Item = &'a str>,
) -> Invalid {
    let reason = unknown_field(&name, known);
    match name.is_empty() {
        true => Invalid::new(whole, reason),
        false => Invalid::new(name, reason),
    }
}

/// Returns the known name that is most similar to this one, if one is similar.
///
/// # Example
///
/// ```
/// use windlass_statemachine::plain::nearest;
///
/// assert_eq!(nearest("corn", ["cron", "every"]), Some("cron"));
/// assert_eq!(nearest("x", ["cron", "every"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rated = known
        .into_iter()
        .map(|other| (strsim::jaro_winkler(name, other), other));
    let best = rated.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness > 0.8)
        .map(|(_, other)| other)
}

/// Returns the text between the next two backquotes, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once('`')?;
    rest.split_once('`')
}

/// Reads "unknown field `x`, expected one of `a`, `b`": the word, the name and the known ones. The name may have any character.
fn unknown(text: &str) -> Option<(&str, &str, Vec<&str>)> {
    let (kind, rest) = text.strip_prefix("unknown ")?.split_once(" `")?;
    let ends = ["`, expected ", "`, there are no "];
    let (name, mut rest) = ends.iter().find_map(|end| rest.rsplit_once(end))?;
    let mut known = Vec::new();
    while let Some((one, after)) = quoted(rest) {
        known.push(one);
        rest = after;
    }
    Some((kind, name, known))
}

/// Returns what serde found, in the terms of JSON.
fn found_in(text: &str) -> &str {
    match text {
        "sequence" => "an array",
        "map" => "an object",
        "unit value" => "null",
        // "integer `5`", "boolean `true`", "floating point `1.5`"
        text if text.ends_with('`') => quoted(text).map_or(text, |(value, _)| value),
        // "string \"x\""
        text => text.strip_prefix("string ").unwrap_or(text),
    }
}

/// Returns what serde wanted, in the terms of JSON.
fn wanted_as(text: &str) -> String {
    let whole = |least: i64, most: i64| format!("a whole number from {least} to {most}");
    match text {
        "u8" => whole(0, u8::MAX.into()),
        "u32" => whole(0, u32::MAX.into()),
        "i32" => whole(i32::MIN.into(), i32::MAX.into()),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "f64" | "f32" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a string" | "path string" | "a borrowed string" => "text in quotes".to_owned(),
        "a map" | "any valid JSON value" => "an object".to_owned(),
        text if ["struct ", "enum ", "internally tagged enum "]
            .iter()
            .any(|name| text.starts_with(name)) =>
        {
            "an object".to_owned()
        }
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
