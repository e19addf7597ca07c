//! [`Patch`]: a JSON Patch (RFC 6902) of documents whose numbers stay as they are written.
//!
//! A document is opened level by level along the pointers of the operations. What no pointer names stays the text that it
//! was, so that no digit changes, and the order of the fields neither.

mod node;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use windlass::Json;

use self::node::{Node, parts, place, set};
use crate::problem::Problem;

/// The most operations of a patch.
const MOST: usize = 1000;

/// The most bytes that all operations of a patch read and move: each opens the values on its way, or compares one.
const MOST_WORK: usize = 128 << 20;

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
        let steps: Vec<Step> = read.map_err(|error| {
            let what = format!("is not a JSON Patch: {error}; write it like {like}");
            Problem::invalid("body", what)
        })?;
        if steps.len() > MOST {
            let what = format!(
                "has {} operations, and a patch has at most {MOST}; send several, or the whole value by POST \
                 /v1/tasks/ID/reschedule",
                steps.len()
            );
            return Err(Problem::invalid("body", what));
        }
        Ok(Self(steps))
    }

    /// Applies the operations in their order, all or none. The copies that they make have at most `most` bytes.
    pub(crate) fn apply(self, before: &Patched, most: usize) -> Result<Patched, Problem> {
        let text = |json: &Json| Node::Text(json.as_str().to_owned());
        let mut fields = vec![("props".to_owned(), text(&before.props))];
        let data = before.data.as_ref().map(text);
        fields.extend(data.map(|data| ("data".to_owned(), data)));
        let mut whole = Node::Object(fields);
        let (mut copied, mut work) = (0, 0);
        let mut size = before.props.len() + before.data.as_ref().map_or(0, Json::len);
        for (n, step) in self.0.into_iter().enumerate() {
            // An operation touches at most the whole task as it is by now.
            size += step.value.as_ref().map_or(0, |value| value.get().len());
            work += size + copied;
            if work > MOST_WORK {
                let what = format!(
                    "is one operation too many for a task of this size: all together touch at most {MOST_WORK} bytes, the task \
                     counted once for each; send several patches, or the whole value by POST /v1/tasks/ID/reschedule"
                );
                return Err(Problem::invalid(&format!("[{n}]"), what));
            }
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
