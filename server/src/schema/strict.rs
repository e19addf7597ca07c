//! Makes schemas strict: a field that a schema does not name is an error.

use serde_json::{Map, Value, json};

/// The keywords that apply schemas to the object itself.
const IN_PLACE: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Refuses unnamed fields, in the schema and in its sub-schemas.
pub(super) fn close(schema: &mut Value) {
    walk(schema, true);
}

fn walk(schema: &mut Value, is_whole: bool) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let has_fields = object.contains_key("properties");
    let is_split = IN_PLACE.iter().any(|keyword| object.contains_key(*keyword));
    if is_whole && has_fields {
        let keyword = match is_split {
            true => "unevaluatedProperties",
            false => "additionalProperties",
        };
        object.insert(keyword.to_owned(), Value::Bool(false));
    }
    for keyword in IN_PLACE {
        let branches = object.get_mut(keyword).and_then(Value::as_array_mut);
        for branch in branches.into_iter().flatten() {
            // A branch next to fields knows only its own fields.
            walk(branch, is_whole && !has_fields);
        }
    }
    for keyword in ["properties", "$defs"] {
        let inner = object.get_mut(keyword).and_then(Value::as_object_mut);
        for (_, inner) in inner.into_iter().flatten() {
            walk(inner, true);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword) {
            walk(inner, true);
        }
    }
}

/// Merges the fields of a referenced object with the fields next to the reference: a variant has its tag and the
/// fields of its type.
pub(super) fn join(schema: &mut Value) {
    let defs = schema.get("$defs").cloned().unwrap_or_default();
    join_branches(schema, &defs);
    let types = schema.get_mut("$defs").and_then(Value::as_object_mut);
    for (_, of) in types.into_iter().flatten() {
        join_branches(of, &defs);
    }
    // Definitions that only a variant referenced.
    let text = schema.to_string();
    if let Some(defs) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        defs.retain(|name, _| text.contains(&format!("#/$defs/{name}\"")));
    }
}

fn join_branches(schema: &mut Value, defs: &Value) {
    for keyword in IN_PLACE {
        let branches = schema.get_mut(keyword).and_then(Value::as_array_mut);
        for branch in branches.into_iter().flatten() {
            join_one(branch, defs);
        }
    }
}

fn join_one(branch: &mut Value, defs: &Value) {
    let Some(branch) = branch.as_object_mut() else {
        return;
    };
    let reference = branch.get("$ref").and_then(Value::as_str);
    let name = reference.and_then(|to| to.strip_prefix("#/$defs/"));
    let Some(of) = name.and_then(|name| defs.get(name)).cloned() else {
        return;
    };
    if !branch.contains_key("properties") {
        return;
    }
    branch.remove("$ref");
    let fields = of["properties"].as_object().cloned().unwrap_or_default();
    if let Some(own) = branch.get_mut("properties").and_then(Value::as_object_mut) {
        own.extend(fields);
    }
    let required = of["required"].as_array().cloned().unwrap_or_default();
    if let Some(own) = branch.get_mut("required").and_then(Value::as_array_mut) {
        own.extend(required);
    }
}

/// The types whose optional fields may not be `null`.
const NEVER_NULL: [&str; 1] = ["Retry"];

/// Allows each optional field to be `null` as well.
pub(super) fn allow_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let required = object.get("required").cloned().unwrap_or_default();
    let is_required = |name: &String| {
        let mut names = required.as_array().into_iter().flatten();
        names.any(|required| required == name)
    };
    let fields = object.get_mut("properties").and_then(Value::as_object_mut);
    for (name, field) in fields.into_iter().flatten() {
        if let Some(field) = field.as_object_mut().filter(|_| !is_required(name)) {
            nullable(field);
        }
    }
    for keyword in IN_PLACE {
        let branches = object.get_mut(keyword).and_then(Value::as_array_mut);
        branches.into_iter().flatten().for_each(allow_null);
    }
    let inner = object.get_mut("$defs").and_then(Value::as_object_mut);
    for (name, inner) in inner.into_iter().flatten() {
        if !NEVER_NULL.contains(&name.as_str()) {
            allow_null(inner);
        }
    }
}

