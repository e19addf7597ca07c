//! Finds words that only a shell understands, for a hint about a command that runs without one.

/// Words that a shell reads as operators.
const OPERATORS: [&str; 12] = [
    "|", "||", "|&", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "2>>",
];

/// Returns the first word that is an operator of a shell.
pub fn among<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    words.into_iter().find(|word| OPERATORS.contains(word))
}

/// Returns the first character outside of quotes that a shell would read as an operator or as a
/// file pattern.
pub fn within(template: &str) -> Option<char> {
    let mut quote = None;
    let mut chars = template.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => drop(chars.next()),
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(c),
            ('|' | '&' | ';' | '<' | '>' | '*', None) => return Some(c),
            _ => {}
        }
    }
    None
}

/// Returns the hint for a program that was not found because its name is a shell command line.
pub(super) fn for_missing(program: &str) -> Option<&'static str> {
    let is_line = program.contains(char::is_whitespace) || within(program).is_some();
    is_line.then_some(
        "'command' is the name of one program: put its arguments into 'args', or the whole line into \
         'shell'",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_outside_of_quotes_are_found() {
        for (text, found) in [
            ("ls {} | wc -l", Some('|')),
            ("gzip *.log", Some('*')),
            ("a && b", Some('&')),
            ("a > b", Some('>')),
            ("find {} -name '*.c'", None),
            ("find {} -name \\*.c", None),
            ("echo \"a | \\\"b\"", None),
            ("echo 'a\\' | b", Some('|')),
            ("sha256sum {}", None),
        ] {
            assert_eq!(within(text), found, "{text}");
        }
    }

    #[test]
    fn words_that_are_operators_are_found() {
        assert_eq!(among(["-l", "|", "wc"]), Some("|"));
        assert_eq!(among(["a|b", "x>y", "*.c"]), None);
    }

    #[test]
    fn a_program_that_is_a_line_gets_a_hint() {
        for line in ["ls -l", "a|b", "a;b"] {
            assert!(for_missing(line).is_some(), "{line}");
        }
        assert_eq!(for_missing("/usr/bin/ls"), None);
    }
}
