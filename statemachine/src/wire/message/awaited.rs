//! The signal that a message waits for.

use serde::Serialize;
use serde_json::value::RawValue;

use super::Fields;
use crate::{Action, AwaitedSignal, Invalid, Json, Message};

/// The signal that a message waits for.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "AwaitsSignal"))]
pub(crate) struct AwaitedForm {
    /// The name of the signal.
    pub(super) name: String,
    /// What the person is asked: up to 1,000 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "schema", serde(default))]
    pub(super) text: String,
    /// The JSON Schema of the payload, from which clients make a form: up to 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<Json>,
}

/// Returns a pause or a sleep, with the signal that it waits for.
pub(super) fn awaiting(action: Action, fields: &mut Fields) -> Result<Message, Invalid> {
    let Some(text) = fields.take::<Box<RawValue>>("awaits_signal")? else {
        return Ok(action.into());
    };
    let signal = awaited(text.get()).map_err(|e| match e.field() {
        "awaits_signal" => e,
        field => Invalid::new(format!("awaits_signal.{field}"), e.reason()),
    })?;
    Ok(Message::awaiting(action, signal))
}

fn awaited(text: &str) -> Result<AwaitedSignal, Invalid> {
    let example = r#"write it like {"name":"approve","text":"Deploy version 1.4?"}"#;
    let mut fields = Fields::parse(text, "awaits_signal", example)?;
    let mut signal = AwaitedSignal::new(fields.need::<String>("name")?);
    if let Some(text) = fields.take::<String>("text")? {
        signal = signal.with_text(text);
    }
    if let Some(schema) = fields.take::<Json>("schema")? {
        signal = signal.with_schema(schema);
    }
    fields.end(["name", "text", "schema"])?;
    signal.check()?;
    Ok(signal)
}
