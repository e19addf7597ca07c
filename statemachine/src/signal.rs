//! [`Signal`]: a named value for a task, to which its handler replies.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Invalid, Json,
    text::{is_blank, is_unprintable},
};

/// The longest name of a signal, in characters.
pub const MAX_NAME_CHARS: usize = 64;

/// A named value for a task: an approval, new input, a setting, a question. A handler gets it with
/// `Command::Signal` and replies to it.
///
/// Two signals are equal when their names and payloads are.
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Command, Signal};
///
/// let signal = Signal::new("approve").with_payload(&serde_json::json!({"by": "ann"}))?;
/// let text = serde_json::to_string(&Command::Signal(signal.clone()))?;
/// assert_eq!(text, r#"{"message":"signal","name":"approve","payload":{"by":"ann"}}"#);
/// #[derive(serde::Deserialize)]
/// struct Approval { by: String }
/// assert_eq!(signal.payload::<Approval>()?.by, "ann");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Signal {
    name: String,
    payload: Option<Json>,
    /// Its place in the queue of the task; 0 before it is delivered.
    order: u64,
}

impl PartialEq for Signal {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.payload == other.payload
    }
}

impl Eq for Signal {}

impl Signal {
    /// Returns a signal without a payload. [`check`](Self::check) reports a name that is not valid.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            payload: None,
            order: 0,
        }
    }

    /// Sets the payload.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `payload`) for a value without a JSON form.
    pub fn with_payload<T: Serialize + ?Sized>(self, payload: &T) -> Result<Self, Invalid> {
        Ok(self.with_json(Json::new("payload", payload)?))
    }

    /// Sets the payload, which is already JSON.
    #[must_use]
    pub fn with_json(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the payload as a type of your choice. A signal without a payload has the payload
    /// `null`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `payload`) when it is not of that type.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        let payload = self.payload.clone().unwrap_or_else(Json::null);
        payload.get("payload")
    }

    /// Returns the payload as JSON; `None` for a signal without one.
    pub fn payload_json(&self) -> Option<&Json> {
        self.payload.as_ref()
    }

    /// Returns the place of the signal in the queue of its task, which a reply refers to; 0 for a
    /// signal that no queue delivered.
    pub fn order(&self) -> u64 {
        self.order
    }

    /// Sets the place of the signal in the queue of its task.
    #[must_use]
    pub fn at(mut self, order: u64) -> Self {
        self.order = order;
        self
    }

    /// Checks the signal when it is sent.
    ///
    /// # Errors
    ///
    /// [`Invalid`]: field `name` unless it has 1 to 64 characters, all of them printable; field
    /// `payload` for one that is nested too deep ([`Json::check_depth`]).
    pub fn check(&self) -> Result<(), Invalid> {
        let chars = self.name.chars().count();
        if is_blank(&self.name) || chars > MAX_NAME_CHARS || self.name.chars().any(is_unprintable) {
            let reason = format!(
                "{:?} is not 1 to {MAX_NAME_CHARS} printable characters",
                self.name
            );
            return Err(Invalid::new("name", reason));
        }
        let payload = self.payload.as_ref();
        payload.map_or(Ok(()), |payload| payload.check_depth("payload"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_64_characters_and_none_of_control() {
        let (long, longest) = ("é".repeat(65), "é".repeat(64));
        for (name, is_legal) in [
            ("", false),
            ("a\nb", false),
            ("a\u{7f}", false),
            (&long, false),
            (&longest, true),
            ("set interval", true),
        ] {
            let refused = Signal::new(name).check().err();
            let field = refused.as_ref().map(Invalid::field);
            assert_eq!(field, (!is_legal).then_some("name"), "{name:?}");
        }
    }

    #[test]
    fn a_payload_that_is_nested_too_deep_is_refused() {
        let nested = |levels| {
            let text = "[".repeat(levels) + &"]".repeat(levels);
            Signal::new("n").with_json(Json::parse("payload", &text).unwrap())
        };
        assert_eq!(nested(100).check(), Ok(()));
        assert_eq!(nested(101).check().unwrap_err().field(), "payload");
    }

    #[test]
    fn the_place_in_the_queue_does_not_distinguish_signals() {
        assert_eq!(Signal::new("a").at(7), Signal::new("a"));
        assert_ne!(Signal::new("a"), Signal::new("b"));
        assert_eq!(Signal::new("a").payload::<Option<u8>>(), Ok(None));
    }
}
