//! [`Patch`]: a JSON Patch (RFC 6902) of documents whose numbers stay as they are written.
//!
//! A document is opened level by level along the pointers of the operations. What no pointer names stays the text that it
//! was, so that no digit changes, and the order of the fields neither.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use windlass::Json;

use crate::problem::Problem;

/// The most parts of a pointer: a task is not nested deeper.
const DEEPEST: usize = 128;

/// The operations of a patch.
pub(crate) struct Patch(Vec<Step>);

#[derive(Deserialize)]
struct Step {
    op: Op,
    path: String,
    #[serde(default)]
    from: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value: Option<Box<RawValue>>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Op {
    Add,
    Remove,
    Replace,
    Move,
    Copy,
    Test,
}

impl Patch {
    /// Returns the places that the operations name.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        let steps = self.0.iter();
        steps.flat_map(|step| {
            [Some(step.path.as_str()), step.from.as_deref()]
                .into_iter()
                .flatten()
        })
    }
}

/// Reads a value, of which `null` is one.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// A value, opened as far as pointers lead into it.
#[derive(Debug)]
enum Node {
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
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    set(&mut fields, name, Node::Text(value.get().to_owned()));
                }
                Ok(InOrder(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

fn set(fields: &mut Vec<(String, Node)>, name: String, value: Node) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, old)) => *old = value,
        None => fields.push((name, value)),
    }
}

impl Node {
    /// Opens one level of an object or an array.
    fn open(&mut self) {
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
    fn at(&mut self, part: &str) -> Option<&mut Self> {
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

    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }
}

/// Reads a place of an array: without leading zeros.
fn place(part: &str) -> Option<usize> {
    let is_place = part == "0" || !part.starts_with(['0', '+']);
    is_place.then(|| part.parse().ok()).flatten()
}

/// Returns the parts of a pointer.
fn parts(pointer: &str) -> Result<Vec<String>, String> {
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

/// The documents of a task that a patch changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Patched {
    pub(crate) props: Json,
    pub(crate) data: Option<Json>,
}

impl Patch {
    /// Reads the operations.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Problem> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
        let read = serde_json::from_slice(body);
        let like = r#"[{"op":"replace","path":"/props/to","value":"ann"}]"#;
        if first != Some(&b'[') {
            let what = format!("is not an array of operations; write it like {like}");
            return Err(Problem::invalid("body", what));
        }
        read.map(Self).map_err(|error| {
            let what = format!("is not a JSON Patch: {error}; write it like {like}");
            Problem::invalid("body", what)
        })
    }

    /// Applies the operations in their order, all or none. The copies that they make have at most `most` bytes.
    pub(crate) fn apply(self, before: &Patched, most: usize) -> Result<Patched, Problem> {
        let text = |json: &Json| Node::Text(json.as_str().to_owned());
        let mut fields = vec![("props".to_owned(), text(&before.props))];
        let data = before.data.as_ref().map(text);
        fields.extend(data.map(|data| ("data".to_owned(), data)));
        let mut whole = Node::Object(fields);
        let mut copied = 0;
        for (n, step) in self.0.into_iter().enumerate() {
            let applied = step.apply(&mut whole, &mut copied);
            applied.map_err(|what| Problem::invalid(&format!("[{n}]"), what))?;
            if copied > most {
                let what = format!("copies more than {most} bytes in all; send the value instead");
                return Err(Problem::invalid(&format!("[{n}]"), what));
            }
        }
        let mut parsed = |name: &'static str| {
            let found = whole.at(name).map(|node| node.text());
            found.map(|text| Json::parse(name, &text)).transpose()
        };
        let props = parsed("props")?;
        Ok(Patched {
            props: props.ok_or_else(|| removed("props"))?,
            data: match (parsed("data")?, &before.data) {
                (None, Some(_)) => return Err(removed("data")),
                (data, _) => data,
            },
        })
    }
}

fn removed(name: &str) -> Problem {
    Problem::invalid(name, "cannot be removed; replace it with null instead")
}

