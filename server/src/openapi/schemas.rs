//! [`Schemas`]: the schemas of the document.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::routes::forms;

/// The schemas of the document, in which each type stands once.
#[derive(Default)]
pub(super) struct Schemas(pub(super) BTreeMap<String, Value>);

impl Schemas {
    /// Adds a form with the types that it uses, and returns a reference to it.
    pub(super) fn reference(&mut self, form: &str) -> Value {
        if !self.0.contains_key(form) {
            let mut schema = forms::schema(form);
            let fields = schema.as_object_mut().unwrap();
            fields.remove("$schema");
            let defs = fields.remove("$defs").unwrap_or_default();
            let mut defs = defs.as_object().cloned().unwrap_or_default();
            prune(&schema, &mut defs);
            let mut names = BTreeMap::new();
            for name in defs.keys() {
                names.insert(name.clone(), self.name_of(form, name, &defs));
            }
            for (name, own) in &names {
                let mut def = defs[name].clone();
                rename(&mut def, &names);
                self.0.insert(own.clone(), def);
            }
            rename(&mut schema, &names);
            self.0.insert(form.to_owned(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{form}")})
    }

    /// Returns the name of a type: its own, unless another form has another type of the name.
    fn name_of(&self, form: &str, name: &str, defs: &Map<String, Value>) -> String {
        let names = defs.keys().map(|name| (name.clone(), name.clone()));
        let mut own = defs[name].clone();
        rename(&mut own, &names.collect());
        match self.0.get(name) {
            Some(known) if *known != own => format!("{form}.{name}"),
            _ => name.to_owned(),
        }
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
        "$ref": format!("#/components/schemas/{form}"),
        "components": {"schemas": schemas},
    });
    jsonschema::draft202012::new(&schema).unwrap()
}
