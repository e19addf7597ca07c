//! [`AwaitedSignal`]: the signal that a task waits for, as its handler has declared it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Invalid, Json, Signal, text::is_unprintable};

/// The longest text of an awaited signal, in characters.
pub const MAX_TEXT_CHARS: usize = 1000;
/// The largest schema of an awaited signal, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 16 * 1024;

/// The signal that a task waits for, as its handler has declared it
/// ([`Message::wait_for_signal`](crate::Message::wait_for_signal)): what clients need to ask a person for it.
///
/// The declaration is for the sender. It does not limit what a sender sends, so the handler still checks the payload.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{AwaitedSignal, Json};
///
/// let schema = Json::parse("schema", r#"{"type":"object","properties":{"by":{"type":"string"}}}"#)?;
/// let signal = AwaitedSignal::new("approve").with_text("Deploy version 1.4?").with_schema(schema);
/// assert_eq!(signal.check(), Ok(()));
/// let nameless = AwaitedSignal::new("").check().unwrap_err();
/// assert_eq!(nameless.field(), "name");
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AwaitedSignal {
    /// The name of the signal.
    name: String,
    /// What the person is asked; empty (default) for no text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    /// The JSON Schema of the payload; `None` (default) for any payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<Json>,
    /// When the wait ends; `None` (default) for no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// Whether the wait is over: the handler runs, or has run since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    over: bool,
    /// Whether the time of the wait had passed when the wait ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    expired: bool,
}

impl From<&str> for AwaitedSignal {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for AwaitedSignal {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl AwaitedSignal {
    /// Returns a signal with this name, without a text and with any payload. [`check`](Self::check) reports a name that is
    /// not valid.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: String::new(),
            schema: None,
            until: None,
            over: false,
            expired: false,
        }
    }

    /// Sets what the person is asked: up to 1,000 characters.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets the JSON Schema of the payload, from which clients make a form: up to 16 KiB. `None` for any payload.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<Option<Json>>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Returns the name of the signal.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the person is asked; empty for no text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the JSON Schema of the payload.
    pub fn schema(&self) -> Option<&Json> {
        self.schema.as_ref()
    }

    /// Returns when the wait ends, or was to end.
    pub fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Returns whether the deadline of the wait had passed when the wait ended. The value is stored when the wait ends, so
    /// it is the same in every attempt of the run that follows, whatever the clock shows then.
    ///
    /// A signal that arrives at the last moment can be in the queue of a run whose wait has expired. Take the signals first.
    ///
    /// # Example
    ///
    /// ```
    /// use jiff::{SignedDuration, Timestamp};
    /// use windlass_statemachine::{Fence, Message, TaskState, transition};
    ///
    /// let (now, day) = (Timestamp::UNIX_EPOCH, SignedDuration::from_hours(24));
    /// let asked = Message::wait_for_signal("approve").within(day.unsigned_abs());
    /// let waits = transition(&TaskState::new(now), &asked, now)?;
    /// let woken = waits.claimed(Fence(1), None, now + day);
    /// assert!(woken.awaited_signal.unwrap().expired());
    /// # Ok::<(), windlass_statemachine::TransitionError>(())
    /// ```
    pub fn expired(&self) -> bool {
        self.expired
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Ends the wait. Has no effect on a wait that is over.
    pub(crate) fn end(&mut self, now: Timestamp) {
        if !self.over {
            self.over = true;
            self.expired = self.until.is_some_and(|until| until <= now);
        }
    }

    /// Moves the deadline of a wait that goes on to a later time. An earlier time does not change it: a task that wakes
    /// before its deadline has not waited for its whole time.
    pub(crate) fn extend(&mut self, due: Timestamp) {
        if !self.over {
            self.until = self.until.map(|until| until.max(due));
        }
    }

    /// Returns the wait that begins with a state that ends at this time.
    pub(crate) fn begun(mut self, until: Option<Timestamp>) -> Self {
        (self.until, self.over, self.expired) = (until, false, false);
        self
    }

    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: field `name` unless it is the name of a signal ([`Signal::check`]), `text` for more than 1,000
    /// characters or one that cannot be printed, `schema` for more than 16 KiB and for anything but a JSON object.
    pub fn check(&self) -> Result<(), Invalid> {
        Signal::new(&self.name).check()?;
        let chars = self.text.chars().count();
        if chars > MAX_TEXT_CHARS {
            let reason = format!("has {chars} characters; at most {MAX_TEXT_CHARS} are allowed");
            return Err(Invalid::new("text", reason));
        }
        let breaks = |c: &char| !matches!(c, '\n' | '\t');
        if let Some(wrong) = self
            .text
            .chars()
            .filter(breaks)
            .find(|c| is_unprintable(*c))
        {
            let reason = format!("has the character {wrong:?}, which cannot be printed");
            return Err(Invalid::new("text", reason));
        }
        let Some(schema) = &self.schema else {
            return Ok(());
        };
        if schema.len() > MAX_SCHEMA_BYTES {
            let reason = format!(
                "has {} bytes; at most {MAX_SCHEMA_BYTES} are allowed",
                schema.len()
            );
            return Err(Invalid::new("schema", reason));
        }
        if !schema.as_str().trim_start().starts_with('{') {
            let reason =
                "is not a JSON object; write it like {\"type\":\"object\",\"properties\":{}}";
            return Err(Invalid::new("schema", reason));
        }
        schema.check_depth("schema")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_an_object_of_at_most_16_kib() {
        let with = |text: &str| {
            let schema = Json::parse("schema", text).unwrap();
            AwaitedSignal::new("a").with_schema(schema).check()
        };
        assert_eq!(with("{}"), Ok(()));
        let large = format!("{{\"title\":\"{}\"}}", "x".repeat(MAX_SCHEMA_BYTES));
        for wrong in ["true", "[1]", &large] {
            assert_eq!(with(wrong).unwrap_err().field(), "schema");
        }
    }

    #[test]
    fn a_text_may_have_lines() {
        let with = |text: &str| AwaitedSignal::new("a").with_text(text).check();
        assert_eq!(with("one\n\ttwo — é"), Ok(()));
        for wrong in ["\r", "\u{1b}[2J", "\u{202e}"] {
            assert_eq!(with(wrong).unwrap_err().field(), "text", "{wrong:?}");
        }
    }
}
