//! The value at a place of a document.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Json;

impl Json {
    /// Returns the value at a JSON pointer (RFC 6901), digit by digit as it is written; `None` when the document has
    /// no such place. The empty pointer names the whole document. When several fields have one name, the last counts.
    ///
    /// # Example
    ///
    /// ```
    /// use windlass_statemachine::Json;
    ///
    /// let props = Json::parse("props", r#"{"to":[{"n":12345678901234567890123}]}"#)?;
    /// assert_eq!(props.at("/to/0/n").unwrap().as_str(), "12345678901234567890123");
    /// assert_eq!(props.at("/from"), None);
    /// # Ok::<(), windlass_statemachine::Invalid>(())
    /// ```
    pub fn at(&self, pointer: &str) -> Option<Self> {
        let mut here = self.clone();
        if pointer.is_empty() {
            return Some(here);
        }
        for name in pointer.strip_prefix('/')?.split('/') {
            here = here.field(&name.replace("~1", "/").replace("~0", "~"))?;
        }
        Some(here)
    }

    /// Returns the value of a field of an object, or of a place of an array.
    fn field(&self, name: &str) -> Option<Self> {
        let found: Box<RawValue> = match self.as_str().trim_start().as_bytes().first()? {
            b'{' => {
                let mut fields: BTreeMap<String, Box<RawValue>> =
                    serde_json::from_str(self.as_str()).ok()?;
                fields.remove(name)?
            }
            b'[' => {
                let is_place = name == "0" || !name.starts_with(['0', '+']);
                let place: usize = is_place.then(|| name.parse().ok()).flatten()?;
                let mut items: Vec<Box<RawValue>> = serde_json::from_str(self.as_str()).ok()?;
                (place < items.len()).then(|| items.swap_remove(place))?
            }
            _ => return None,
        };
        Some(Self(found.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_value() {
        let json = Json::parse(
            "json",
            r#" {"a":[1,{"b":2.50}],"":0,"m~n":1,"x/y":2,"e=f":3,"a\u00e4":4,"twice":1,"twice":2}"#,
        )
        .unwrap();
        for (pointer, value) in [
            ("/a/0", "1"),
            ("/a/1/b", "2.50"),
            ("/", "0"),
            ("/m~0n", "1"),
            ("/x~1y", "2"),
            ("/e=f", "3"),
            ("/aä", "4"),
            ("/twice", "2"),
        ] {
            assert_eq!(json.at(pointer).unwrap().as_str(), value, "{pointer}");
        }
        assert_eq!(json.at("").unwrap(), json);
        for pointer in [
            "a", "/b", "/a/2", "/a/01", "/a/-", "/a/+1", "/a/0/x", "/a/1/b/0",
        ] {
            assert_eq!(json.at(pointer), None, "{pointer}");
        }
    }
}
