//! [`Schema`]: a JSON Schema, with the order of its properties.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

/// A JSON Schema.
pub(in crate::pages) struct Schema {
    pub(super) whole: Value,
    /// The names of its properties, in the order in which it has them.
    pub(super) names: Vec<String>,
}

/// The names of the members of an object, in their order.
#[derive(Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = members.next_entry::<String, _>()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        from.deserialize_map(Members)
    }
}

impl Schema {
    /// Reads a schema; `None` for a text that is no JSON.
    pub(in crate::pages) fn read(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Top {
            #[serde(default)]
            properties: Names,
        }
        let whole = serde_json::from_str(text).ok()?;
        let top = serde_json::from_str::<Top>(text);
        let names = top.map_or_else(|_| Vec::new(), |top| top.properties.0);
        Some(Self { whole, names })
    }
}
