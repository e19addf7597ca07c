//! [`Fields`]: the fields of a JSON object, each once.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    marker::PhantomData,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
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
                    return Err(serde::de::Error::custom(format_args!("'{name}'{TWICE}")));
                }
            };
        }
        Ok(Fields(fields))
    }
}

/// Reads the fields of an object, each once, for `#[serde(deserialize_with)]`: see [`Fields`].
///
/// # Errors
///
/// Those of the reader; and that a field is given twice.
///
/// # Example
///
/// ```
/// use std::collections::BTreeMap;
/// use windlass_statemachine::plain;
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Job {
///     #[serde(deserialize_with = "plain::fields")]
///     env: BTreeMap<String, String>,
/// }
///
/// let twice = plain::object::<Job>(r#"{"env":{"A":"1","A":"2"}}"#).unwrap_err();
/// assert_eq!(twice.to_string(), "env: 'A' is given twice");
/// ```
pub fn fields<'de, D, T>(reader: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Fields::deserialize(reader).map(|Fields(fields)| fields)
}

/// How the error of a second field with one name ends.
pub(super) const TWICE: &str = " is given twice";

/// Any value whose objects have each field once.
pub(super) struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(OnceVisitor)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Once;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_str<E>(self, _: &str) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_unit<E>(self) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Once, A::Error> {
        while items.next_element::<Once>()?.is_some() {}
        Ok(Once)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Once, A::Error> {
        FieldsVisitor::<Once>(PhantomData)
            .visit_map(map)
            .map(|_| Once)
    }
}
