//! Makes text safe to print.

use std::{borrow::Cow, fmt::Write as _, io};

pub(crate) use windlass::statemachine::text::{counted, escaped, is_unprintable};

/// Returns the text on one line, without control characters and invisible ones.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' | '\t' => line.push(' '),
            '\r' => {}
            c if is_unprintable(c) => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// Returns the text with its lines, without other control characters and invisible ones.
pub(crate) fn lines_of_text(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => lines.push(c),
            c if is_unprintable(c) => lines.extend(c.escape_default()),
            c => lines.push(c),
        }
    }
    lines
}

/// Returns a JSON document in which strings have escapes such as `\u202e` for characters that are
/// not printed as they are. A final line break stays.
pub(crate) fn json(document: &str) -> Cow<'_, str> {
    let escapes = |c: char| c != '\n' && is_unprintable(c);
    if !document.contains(escapes) {
        return document.into();
    }
    let mut line = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        match escapes(c) {
            // Each is one unit of UTF-16. Writing to a string does not fail.
            true => drop(write!(line, "\\u{:04x}", u32::from(c))),
            false => line.push(c),
        }
    }
    line.into()
}

/// Writes whole lines of JSON to standard error.
pub(crate) struct JsonLines;

impl io::Write for JsonLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => io::stderr().write_all(json(text).as_bytes())?,
            Err(_) => io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_handler_reach_a_terminal_without_control_characters() {
        let text = "a\tb\nc\u{1b}[31m\u{7}\u{202e}";
        assert_eq!(lines_of_text(text), "a\tb\nc\\u{1b}[31m\\u{7}\\u{202e}");
    }

    #[test]
    fn a_line_break_is_escaped() {
        assert_eq!(escaped("a\nb\x1b[2Jcé"), "a\\nb\\u{1b}[2Jcé");
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(one_line("a\nb\x1b[2Jc\r\n"), "a b\\u{1b}[2Jc");
        assert_eq!(
            one_line("ok \u{202e}txt.exe\u{9b}31m\u{2066}"),
            "ok \\u{202e}txt.exe\\u{9b}31m\\u{2066}"
        );
    }

    #[test]
    fn json_has_escapes_that_read_back_as_the_same_text() {
        let text = "é \u{202e}\u{9b}\u{7f}\u{feff}\u{2028} 😀";
        let document = serde_json::to_string(text).unwrap() + "\n";
        let line = json(&document);
        assert_eq!(line, "\"é \\u202e\\u009b\\u007f\\ufeff\\u2028 😀\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        assert_eq!(json("{\"a\":\"é\"}\n"), "{\"a\":\"é\"}\n");
    }
}
