//! [`Wrong`]: the wrong lines of a file.

use serde::Serialize;
use windlass::Invalid;

use super::SHOWN;
use crate::{exit::Failure, output::Output};

/// The lines of a file that are wrong. The first 20 are kept, the others are counted.
#[derive(Default)]
pub(super) struct Wrong {
    first: Vec<WrongLine>,
    count: usize,
}

/// Lines of a file that are wrong. Nothing was changed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WrongForm {
    /// The first 20 wrong lines.
    wrong: Vec<WrongLine>,
    /// The number of all wrong lines.
    wrong_lines: usize,
}

/// A wrong line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrongLine {
    /// The number of the line, from 1.
    line: u64,
    /// The wrong field.
    field: String,
    /// The error as a sentence, with the field.
    text: String,
}

impl Wrong {
    /// Adds a line. Prints the error of one of the first 20, unless JSON is printed at the end.
    pub(super) fn add(&mut self, out: &Output, line: u64, error: Invalid) {
        self.count += 1;
        if self.count > SHOWN {
            return;
        }
        self.first.push(WrongLine {
            line,
            field: error.field().to_owned(),
            text: error.to_string(),
        });
        if !out.is_json() {
            out.complain(Failure::from(error).about(&format!("line {line}")));
        }
    }

    /// Returns the failure of a file with wrong lines.
    pub(super) fn end(self, out: &Output) -> Result<(), Failure> {
        let more = match self.count.saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(", {more} more than those above"),
        };
        let lines = match self.count {
            0 => return Ok(()),
            1 => "1 line is".to_owned(),
            wrong => format!("{wrong} lines are"),
        };
        if out.is_json() {
            out.json(&WrongForm {
                wrong: self.first,
                wrong_lines: self.count,
            })?;
        }
        Err(Failure::Usage(format!(
            "{lines} wrong{more}; nothing was changed"
        )))
    }
}
