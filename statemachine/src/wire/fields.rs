//! [`Fields`]: the fields of a JSON object that is read one by one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

use crate::{Invalid, Json, plain, time};

/// The fields that were not read yet, each as its JSON text.
pub(super) struct Fields {
    pub(super) left: BTreeMap<String, Box<RawValue>>,
    /// What errors about the whole object name as their field.
    whole: &'static str,
    /// A complete object, which the error of a missing field shows.
    pub(super) example: &'static str,
}

impl Fields {
    /// Reads the names and the texts of the fields.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `whole`) for a text that is not a JSON object, or has a field twice.
    pub(super) fn parse(
        text: &str,
        whole: &'static str,
        example: &'static str,
    ) -> Result<Self, Invalid> {
        let plain::Fields(left) = plain::object(text).map_err(|wrong| match wrong.is_whole() {
            true => Invalid::new(whole, format!("{wrong}; {example}")),
            false => Invalid::new(whole, wrong.to_string()),
        })?;
        Ok(Self {
            left,
            whole,
            example,
        })
    }

    /// Reads a field; `None` for one that is missing or `null`.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<T>, Invalid> {
        let Some(raw) = self.left.remove(name) else {
            return Ok(None);
        };
        plain::read(raw.get()).map_err(|wrong| Invalid::new(name, wrong))
    }

    /// Reads a field that may be neither missing nor `null`.
    pub(super) fn need<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, Invalid> {
        let value = self.take(name)?;
        value.ok_or_else(|| Invalid::new(name, format!("is missing; {}", self.example)))
    }

    /// Reads a field whose `null` is a value.
    pub(super) fn take_json(&mut self, name: &'static str) -> Result<Option<Json>, Invalid> {
        let raw = self.left.remove(name);
        raw.map(|raw| Json::parse(name, raw.get())).transpose()
    }

    /// Reads a value that replaces another one: `null` for `true` in the field `without`, which erases it. A value that is
    /// missing or `null` replaces nothing.
    pub(super) fn take_new(
        &mut self,
        name: &'static str,
        without: &'static str,
    ) -> Result<Option<Json>, Invalid> {
        let new: Option<Json> = self.take(name)?;
        if !self.take_true(without, "a value that is not given is kept")? {
            return Ok(new);
        }
        match new {
            None => Ok(Some(Json::null())),
            Some(_) => {
                let reason = format!("is given together with '{name}'; give one of them");
                Err(Invalid::new(without, reason))
            }
        }
    }

    /// Reads a condition that is `true` or absent: `false` is refused, for the reason that `instead` gives.
    pub(super) fn take_true(&mut self, name: &'static str, instead: &str) -> Result<bool, Invalid> {
        match self.take(name)? {
            Some(false) => {
                let reason = format!("is false; give true, or leave it out: {instead}");
                Err(Invalid::new(name, reason))
            }
            given => Ok(given.is_some()),
        }
    }

    /// Reads an RFC 3339 time.
    pub(super) fn take_time(&mut self, name: &'static str) -> Result<Option<Timestamp>, Invalid> {
        let text: Option<String> = self.take(name)?;
        text.map(|text| time::parse(name, &text)).transpose()
    }

    /// Refuses fields that were not read; `known` are all fields of the object.
    pub(super) fn end<'a>(self, known: impl IntoIterator<Item = &'a str>) -> Result<(), Invalid> {
        match self.left.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(plain::unknown_in(self.whole, name, known)),
        }
    }

    /// Returns the JSON object of the fields that were not read yet.
    pub(super) fn text(&self) -> String {
        self.text_of(|_| true)
    }

    /// Returns the same object without the field `left_out`.
    pub(super) fn text_without(&self, left_out: &str) -> String {
        self.text_of(|name| name != left_out)
    }

    fn text_of(&self, has: impl Fn(&str) -> bool) -> String {
        let fields = self.left.iter().filter(|(name, _)| has(name));
        let fields = fields.map(|(name, value)| {
            let name = Value::from(name.as_str());
            format!("{name}:{}", value.get())
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }
}
