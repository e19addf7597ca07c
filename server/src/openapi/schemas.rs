//! [`Schemas`]: the schemas of the document.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::routes::{forms, table::requests};

/// The schemas of the document, in which each type stands once. Names are in the case of types, and no two of them differ in
/// their case or punctuation only: makers of clients make classes of them.
#[derive(Default)]
pub(super) struct Schemas(pub(super) BTreeMap<String, Value>);

impl Schemas {
    /// Adds a form with the types that it uses, and returns a reference to it.
    pub(super) fn reference(&mut self, form: &str) -> Value {
        let own = name_of(form);
        if !self.0.contains_key(&own) {
            let mut schema = root(form);
            let fields = schema.as_object_mut().unwrap();
            let defs = fields.remove("$defs").unwrap_or_default();
            let mut defs = defs.as_object().cloned().unwrap_or_default();
            prune(&schema, &mut defs);
            let mut names = BTreeMap::new();
            for name in defs.keys() {
                names.insert(name.clone(), self.free_name(form, name, &defs));
            }
            for (name, free) in &names {
                let mut def = defs[name].clone();
                rename(&mut def, &names);
                def["title"] = json!(free);
                self.0.insert(free.clone(), def);
            }
            rename(&mut schema, &names);
            schema["title"] = json!(own);
            self.0.insert(own.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{own}")})
    }

    /// Returns the name of a type: its own, unless a form or another type has it.
    fn free_name(&self, form: &str, name: &str, defs: &Map<String, Value>) -> String {
        let own = name_of(name);
        let is_form = table_forms().any(|form| name_of(form) == own);
        if !is_form {
            let names = defs.keys().map(|name| (name.clone(), name_of(name)));
            let mut def = defs[name].clone();
            rename(&mut def, &names.collect());
            def["title"] = json!(own);
            if self.0.get(&own).is_none_or(|known| *known == def) {
                return own;
            }
        }
        format!("{}{own}", name_of(form))
    }
}

/// Returns the forms of the table.
fn table_forms() -> impl Iterator<Item = &'static str> {
    let methods = requests().flat_map(|request| request.methods);
    let forms = methods.flat_map(|method| {
        let bodies = method.bodies.iter().map(|body| body.form);
        bodies.chain(method.answers.iter().map(|answer| answer.form))
    });
    forms.chain(["problem"])
}

/// Returns a name in the case of types: `TaskPage` for `task-page`.
pub(super) fn name_of(form: &str) -> String {
    let parts = form.split(['-', '_', '.']);
    let capital = |part: &str| {
        let (first, rest) = part.split_at(part.len().min(1));
        format!("{}{rest}", first.to_uppercase())
    };
    parts.map(capital).collect()
}

/// Returns the schema of a form. In one that programs write, a time may be relative.
fn root(form: &str) -> Value {
    let mut schema = forms::schema(form);
    schema.as_object_mut().unwrap().remove("$schema");
    let mut bodies = requests()
        .flat_map(|request| request.methods)
        .flat_map(|method| method.bodies);
    if bodies.any(|body| body.form == form) {
        relax(&mut schema);
    }
    schema
}

fn relax(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields
                .get("format")
                .is_some_and(|format| format == "date-time")
            {
                fields.remove("format");
                fields.insert(
                    "examples".to_owned(),
                    json!(["2030-01-01T00:00:00Z", "in 5m"]),
                );
            }
            fields.values_mut().for_each(relax);
        }
        Value::Array(items) => items.iter_mut().for_each(relax),
        _ => {}
    }
}

/// Removes the types that the schema does not use.
fn prune(schema: &Value, defs: &mut Map<String, Value>) {
    let mut used = schema.to_string();
    let mut kept = Map::new();
    while let Some(name) = defs
        .keys()
        .find(|name| used.contains(&format!("\"#/$defs/{name}\"")))
        .cloned()
    {
        let def = defs.remove(&name).unwrap();
        used.push_str(&def.to_string());
        kept.insert(name, def);
    }
    *defs = kept;
}

/// Lets references name the types of the document.
fn rename(schema: &mut Value, names: &BTreeMap<String, String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get_mut("$ref")
                && let Some(name) = to.strip_prefix("#/$defs/")
            {
                *to = format!("#/components/schemas/{}", names[name]);
            }
            fields.values_mut().for_each(|inner| rename(inner, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| rename(inner, names)),
        _ => {}
    }
}

/// Returns a validator of a form of the document.
pub(super) fn validator(schemas: &Value, form: &str) -> jsonschema::Validator {
    let schema = json!({
        "$ref": format!("#/components/schemas/{}", name_of(form)),
        "components": {"schemas": schemas},
    });
    jsonschema::draft202012::new(&schema).unwrap()
}