impl Step {
    fn apply(self, whole: &mut Node, copied: &mut usize) -> Result<(), String> {
        let Self {
            op,
            path,
            from,
            value,
        } = self;
        let value = || {
            let value = value
                .as_ref()
                .ok_or("has no value; this operation needs one")?;
            Ok::<_, String>(Node::Text(value.get().to_owned()))
        };
        let from = || {
            from.as_deref()
                .ok_or("has no 'from'; this operation needs one")
        };
        match op {
            Op::Add => add(whole, &path, value()?),
            Op::Remove => remove(whole, &path).map(drop),
            Op::Replace => {
                let value = value()?;
                *find(whole, &path)? = value;
                Ok(())
            }
            Op::Move => {
                let from = from()?;
                if path.starts_with(&format!("{from}/")) {
                    return Err(format!("moves '{from}' into itself"));
                }
                let moved = remove(whole, from)?;
                add(whole, &path, moved)
            }
            Op::Copy => {
                let copy = find(whole, from()?)?.text();
                *copied += copy.len();
                add(whole, &path, Node::Text(copy))
            }
            Op::Test => {
                let found = find(whole, &path)?.text();
                let same = |found: &str, wanted: &str| {
                    let read = |text| Json::parse("value", text).ok();
                    Some(read(found)?.same_value(&read(wanted)?))
                };
                match same(&found, &value()?.text()) {
                    Some(true) => Ok(()),
                    _ => Err(format!(
                        "the value at '{path}' is another one; nothing was changed"
                    )),
                }
            }
        }
    }
}

/// Returns the place that a pointer names. The task itself is none.
fn find<'a>(whole: &'a mut Node, pointer: &str) -> Result<&'a mut Node, String> {
    let missing = || format!("'{pointer}' does not exist");
    let mut here = whole;
    let parts = parts(pointer)?;
    check_top(pointer, &parts)?;
    for part in &parts {
        here = here.at(part).ok_or_else(missing)?;
    }
    Ok(here)
}

fn check_top(pointer: &str, parts: &[String]) -> Result<(), String> {
    match parts.first().map(String::as_str) {
        Some("props" | "data") => Ok(()),
        _ => Err(format!(
            "'{pointer}' is not in /props or /data, which a patch changes"
        )),
    }
}

/// Returns the value that has the last part of a pointer as a place, and that part.
fn above<'a>(whole: &'a mut Node, pointer: &str) -> Result<(&'a mut Node, String), String> {
    let mut parts = parts(pointer)?;
    check_top(pointer, &parts)?;
    let last = parts.pop().unwrap_or_default();
    let mut here = whole;
    for part in &parts {
        here = here
            .at(part)
            .ok_or_else(|| format!("'{pointer}' is in a value that does not exist"))?;
    }
    here.open();
    Ok((here, last))
}

fn add(whole: &mut Node, pointer: &str, value: Node) -> Result<(), String> {
    let (above, last) = above(whole, pointer)?;
    match above {
        Node::Object(fields) => {
            set(fields, last, value);
            Ok(())
        }
        Node::Array(items) => {
            let at = match last.as_str() {
                "-" => Some(items.len()),
                part => place(part).filter(|at| *at <= items.len()),
            };
            let at = at.ok_or_else(|| format!("'{pointer}' is beyond the end of the array"))?;
            items.insert(at, value);
            Ok(())
        }
        Node::Text(_) => Err(format!(
            "'{pointer}' is in a value that is no object and no array"
        )),
    }
}

fn remove(whole: &mut Node, pointer: &str) -> Result<Node, String> {
    let missing = || format!("'{pointer}' does not exist");
    let (above, last) = above(whole, pointer)?;
    match above {
        Node::Object(fields) => {
            let at = fields.iter().position(|(name, _)| *name == last);
            Ok(fields.remove(at.ok_or_else(missing)?).1)
        }
        Node::Array(items) => {
            let at = place(&last).filter(|at| *at < items.len());
            Ok(items.remove(at.ok_or_else(missing)?))
        }
        Node::Text(_) => Err(missing()),
    }
}

#[cfg(test)]
mod tests;
