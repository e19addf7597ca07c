//! [`Payload`]: the text that a task carries.

use crate::Error;

/// The digits of the number at the begin of the text.
pub const DIGITS: usize = 15;

/// A text with the number of its task, filled up to a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The number of the task.
    pub number: usize,
    /// The text.
    pub text: String,
}

impl Payload {
    /// Returns the payload of a task. As a JSON string, the text has `bytes` bytes.
    pub fn new(number: usize, bytes: usize) -> Self {
        let mut text = format!("{number:015} ");
        while text.len() + 2 < bytes {
            text.push('x');
        }
        Self { number, text }
    }

    /// Reads the number of the task from the text.
    ///
    /// # Errors
    ///
    /// The text does not begin with a number of [`DIGITS`] digits.
    pub fn number_of(text: &str) -> Result<usize, Error> {
        let digits = text.get(..DIGITS).and_then(|digits| digits.parse().ok());
        digits.ok_or_else(|| "a task has a payload without a number".into())
    }

    /// Returns an id of 20 bytes.
    pub fn id(&self) -> String {
        format!("task-{:015}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_that_of_the_json() {
        let payload = Payload::new(7, 300);
        let json = serde_json::to_string(&payload.text).unwrap();
        assert_eq!(json.len(), 300);
        assert!(json.starts_with("\"000000000000007 x"));
        assert_eq!(Payload::number_of(&payload.text).unwrap(), 7);
        assert!(Payload::number_of("7").is_err());
    }
}
