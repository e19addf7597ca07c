//! [`Fields`]: the fields of a JSON object, each once.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    marker::PhantomData,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

/// The fields of a JSON object, each once. A serde map would keep the last of two fields with one
/// name.
///
/// # Example
///
/// ```
/// use windlass_statemachine::plain::{Fields, object};
///
/// let fields: Fields<u8> = object(r#"{"a":1,"b":2}"#).unwrap();
/// assert_eq!(fields.0["b"], 2);
/// let twice = object::<Fields<u8>>(r#"{"a":1,"a":2}"#).unwrap_err();
/// assert_eq!(twice.to_string(), "'a' is given twice");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields<T>(pub BTreeMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(FieldsVisitor(PhantomData))
    }
}

struct FieldsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FieldsVisitor<T> {
    type Value = Fields<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value()?;
            match fields.entry(name) {
                Entry::Vacant(field) => field.insert(value),
                Entry::Occupied(field) => {
                    let name = field.key();
                    return Err(serde::de::Error::custom(format_args!(
                        "'{name}' is given twice"
                    )));
                }
            };
        }
        Ok(Fields(fields))
    }
}
