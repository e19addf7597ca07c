//! Makes text safe to print.

/// The text on one line, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\n' | '\t' => line.push(' '),
            '\r' => {}
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// The text with its control characters escaped: `\n` for a line break.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_is_escaped() {
        assert_eq!(escaped("a\nb\x1b[2Jcé"), "a\\nb\\u{1b}[2Jcé");
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(one_line("a\nb\x1b[2Jc\r\n"), "a b\\u{1b}[2Jc");
    }
}
