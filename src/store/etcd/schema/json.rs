//! The values of keys as JSON. Errors of reading say why the value is invalid.

use serde::{Serialize, de::DeserializeOwned};
use windlass_statemachine::Json;

use super::kv::KeyValue;
use crate::store::Error;

pub(crate) fn is_zero(n: &u32) -> bool {
    *n == 0
}

pub(crate) fn is_nought(n: &i32) -> bool {
    *n == 0
}

pub(crate) fn is_false(b: &bool) -> bool {
    !*b
}

pub(crate) fn text_of(kv: &KeyValue) -> Result<&str, String> {
    std::str::from_utf8(kv.value()).map_err(|e| e.to_string())
}

/// Reads the value of a key.
pub(crate) fn parse<T: DeserializeOwned>(kv: &KeyValue) -> Result<T, String> {
    serde_json::from_str(text_of(kv)?).map_err(|e| e.to_string())
}

/// Writes a value. Errors name the field.
pub(crate) fn write<T: Serialize + ?Sized>(
    field: &'static str,
    value: &T,
) -> Result<String, Error> {
    Ok(Json::new(field, value)?.as_str().to_owned())
}

/// Appends the fields of a JSON object to another one.
pub(crate) fn extended(mut text: String, more: &str) -> String {
    let more = more.trim_start_matches('{');
    if text.pop() == Some('}') && more != "}" {
        if !text.ends_with('{') {
            text.push(',');
        }
        text.push_str(more);
    } else {
        text.push('}');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_extended() {
        for (text, more, expected) in [
            ("{}", "{}", "{}"),
            ("{}", r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
            (r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#),
        ] {
            assert_eq!(extended(text.to_owned(), more), expected);
        }
    }
}
