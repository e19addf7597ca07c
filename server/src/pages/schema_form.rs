//! Forms made from a JSON Schema, and the values that they send.
//!
//! A form has a field for each property of an object whose type a browser knows: a text, a number, a choice, yes or no. Any
//! other part of a schema, and a task without one, gets a field for JSON. A schema of a handler cannot make a form that
//! fails: what cannot be read is JSON, too.

mod schema;

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::{Map, Value};

pub(super) use self::schema::Schema;
use self::schema::{Resolved, resolved};
use super::{form::Fields, text};
use crate::problem::Problem;

/// The most fields of a form; a larger object gets one field for JSON.
const MOST: usize = 30;
/// The most choices of a field.
const CHOICES: usize = 200;
/// A text that may be longer gets several lines.
const LONG: u64 = 120;

/// The field of a value that is not an object.
const WHOLE: &str = "value";
/// Begins the names of the fields, so that none is taken for another one of the page.
const PREFIX: &str = "p.";

/// What a field takes.
enum Kind {
    Text,
    /// A text of this type of an `input`.
    Input(&'static str),
    Number {
        is_whole: bool,
    },
    YesNo,
    Choice(Vec<Value>),
    Json,
}

/// A field of a form.
struct Field<'s> {
    /// The name of the property; `None` for the whole value.
    name: Option<&'s str>,
    schema: Option<Map<String, Value>>,
    kind: Kind,
    is_required: bool,
    /// Whether an empty field that is required is `null`.
    is_nullable: bool,
}

impl<'s> Field<'s> {
    fn new(name: Option<&'s str>, schema: Option<Resolved>, is_required: bool) -> Self {
        let kind = schema.as_ref().map_or(Kind::Json, |of| kind_of(&of.schema));
        let is_nullable = schema.as_ref().is_some_and(|of| of.is_nullable);
        Self {
            name,
            schema: schema.map(|of| of.schema),
            kind,
            is_required,
            is_nullable,
        }
    }
}

/// A form for the payload of a signal.
pub(super) struct Form<'s> {
    fields: Vec<Field<'s>>,
}

impl<'s> Form<'s> {
    /// Returns the form of a schema; one field for JSON without a schema.
    pub(super) fn of(schema: Option<&'s Schema>) -> Self {
        let names = schema.map_or(&[][..], |schema| &schema.names);
        let schema = schema.and_then(|schema| schema.whole.as_object());
        let fields = schema.and_then(|schema| of_object(schema, names));
        let fields = fields.unwrap_or_else(|| {
            // Without a schema a signal may have no payload.
            let whole = schema.map(|schema| resolved(schema, schema));
            vec![Field::new(None, whole, schema.is_some())]
        });
        Self { fields }
    }

    /// Shows the fields.
    pub(super) fn show(&self) -> Markup {
        html! { @for field in &self.fields { (field.show()) } }
    }

    /// Returns the payload of a form that was sent, as JSON; `None` for a form whose only field is empty.
    ///
    /// # Errors
    ///
    /// A problem that names the field.
    pub(super) fn read(&self, sent: &Fields) -> Result<Option<String>, Problem> {
        if let [field @ Field { name: None, .. }] = self.fields.as_slice() {
            return field.read(sent);
        }
        let mut members = Vec::new();
        for field in &self.fields {
            if let (Some(name), Some(json)) = (field.name, field.read(sent)?) {
                members.push(format!("{}:{json}", Value::from(name)));
            }
        }
        Ok(Some(format!("{{{}}}", members.join(","))))
    }
}

/// Returns a value as it was typed, so that every digit stays.
fn json(typed: &str) -> Result<String, String> {
    match serde_json::from_str::<&serde_json::value::RawValue>(typed) {
        Ok(_) => Ok(typed.to_owned()),
        Err(error) => Err(format!("is not JSON: {error}; go back, and correct it")),
    }
}

/// Returns a value as it was typed, or a text without quotes as one. What begins like an object, a list or a text of JSON is meant
/// as such.
pub(super) fn json_or_text(typed: &str) -> Result<String, String> {
    match json(typed) {
        Err(_) if !typed.trim_start().starts_with(['{', '[', '"']) => {
            // Browsers send a line break as two characters.
            Ok(Value::from(typed.replace("\r\n", "\n")).to_string())
        }
        read => read,
    }
}

