//! JSON as a page shows it: indented, every digit as it was written, and cut.

use maud::{Markup, html};
use serde_json::value::RawValue;

use super::text::cut;

/// The most characters of a value on a page.
const MOST: usize = 4000;

/// What a masked value is shown as.
const MASKED: &str = "\"$windlass\":\"masked\"";

/// Returns JSON with each member and element on a line of its own. Nothing within it is changed. `None` for one whose lines have
/// more than `most` bytes: a deep value may have forty times its own size.
pub(super) fn indented(json: &str, most: usize) -> Option<String> {
    let text = begin_indented(json, most);
    (text.len() <= most).then_some(text)
}

/// Returns the beginning of JSON with each member and element on a line of its own: all of it, or more than `most` bytes.
fn begin_indented(json: &str, most: usize) -> String {
    let (mut text, mut level, mut in_text, mut is_escaped) = (String::new(), 0, false, false);
    let mut chars = json.chars().filter(|c| !c.is_control()).peekable();
    let line = |text: &mut String, level: usize| {
        text.push('\n');
        (0..level.min(40)).for_each(|_| text.push_str("  "));
    };
    while let Some(c) = chars.next() {
        if text.len() > most {
            break;
        }
        if in_text {
            in_text = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            text.push(c);
            continue;
        }
        match c {
            ' ' => {}
            '"' => {
                in_text = true;
                text.push(c);
            }
            '{' | '[' => {
                text.push(c);
                while chars.next_if_eq(&' ').is_some() {}
                match chars.peek() {
                    Some('}' | ']') => text.extend(chars.next()),
                    _ => {
                        level += 1;
                        line(&mut text, level);
                    }
                }
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                line(&mut text, level);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, level);
            }
            ':' => text.push_str(": "),
            c => text.push(c),
        }
    }
    text
}

/// Returns whether a part of a value is masked.
pub(super) fn is_masked(json: &RawValue) -> bool {
    let text: String = json.get().chars().filter(|c| !c.is_whitespace()).collect();
    text.contains(MASKED)
}

/// Shows a value. `whole` is where all of it can be read.
pub(super) fn show(json: &RawValue, whole: &str) -> Markup {
    // A character has at most four bytes.
    let text = begin_indented(json.get(), 4 * MOST + 4);
    html! {
        pre.json { bdi { (cut(&text, MOST)) } }
        @if text.chars().nth(MOST).is_some() {
            p { a href=(whole) { "The whole value (" (super::text::grouped(json.get().len() as u64)) " bytes)" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_keeps_every_digit() {
        let json = r#"{"a":[1.00,{"b":"x,{\"y\\"}],"c":{},"d":[ ]}"#;
        let expected = "{\n  \"a\": [\n    1.00,\n    {\n      \"b\": \"x,{\\\"y\\\\\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(indented(json, 1000).as_deref(), Some(expected));
    }

    #[test]
    fn a_deep_value_does_not_make_a_page_larger_than_its_bound() {
        let json = format!(
            "{}{}{}",
            "[".repeat(40),
            "1,".repeat(400_000),
            "]".repeat(40)
        );
        assert_eq!(indented(&json, 1000), None);
        let raw = RawValue::from_string(r#"{"a":1}"#.to_owned()).unwrap();
        assert!(show(&raw, "/whole").into_string().len() < 200);
        assert!(begin_indented(&json, 1000).len() < 1200);
    }

    #[test]
    fn a_masked_value_is_noticed() {
        let masked = RawValue::from_string(r#"{"a": {"$windlass": "masked"}}"#.to_owned());
        assert!(is_masked(&masked.unwrap()));
        let plain = RawValue::from_string(r#"{"a":1}"#.to_owned());
        assert!(!is_masked(&plain.unwrap()));
    }
}
