//! Texts that are printed: characters that are not printed as they are, and errors of the operating system.

use std::io;

/// Returns whether a character is a control character or prints as nothing: line and paragraph
/// separators, characters that change the direction of the text around them, tags, and other invisible ones.
/// Characters that join two others or keep them apart are printed: Persian words and some emoji need them.
///
/// # Example
///
/// ```
/// use windlass_statemachine::text::is_unprintable;
///
/// assert!(is_unprintable('\n') && is_unprintable('\u{9b}') && is_unprintable('\u{202e}') && is_unprintable('\u{61c}'));
/// assert!(!is_unprintable('a') && !is_unprintable('é') && !is_unprintable(' ') && !is_unprintable('\u{200d}'));
/// ```
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}')
}

/// Returns whether a text shows nothing to its reader: it is empty, or has only spaces and characters that are invisible
/// alone, such as joiners, fillers and the selectors of variants.
///
/// # Example
///
/// ```
/// use windlass_statemachine::text::is_blank;
///
/// assert!(is_blank("") && is_blank(" \u{a0}") && is_blank("\u{200d}\u{3164}"));
/// assert!(!is_blank(" x ") && !is_blank("\u{2764}\u{fe0f}"));
/// ```
pub fn is_blank(text: &str) -> bool {
    let is_seen = |c: char| {
        !(c.is_whitespace()
            || is_unprintable(c)
            || matches!(c,
                '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200c}' | '\u{200d}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
                | '\u{e0100}'..='\u{e01ef}'))
    };
    !text.chars().any(is_seen)
}

/// Checks a text that a person writes for others: one line of 1 to `most` bytes that shows something, without unprintable
/// characters ([`is_unprintable`], [`is_blank`]).
///
/// # Errors
///
/// What is wrong with the text.
///
/// # Example
///
/// ```
/// use windlass_statemachine::text::check_line;
///
/// assert_eq!(check_line("the database moves", 500), Ok(()));
/// assert_eq!(check_line("a\nb", 500).unwrap_err(), "has a line break");
/// assert_eq!(check_line("a\u{202e}b", 500).unwrap_err(), "has the character '\\u{202e}', which is not printed");
/// assert_eq!(check_line(" ", 500).unwrap_err(), "has only spaces or invisible characters");
/// ```
pub fn check_line(text: &str, most: usize) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() > most {
        return Err(format!("has {} bytes", text.len()));
    }
    match text.chars().find(|c| is_unprintable(*c)) {
        Some('\n' | '\r') => Err("has a line break".to_owned()),
        Some(c) => Err(format!(
            "has the character '{}', which is not printed",
            c.escape_default()
        )),
        None if is_blank(text) => Err("has only spaces or invisible characters".to_owned()),
        None => Ok(()),
    }
}

/// Returns the text with its unprintable characters escaped: `\n` for a line break, and `\u{202e}` for a
/// character that changes the direction of the text.
///
/// # Example
///
/// ```
/// use windlass_statemachine::text::escaped;
///
/// assert_eq!(escaped("a\nb\u{202e}cé"), "a\\nb\\u{202e}cé");
/// ```
pub fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match is_unprintable(c) {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Returns a number with its noun: `1 task`, `2 tasks`.
///
/// # Example
///
/// ```
/// use windlass_statemachine::text::counted;
///
/// assert_eq!(counted(1, "task"), "1 task");
/// assert_eq!(counted(0, "task"), "0 tasks");
/// ```
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns the text of an error of the operating system without its number, which says nothing more.
///
/// # Example
///
/// ```
/// use windlass_statemachine::text::of_io;
///
/// let missing = std::fs::read("/no/such/file").unwrap_err();
/// assert_eq!(of_io(&missing), "No such file or directory");
/// ```
pub fn of_io(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => text.replace(&format!(" (os error {number})"), ""),
        None => text,
    }
}
