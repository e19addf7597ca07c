//! Texts that are printed: characters that are not printed as they are, and errors of the operating system.

use std::io;

/// Returns whether a character is a control character or prints as nothing: line and paragraph
/// separators, characters that change the direction of the text around them, and other invisible ones.
/// Characters that join two others or keep them apart are printed: Persian words and some emoji need them.
///
/// # Example
///
/// ```
/// use windlass_statemachine::text::is_unprintable;
///
/// assert!(is_unprintable('\n') && is_unprintable('\u{9b}') && is_unprintable('\u{202e}'));
/// assert!(!is_unprintable('a') && !is_unprintable('é') && !is_unprintable(' ') && !is_unprintable('\u{200d}'));
/// ```
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
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
