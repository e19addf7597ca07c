//! Generates `docs/reference/json.md` from the schemas.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};

use super::Form;

const HEAD: &str = "\
# JSON

The fields of what windlass reads and prints. This page is made of the JSON Schemas in [`schemas/`](schemas), one for each
form, which are made of the types of the program: a program can be generated from them, or check what it writes. An output
has the fields of its schema and no others.

In an input, a field that may be left out may be `null` too, with the same meaning: `\"data\":null` and `\"props\":null` of a
`retry`, a `reschedule` or a message change nothing. To erase, write `\"no_data\":true` or `\"no_props\":true` (on the command line
`--data null`, `--props null`). Only the `null` of a `result`, a `payload` or a `reply` is a value: it replaces nothing.

Times are RFC 3339. Lengths of time are text such as `1h 30m`. *any* is any JSON value; numbers in it keep all of their
digits.
";

/// Returns the page.
pub(super) fn page(forms: &[(Form, Value)]) -> String {
    let mut to = HEAD.to_owned();
    for (is_input, title) in [(true, "Inputs"), (false, "Outputs")] {
        let _ = write!(to, "\n## {title}\n");
        let forms = forms.iter().filter(|(form, _)| form.is_input == is_input);
        for (form, schema) in forms {
            let Form { name, of, .. } = form;
            let _ = write!(
                to,
                "\n### {name}.json\n\n{of} ([schema](schemas/{name}.json))\n"
            );
            section(&mut to, schema);
        }
    }
    let mut types: BTreeMap<&str, &Value> = BTreeMap::new();
    // If an input and an output share a type, the input has the defaults.
    for (_, schema) in forms.iter().rev() {
        let defs = schema.get("$defs").and_then(Value::as_object);
        types.extend(
            defs.into_iter()
                .flatten()
                .map(|(name, def)| (name.as_str(), def)),
        );
    }
    to.push_str("\n## Types\n");
    for (name, schema) in types {
        let _ = write!(to, "\n### {name}\n");
        section(&mut to, schema);
    }
    to
}

/// Writes the description of a schema, and its fields.
fn section(to: &mut String, schema: &Value) {
    let about = text(schema);
    if !about.is_empty() {
        let _ = write!(to, "\n{about}\n");
    }
    if let Some(items) = schema.get("items") {
        if items.get("properties").is_some() {
            return section(to, items);
        }
        let _ = write!(to, "\nAn array of {}.\n", kind(items));
    }
    let fields = schema.get("properties").and_then(Value::as_object);
    if let Some(fields) = fields {
        table(to, schema, fields);
    }
    let mut is_list = false;
    for branch in branches(schema) {
        match branch.get("properties").and_then(Value::as_object) {
            Some(fields) => {
                is_list = false;
                let about = text(branch);
                let names = fields.iter().filter_map(|(name, field)| {
                    let value = field.get("const")?;
                    Some(format!("`{name}` `{}`", value.as_str()?))
                });
                let names = names.collect::<Vec<_>>().join(", ");
                let line = [names.as_str(), about.as_str()];
                let line = line.into_iter().filter(|part| !part.is_empty());
                let line = line.collect::<Vec<_>>().join(": ");
                let _ = write!(to, "\n{}\n", if line.is_empty() { "Or:" } else { &line });
                table(to, branch, fields);
            }
            None => {
                let value = branch.get("const").and_then(Value::as_str);
                let value = value.map_or_else(|| kind(branch), |value| format!("`{value}`"));
                let about = text(branch);
                let colon = if about.is_empty() { "" } else { ": " };
                if !to.ends_with("\n\n") && !is_list {
                    to.push('\n');
                }
                is_list = true;
                let _ = writeln!(to, "- {value}{colon}{about}");
            }
        }
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values = values.iter().filter_map(Value::as_str);
        let values: Vec<String> = values.map(|value| format!("`{value}`")).collect();
        let _ = write!(to, "\nOne of {}.\n", values.join(", "));
    }
    let has_none = fields.is_none() && branches(schema).next().is_none();
    if has_none && schema.get("enum").is_none() && schema.get("items").is_none() {
        let _ = write!(to, "\nType: {}.\n", kind(schema));
    }
}

fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    let of = |keyword| schema.get(keyword).and_then(Value::as_array);
    of("oneOf").into_iter().chain(of("anyOf")).flatten()
}

/// Writes a row for each field that is not a constant.
fn table(to: &mut String, schema: &Value, fields: &Map<String, Value>) {
    let fields = fields
        .iter()
        .filter(|(_, field)| field.get("const").is_none());
    let required = schema.get("required").and_then(Value::as_array);
    let mut rows = fields
        .map(|(name, field)| {
            let mut names = required.into_iter().flatten();
            let is_there = names.any(|required| required == name);
            let optional = if is_there { "" } else { ", optional" };
            format!(
                "| `{name}` | {}{optional} | {} |\n",
                kind(field),
                text(field)
            )
        })
        .peekable();
    if rows.peek().is_some() {
        to.push_str("\n| field | type | meaning |\n|---|---|---|\n");
        to.extend(rows);
    }
}

/// Returns the description, as one line.
fn text(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str);
    let words = text.unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Returns the type in words.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let either: Vec<String> = branches(schema).map(kind).collect();
    if !either.is_empty() {
        return either.join(" or ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    let names = match schema.get("type") {
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return "*any*".to_owned(),
    };
    let names = names.into_iter().map(|name| match name {
        "string" if schema.get("format").is_some_and(|f| f == "date-time") => "time".to_owned(),
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => format!("array of {}", kind(items)),
            None => "array".to_owned(),
        },
        "object" => match schema.get("additionalProperties") {
            Some(inner) if inner.is_object() => format!("object of {}", kind(inner)),
            _ => "object".to_owned(),
        },
        name => name.to_owned(),
    });
    names.collect::<Vec<_>>().join(" or ")
}
