//! Splits a command template into words, for commands without a shell.

use shell_words::ParseError;

/// Splits a template by the quoting rules of a shell. `#` is an ordinary character, because the
/// template has no comments.
///
/// # Errors
///
/// A quote is not closed.
pub(super) fn split(template: &str) -> Result<Vec<String>, ParseError> {
    shell_words::split(&without_comments(template))
}

/// Puts a backslash before each `#` outside of quotes.
fn without_comments(template: &str) -> String {
    let mut text = String::with_capacity(template.len());
    let mut quote = None;
    let mut chars = template.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                text.push(c);
                text.extend(chars.next());
                continue;
            }
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            ('#', None) => text.push('\\'),
            _ => {}
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_sign_is_an_ordinary_character() {
        for (template, words) in [
            ("echo issue #{} end", &["echo", "issue", "#{}", "end"][..]),
            ("#echo {}", &["#echo", "{}"]),
            ("a#b #", &["a#b", "#"]),
            ("a '#b c' \"#d\" e", &["a", "#b c", "#d", "e"]),
            ("\\#a \"\\\"#\" '\\' #", &["#a", "\"#", "\\", "#"]),
            ("a 'b'#c \"\"#", &["a", "b#c", "#"]),
        ] {
            assert_eq!(split(template).unwrap(), words, "{template}");
        }
        assert!(split("a '#").is_err());
    }
}
