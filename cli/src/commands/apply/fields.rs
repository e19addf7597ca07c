//! [`Fields`]: one line of a transaction, field by field.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass::{Invalid, Json};

use super::super::steer::after;
use crate::{
    parse::{duration, time},
    plain,
};

/// The form of a line.
const EXAMPLE: &str = r#"write it like {"op":"delete","task":"a"}"#;

/// The fields of a line that were not read yet, each as its JSON text.
pub(super) struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    pub(super) fn parse(text: &str) -> Result<Self, Invalid> {
        if !text.trim_start().starts_with('{') && Json::parse("line", text).is_ok() {
            return Err(Invalid::new(
                "op",
                format!("is missing: the line is not a JSON object; {EXAMPLE}"),
            ));
        }
        let fields = plain::from_str(text);
        fields
            .map(Self)
            .map_err(|reason| Invalid::new("text", format!("{reason}; {EXAMPLE}")))
    }

    /// Reads a field; `None` when the line has it not.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, Invalid> {
        let Some(raw) = self.0.remove(name) else {
            return Ok(None);
        };
        let value = serde_json::from_str(raw.get());
        value
            .map(Some)
            .map_err(|e| Invalid::new(name, plain::words(&e)))
    }

    /// Reads a field that the line must have.
    pub(super) fn need<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, Invalid> {
        self.take(name)?
            .ok_or_else(|| Invalid::new(name, format!("is missing; {EXAMPLE}")))
    }

    /// Reads a time: RFC 3339, `now`, or `in 5m`.
    pub(super) fn take_time(
        &mut self,
        name: &'static str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Invalid> {
        let Some(text) = self.take::<String>(name)? else {
            return Ok(None);
        };
        let wrong = |reason| Invalid::new(name, reason);
        let at = match text.strip_prefix("in ") {
            Some(wait) => after(now, duration(wait.trim()).map_err(wrong)?, name)?,
            None if text == "now" => now,
            None => time(&text)
                .map_err(|reason| wrong(format!("{reason}; 'now' and 'in 5m' are times too")))?,
        };
        Ok(Some(at))
    }

    /// Returns whether the line has this field.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the rest of the line as a JSON object.
    pub(super) fn into_text(self) -> String {
        let fields = self.0.iter().map(|(name, value)| {
            let name = serde_json::Value::from(name.as_str());
            format!("{name}:{}", value.get())
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }

    /// Refuses fields that were not read; `known` are those of the operation.
    pub(super) fn end(self, known: &[&str]) -> Result<(), Invalid> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => {
                let reason = plain::unknown_field(&name, known.iter().copied());
                Err(Invalid::new(name, reason))
            }
        }
    }
}