/// Returns the fields of an object; `None` for another schema, and for one with too many properties.
fn of_object<'s>(schema: &'s Map<String, Value>, names: &'s [String]) -> Option<Vec<Field<'s>>> {
    if text_of(schema, "type") != Some("object") {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    if properties.is_empty() || properties.len() > MOST {
        return None;
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    // A property that must be there and is not described cannot be filled in.
    if required.iter().any(|name| !properties.contains_key(*name)) {
        return None;
    }
    let mut seen = BTreeSet::new();
    let once = names.iter().filter(|name| seen.insert(name.as_str()));
    let fields = once.map(|name| {
        let of = properties.get(name).and_then(Value::as_object);
        let of = of.map(|of| resolved(schema, of));
        Field::new(Some(name), of, required.contains(&name.as_str()))
    });
    Some(fields.collect())
}

fn kind_of(schema: &Map<String, Value>) -> Kind {
    if let Some(choices) = choices(schema) {
        return Kind::Choice(choices);
    }
    match text_of(schema, "type") {
        Some("boolean") => Kind::YesNo,
        Some("integer") => Kind::Number { is_whole: true },
        Some("number") => Kind::Number { is_whole: false },
        Some("string") => match text_of(schema, "format") {
            Some("date") => Kind::Input("date"),
            Some("email") => Kind::Input("email"),
            Some("uri") => Kind::Input("url"),
            _ => Kind::Text,
        },
        _ => Kind::Json,
    }
}

fn choices(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    if let Some(one) = schema.get("const") {
        return Some(vec![one.clone()]);
    }
    let all = schema.get("enum")?.as_array()?;
    let fits = !all.is_empty() && all.len() <= CHOICES;
    fits.then(|| all.clone())
}

fn text_of<'s>(schema: &'s Map<String, Value>, name: &str) -> Option<&'s str> {
    schema.get(name).and_then(Value::as_str)
}

