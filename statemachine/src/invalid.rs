//! [`Invalid`]: an error about bad input that names the field and says what would be valid.

use std::{borrow::Cow, convert::Infallible};

/// An input that breaks a rule. It names the field, what is wrong, and what would be valid.
///
/// # Example
///
/// ```
/// use windlass_statemachine::TaskId;
///
/// let error = TaskId::new("a/b").unwrap_err();
/// assert_eq!(error.field(), "id");
/// assert!(error.to_string().contains("'/'"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    field: Cow<'static, str>,
    reason: String,
}

impl Invalid {
    /// Returns an error about `field` that says what is wrong and what would be valid.
    pub fn new(field: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// Returns the name of the field that is wrong.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns what is wrong, and what would be valid.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// The error of a conversion that always succeeds.
impl From<Infallible> for Invalid {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_its_field_and_its_reason() {
        let error = Invalid::new("until", "is missing");
        assert_eq!((error.field(), error.reason()), ("until", "is missing"));
        assert_eq!(error.to_string(), "until: is missing");
    }
}
