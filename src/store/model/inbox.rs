//! The rows of an inbox that were refused.

/// The rows of the inbox that were refused: their operations have no effect until the rows are corrected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedRows {
    /// The number of rows.
    pub rows: u64,
    /// Whether there may be more: only a part of the inbox was read.
    pub at_least: bool,
    /// The number (`seq`) of the first one.
    pub first: Option<i64>,
    /// Why the first one was refused; `None` for a caller who may not see it.
    pub reason: Option<String>,
}

impl RefusedRows {
    /// Returns what is refused, in words; `None` without refused rows.
    pub fn text(&self) -> Option<String> {
        let more = if self.at_least { "+" } else { "" };
        let (rows, have) = match self.rows {
            0 => return None,
            1 if !self.at_least => ("1 row".to_owned(), "was refused, and has"),
            many => (format!("{many}{more} rows"), "were refused, and have"),
        };
        let text = format!("{rows} of windlass_inbox {have} no effect until corrected");
        Some(match (self.first, &self.reason) {
            (Some(seq), Some(reason)) => format!("{text}; row {seq}: {reason}"),
            (Some(seq), None) => format!("{text}; the first is row {seq}"),
            (None, _) => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_rows_are_named_with_the_first_reason() {
        assert_eq!(RefusedRows::default().text(), None);
        let one = RefusedRows {
            rows: 1,
            first: Some(7),
            reason: Some("kind: is missing".to_owned()),
            at_least: false,
        };
        let text = "1 row of windlass_inbox was refused, and has no effect until corrected; row 7: kind: is missing";
        assert_eq!(one.text().as_deref(), Some(text));
        let many = RefusedRows {
            rows: 1000,
            at_least: true,
            reason: None,
            ..one
        };
        let text = "1000+ rows of windlass_inbox were refused, and have no effect until corrected; the first is row 7";
        assert_eq!(many.text().as_deref(), Some(text));
    }
}