impl Field<'_> {
    fn id(&self) -> String {
        format!("{PREFIX}{}", self.name.unwrap_or(WHOLE))
    }

    fn of(&self, name: &str) -> Option<&Value> {
        self.schema.as_ref()?.get(name)
    }

    /// Returns a keyword of the schema that is a number, as it was written.
    fn number(&self, name: &str) -> Option<String> {
        self.of(name)
            .filter(|value| value.is_number())
            .map(Value::to_string)
    }

    fn length(&self, name: &str) -> Option<u64> {
        self.of(name).and_then(Value::as_u64)
    }

    fn title(&self) -> String {
        let title = self
            .schema
            .as_ref()
            .and_then(|schema| text_of(schema, "title"));
        let title = title.filter(|title| !title.trim().is_empty());
        text::cut(title.or(self.name).unwrap_or("Payload"), 80)
    }

    fn show(&self) -> Markup {
        let hint = self
            .schema
            .as_ref()
            .and_then(|schema| text_of(schema, "description"));
        html! {
            label {
                bdi { (self.title()) }
                @match self.kind { Kind::Json => " (JSON) ", _ => " " }
                (self.input())
                @if let Some(hint) = hint { span.hint { bdi { (text::cut(hint, 300)) } } }
            }
        }
    }

    fn input(&self) -> Markup {
        let (id, required) = (self.id(), self.is_required);
        let default = self.of("default");
        let written = match default {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        match &self.kind {
            Kind::YesNo => {
                let all = [Value::Bool(true), Value::Bool(false)];
                select(&id, required, &all, default, |value| match value {
                    Value::Bool(true) => "yes".to_owned(),
                    _ => "no".to_owned(),
                })
            }
            Kind::Choice(all) => {
                // What only one value is for is chosen.
                let default = default.or(all.first().filter(|_| all.len() == 1 && required));
                select(&id, required, all, default, |value| match value {
                    Value::String(text) => text::cut(text, 120),
                    other => text::cut(&other.to_string(), 120),
                })
            }
            Kind::Number { is_whole } => html! {
                input type="number" name=(id) required[required] value=(written) autocomplete="off"
                    step=(if *is_whole { "1" } else { "any" }) min=[self.number("minimum")] max=[self.number("maximum")];
            },
            Kind::Input(kind) => html! {
                input type=(kind) name=(id) required[required] value=(written) autocomplete="off"
                    minlength=[self.length("minLength")] maxlength=[self.length("maxLength")];
            },
            Kind::Text if self.length("maxLength").is_some_and(|most| most <= LONG) => html! {
                input name=(id) required[required] value=(written) autocomplete="off"
                    minlength=[self.length("minLength")] maxlength=[self.length("maxLength")];
            },
            Kind::Text => html! {
                textarea name=(id) required[required] rows="2"
                    minlength=[self.length("minLength")] maxlength=[self.length("maxLength")] { (written) }
            },
            Kind::Json => html! {
                textarea name=(id) required[required] rows="3" spellcheck="false" {
                    @if let Some(default) = default { (format!("{default:#}")) }
                }
            },
        }
    }

    /// Returns the value of the field, as JSON; `None` for an empty one that need not be there.
    fn read(&self, sent: &Fields) -> Result<Option<String>, Problem> {
        let id = self.id();
        let name = self.name.unwrap_or(WHOLE);
        let wrong = |reason: String| Problem::invalid(name, reason);
        let typed = sent.get(&id);
        // A text may be empty, and may begin with spaces. Browsers send a line break as two characters.
        let whole = sent.0.iter().find(|(known, _)| *known == id);
        let whole = whole.map(|(_, text)| text.replace("\r\n", "\n"));
        let is_text =
            matches!(self.kind, Kind::Text) && whole.as_ref().is_some_and(|text| !text.is_empty());
        let Some(typed) = typed.or(is_text.then_some("")) else {
            return match (&self.kind, self.is_required) {
                (_, true) if self.is_nullable => Ok(Some("null".to_owned())),
                (Kind::Text, true)
                    if self.length("minLength").unwrap_or(0) == 0 && whole.is_some() =>
                {
                    Ok(Some("\"\"".to_owned()))
                }
                (_, true) => Err(wrong("is empty; fill it in".to_owned())),
                (_, false) => Ok(None),
            };
        };
        Ok(Some(match &self.kind {
            Kind::Text | Kind::Input(_) => {
                let chars = whole.as_ref().map_or(0, |text| text.chars().count() as u64);
                if let Some(least) = self.length("minLength").filter(|least| chars < *least) {
                    return Err(wrong(format!(
                        "has {chars} characters; give at least {least}"
                    )));
                }
                if let Some(most) = self.length("maxLength").filter(|most| chars > *most) {
                    return Err(wrong(format!(
                        "has {chars} characters; give at most {most}"
                    )));
                }
                Value::from(whole.unwrap_or_default()).to_string()
            }
            Kind::Number { is_whole } => self.read_number(typed, *is_whole).map_err(wrong)?,
            Kind::YesNo => match typed {
                "true" | "false" => typed.to_owned(),
                _ => return Err(wrong("is neither yes nor no".to_owned())),
            },
            Kind::Choice(all) => {
                let sent = serde_json::from_str::<Value>(typed).ok();
                let chosen = all.iter().find(|one| sent.as_ref() == Some(one));
                let chosen = chosen.ok_or_else(|| wrong("is none of the choices".to_owned()))?;
                chosen.to_string()
            }
            Kind::Json if self.schema.is_none() => json_or_text(typed).map_err(wrong)?,
            Kind::Json => json(typed).map_err(wrong)?,
        }))
    }

    fn read_number(&self, typed: &str, is_whole: bool) -> Result<String, String> {
        let number: serde_json::Number = serde_json::from_str(typed)
            .map_err(|_| format!("'{}' is not a number", text::cut(typed, 40)))?;
        let value = number.as_f64().unwrap_or(f64::NAN);
        if is_whole && value.fract() != 0.0 {
            return Err(format!("{typed} is not a whole number"));
        }
        let bound = |name: &str| self.of(name).and_then(Value::as_f64);
        match (bound("minimum"), bound("maximum")) {
            (Some(least), _) if value < least => Err(format!("is {typed}; give at least {least}")),
            (_, Some(most)) if value > most => Err(format!("is {typed}; give at most {most}")),
            _ => Ok(typed.to_owned()),
        }
    }
}

/// Shows a choice of values. Each is sent as its JSON, so that a form of another schema chooses no other value.
fn select(
    id: &str,
    required: bool,
    all: &[Value],
    default: Option<&Value>,
    text: impl Fn(&Value) -> String,
) -> Markup {
    html! {
        select name=(id) required[required] {
            option value="" { "—" }
            @for value in all {
                option value=(value) selected[Some(value) == default] { (text(value)) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
