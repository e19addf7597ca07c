//! JSON documents and pointers into them.

use std::str;

use serde_json::Value;
use windlass::Json;

use crate::names_a_field;

/// Reads a document and a pointer, separated by the last line break. Returns whether the document has the place.
///
/// serde_json finds the same value by the same pointer, in every document that it can hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    let (document, pointer) = text.rsplit_once('\n').unwrap_or((text, ""));
    let json = match Json::parse("props", document) {
        Ok(json) => json,
        Err(refused) => {
            names_a_field(&refused);
            assert_eq!(refused.field(), "props");
            return false;
        }
    };
    assert!(json.same_value(&json), "{json}");
    let canonical = Json::parse("props", &json.canonical()).unwrap();
    assert!(canonical.same_value(&json), "{canonical} {json}");
    assert_eq!(canonical.canonical(), json.canonical());
    let found = json.at(pointer);
    if let Some(found) = &found {
        assert_eq!(Json::parse("props", found.as_str()).as_ref(), Ok(found));
    }
    if let Ok(whole) = serde_json::from_str::<Value>(document) {
        let expected = whole.pointer(pointer);
        let read = found
            .as_ref()
            .map(|found| found.get::<Value>("props").unwrap());
        assert_eq!(read.as_ref(), expected, "{pointer} of {document}");
    }
    found.is_some()
}
