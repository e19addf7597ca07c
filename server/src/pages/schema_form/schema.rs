//! [`Schema`]: a JSON Schema, with the order of its properties.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

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
    /// Reads a schema; `None` for a text that is no JSON, and for one with a number that would lose digits here.
    pub(in crate::pages) fn read(text: &str) -> Option<Self> {
        if has_long_number(text) {
            return None;
        }
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

/// Returns whether a JSON document has a number with more digits than a floating-point number keeps.
fn has_long_number(text: &str) -> bool {
    const KEPT: usize = 15;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c.is_ascii_digit()) {
        let from = &rest[at..];
        if let Some(inner) = from.strip_prefix('"') {
            rest = after_text(inner);
            continue;
        }
        let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let end = from.find(|c| !is_of_number(c)).unwrap_or(from.len());
        let number = &from[..end];
        let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
        let digits = mantissa.chars().filter(char::is_ascii_digit);
        let digits = digits.skip_while(|digit| *digit == '0').count();
        if digits > KEPT && number.parse::<i64>().is_err() {
            return true;
        }
        rest = &from[end..];
    }
    false
}

/// Returns what follows the end of a text of JSON.
fn after_text(inner: &str) -> &str {
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return &inner[at + 1..],
            _ => {}
        }
    }
    ""
}

/// A part of a schema without references, and without the choice of `null`.
pub(super) struct Resolved {
    pub(super) schema: Map<String, Value>,
    /// Whether the value may be `null`.
    pub(super) is_nullable: bool,
}

/// The most steps from a schema to one without a reference: a reference may lead to itself.
const STEPS: usize = 16;

/// Returns a part of a schema as a field takes it: what pydantic and others write as a reference into the same schema, and as
/// a choice between one schema and `null`.
pub(super) fn resolved(root: &Map<String, Value>, of: &Map<String, Value>) -> Resolved {
    let (mut schema, mut is_nullable) = (of.clone(), false);
    for _ in 0..STEPS {
        let inner = if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
            let Some(target) = target(root, path) else {
                break;
            };
            schema.remove("$ref");
            target
        } else if let Some((word, one, has_null)) = only_choice(&schema) {
            schema.remove(word);
            is_nullable |= has_null;
            one
        } else {
            break;
        };
        // The words beside a reference, such as a title, are more exact.
        let outer = std::mem::replace(&mut schema, inner);
        schema.extend(outer);
    }
    if let Some(Value::Array(types)) = schema.get("type") {
        let others: Vec<Value> = types.iter().filter(|one| *one != "null").cloned().collect();
        if let (true, [one]) = (others.len() < types.len(), others.as_slice()) {
            is_nullable = true;
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    Resolved {
        schema,
        is_nullable,
    }
}

fn target(root: &Map<String, Value>, path: &str) -> Option<Map<String, Value>> {
    let mut parts = path.strip_prefix("#/")?.split('/');
    let first = root.get(parts.next()?)?;
    let found = parts.try_fold(first, |at, part| at.get(part))?;
    found.as_object().cloned()
}

/// Returns the only schema of a choice beside `null`, with the word of the choice.
fn only_choice(schema: &Map<String, Value>) -> Option<(&'static str, Map<String, Value>, bool)> {
    ["anyOf", "oneOf", "allOf"].into_iter().find_map(|word| {
        let all = schema.get(word)?.as_array()?;
        let is_null = |one: &&Value| one.get("type").is_some_and(|of| of == "null");
        let others: Vec<&Value> = all.iter().filter(|one| !is_null(one)).collect();
        let [one] = others.as_slice() else {
            return None;
        };
        Some((word, one.as_object()?.clone(), others.len() < all.len()))
    })
}
