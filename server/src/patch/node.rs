//! [`Node`]: a JSON value that is opened level by level.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The most parts of a pointer: a task is not nested deeper.
const DEEPEST: usize = 128;

/// A value, opened as far as pointers lead into it.
#[derive(Debug)]
pub(super) enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Text(String),
}

/// The fields of an object in their order. Of two with one name the last counts.
struct InOrder(Vec<(String, Node)>);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = InOrder;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
                let mut fields: Vec<(String, Node)> = Vec::new();
                let mut places: HashMap<String, usize> = HashMap::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    let value = Node::Text(value.get().to_owned());
                    match places.get(&name).and_then(|place| fields.get_mut(*place)) {
                        Some((_, old)) => *old = value,
                        None => {
                            places.insert(name.clone(), fields.len());
                            fields.push((name, value));
                        }
                    }
                }
                Ok(InOrder(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

pub(super) fn set(fields: &mut Vec<(String, Node)>, name: String, value: Node) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, old)) => *old = value,
        None => fields.push((name, value)),
    }
}

impl Node {
    /// Opens one level of an object or an array.
    pub(super) fn open(&mut self) {
        let Self::Text(text) = self else { return };
        match text.trim_start().as_bytes().first() {
            Some(b'{') => {
                if let Ok(InOrder(fields)) = serde_json::from_str(text) {
                    *self = Self::Object(fields);
                }
            }
            Some(b'[') => {
                if let Ok(items) = serde_json::from_str::<Vec<Box<RawValue>>>(text) {
                    let items = items.iter().map(|item| Self::Text(item.get().to_owned()));
                    *self = Self::Array(items.collect());
                }
            }
            _ => {}
        }
    }

    /// Returns the value of a field or of a place of an array.
    pub(super) fn at(&mut self, part: &str) -> Option<&mut Self> {
        self.open();
        match self {
            Self::Object(fields) => fields
                .iter_mut()
                .find(|(name, _)| name == part)
                .map(|(_, value)| value),
            Self::Array(items) => {
                let place = place(part)?;
                items.get_mut(place)
            }
            Self::Text(_) => None,
        }
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Text(own) => text.push_str(own),
            Self::Array(items) => {
                text.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        text.push(',');
                    }
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(fields) => {
                text.push('{');
                for (n, (name, value)) in fields.iter().enumerate() {
                    if n > 0 {
                        text.push(',');
                    }
                    text.push_str(&serde_json::Value::from(name.as_str()).to_string());
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
            }
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }
}

/// Reads a place of an array: without leading zeros.
pub(super) fn place(part: &str) -> Option<usize> {
    let is_place = part == "0" || !part.starts_with(['0', '+']);
    is_place.then(|| part.parse().ok()).flatten()
}

/// Returns the parts of a pointer.
pub(super) fn parts(pointer: &str) -> Result<Vec<String>, String> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = pointer.strip_prefix('/') else {
        return Err(format!(
            "'{pointer}' is not a JSON pointer; it begins with '/', such as /props/to"
        ));
    };
    let parts = rest
        .split('/')
        .map(|part| part.replace("~1", "/").replace("~0", "~"));
    let parts: Vec<String> = parts.collect();
    match parts.len() {
        ..=DEEPEST => Ok(parts),
        many => Err(format!("has {many} parts; at most {DEEPEST} are allowed")),
    }
}