/// Reduces each description to what readers of JSON need: removes sections, code and links to the library's
/// pages.
pub(super) fn describe(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" => *text = plain(text),
                    inner => describe(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(describe),
        _ => {}
    }
}

fn plain(text: &str) -> String {
    let is_own = |line: &&str| !line.starts_with("# ") && !line.starts_with("```");
    let lines: Vec<&str> = text.lines().take_while(is_own).collect();
    let text = lines.join("\n");
    let text = text.trim();
    // The sentence that introduced the code.
    let text = match text.rsplit_once("\n\n") {
        Some((before, last)) if last.ends_with(':') => before,
        _ => text,
    };
    unlinked(text).replace("`None`", "`null`")
}

/// Returns a text of rustdoc without its links, whose targets are items of the library.
fn unlinked(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('[') {
        plain.push_str(before);
        match from.split_once(']') {
            Some((name, after)) if name.starts_with('`') || after.starts_with('(') => {
                plain.push_str(name);
                let target = after.strip_prefix('(').and_then(|to| to.split_once(')'));
                rest = target.map_or(after, |(_, after)| after);
            }
            _ => {
                plain.push('[');
                rest = from;
            }
        }
    }
    plain + rest
}

fn nullable(field: &mut Map<String, Value>) {
    match field.get_mut("type") {
        Some(Value::String(name)) => {
            let both = json!([name, "null"]);
            field.insert("type".to_owned(), both);
        }
        Some(_) => {}
        None => {
            if let Some(reference) = field.remove("$ref") {
                let either = json!([{ "$ref": reference }, { "type": "null" }]);
                field.insert("anyOf".to_owned(), either);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_an_object_and_of_its_branches_are_those_that_are_named() {
        let mut schema = json!({
            "properties": {"a": {"properties": {}}},
            "oneOf": [{"properties": {"b": {"items": {"properties": {}}}}}],
        });
        close(&mut schema);
        let closed = json!({"properties": {}, "additionalProperties": false});
        let expected = json!({
            "properties": {"a": closed},
            "oneOf": [{"properties": {"b": {"items": closed}}}],
            "unevaluatedProperties": false,
        });
        assert_eq!(schema, expected);
        let mut schema = json!({"oneOf": [{"properties": {}}]});
        close(&mut schema);
        assert_eq!(schema, json!({"oneOf": [closed]}));
    }

    #[test]
    fn a_variant_has_its_tag_and_the_fields_of_its_type() {
        let mut schema = json!({
            "oneOf": [{"$ref": "#/$defs/A", "properties": {"op": true}, "required": ["op"]}, {"$ref": "#/$defs/B"}],
            "$defs": {"A": {"properties": {"a": true}, "required": ["a"]}, "B": {}},
        });
        join(&mut schema);
        let joined = json!({"properties": {"a": true, "op": true}, "required": ["op", "a"]});
        let expected = json!({"oneOf": [joined, {"$ref": "#/$defs/B"}], "$defs": {"B": {}}});
        assert_eq!(schema, expected);
    }

    #[test]
    fn a_description_is_for_readers_of_json() {
        let text = "Is [`None`] or [1], see [this](super::x).\n\nMore.\n\nIts form:\n\n```\ncode\n```\n\n# Errors\n";
        let mut schema = json!({"items": [{"description": text}], "const": text});
        describe(&mut schema);
        let plain = "Is `null` or [1], see this.\n\nMore.";
        assert_eq!(
            schema,
            json!({"items": [{"description": plain}], "const": text})
        );
    }

    #[test]
    fn a_field_that_may_be_left_out_may_be_null() {
        let mut schema = json!({
            "required": ["a"],
            "properties": {"a": {"type": "string"}, "b": {"type": "array"}, "c": {"$ref": "x"}, "d": true},
        });
        allow_null(&mut schema);
        let expected = json!({
            "required": ["a"],
            "properties": {
                "a": {"type": "string"}, "b": {"type": ["array", "null"]},
                "c": {"anyOf": [{"$ref": "x"}, {"type": "null"}]}, "d": true,
            },
        });
        assert_eq!(schema, expected);
    }
}
