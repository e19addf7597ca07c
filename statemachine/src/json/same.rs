//! Compares the values of two JSON texts, in constant stack and in time proportional to the length of
//! both, and writes the canonical text of a value.

use std::{borrow::Cow, collections::HashMap};

/// A value whose parts are represented by their numbers in [`Values`].
#[derive(PartialEq, Eq, Hash)]
enum Node<'a> {
    /// The text of a number, `true`, `false` or `null`.
    Word(&'a str),
    /// A string without its escapes.
    Text(Cow<'a, str>),
    /// The text of a string with an escape that stands for no character.
    Odd(&'a str),
    Array(Vec<usize>),
    /// Name and value of each member, sorted by name; values of one name keep their order.
    Object(Vec<(usize, usize)>),
}

/// An array or object that is being read.
enum Open {
    Array(Vec<usize>),
    /// The members so far, and the name whose value is read next.
    Object(Vec<(usize, usize)>, Option<usize>),
}

/// The number of each value: equal values have the same number.
#[derive(Default)]
struct Values<'a>(HashMap<Node<'a>, usize>);

impl<'a> Values<'a> {
    fn number(&mut self, node: Node<'a>) -> usize {
        let next = self.0.len();
        *self.0.entry(node).or_insert(next)
    }

    /// Returns the number of a document's value; `None` for a text that is not a JSON document.
    fn read(&mut self, text: &'a str) -> Option<usize> {
        let mut open: Vec<Open> = Vec::new();
        let mut at = 0;
        loop {
            let rest = text.get(at..)?;
            let done = match *rest.as_bytes().first()? {
                b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => {
                    at += 1;
                    continue;
                }
                b'[' => {
                    open.push(Open::Array(Vec::new()));
                    at += 1;
                    continue;
                }
                b'{' => {
                    open.push(Open::Object(Vec::new(), None));
                    at += 1;
                    continue;
                }
                b']' | b'}' => {
                    at += 1;
                    match open.pop()? {
                        Open::Array(items) => Node::Array(items),
                        Open::Object(mut members, None) => {
                            members.sort_by_key(|(name, _)| *name);
                            Node::Object(members)
                        }
                        Open::Object(_, Some(_)) => return None,
                    }
                }
                b'"' => {
                    let token = rest.get(..string_length(rest)?)?;
                    at += token.len();
                    string(token)
                }
                _ => {
                    let word = word(rest)?;
                    at += word.len();
                    Node::Word(word)
                }
            };
            let value = self.number(done);
            match open.last_mut() {
                None => return Some(value),
                Some(Open::Array(items)) => items.push(value),
                Some(Open::Object(members, name)) => match name.take() {
                    None => *name = Some(value),
                    Some(of) => members.push((of, value)),
                },
            }
        }
    }
}

/// An array or object whose canonical text is being written.
enum Writing {
    Array(Vec<String>),
    /// Name and value of each member, and the name whose value is written next.
    Object(Vec<(String, String)>, Option<String>),
}

/// Returns the canonical text, which all documents of the same value have in common: names in order, no spaces, no
/// unnecessary escapes. A text that is not a JSON document is returned unchanged.
pub(super) fn canonical(text: &str) -> String {
    written(text).unwrap_or_else(|| text.to_owned())
}

fn written(text: &str) -> Option<String> {
    let mut open: Vec<Writing> = Vec::new();
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let done = match *rest.as_bytes().first()? {
            b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => {
                at += 1;
                continue;
            }
            b'[' => {
                open.push(Writing::Array(Vec::new()));
                at += 1;
                continue;
            }
            b'{' => {
                open.push(Writing::Object(Vec::new(), None));
                at += 1;
                continue;
            }
            b']' | b'}' => {
                at += 1;
                match open.pop()? {
                    Writing::Array(items) => format!("[{}]", items.join(",")),
                    Writing::Object(mut members, None) => {
                        // A stable sort: values of one name keep their order.
                        members.sort_by(|(a, _), (b, _)| a.cmp(b));
                        let members = members
                            .iter()
                            .map(|(name, value)| format!("{name}:{value}"));
                        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
                    }
                    Writing::Object(_, Some(_)) => return None,
                }
            }
            b'"' => {
                let token = rest.get(..string_length(rest)?)?;
                at += token.len();
                match string(token) {
                    Node::Text(text) => serde_json::to_string(&text).ok()?,
                    _ => token.to_owned(),
                }
            }
            _ => {
                let word = word(rest)?;
                at += word.len();
                word.to_owned()
            }
        };
        match open.last_mut() {
            None => return Some(done),
            Some(Writing::Array(items)) => items.push(done),
            Some(Writing::Object(members, name)) => match name.take() {
                None => *name = Some(done),
                Some(of) => members.push((of, done)),
            },
        }
    }
}

/// Returns the number, `true`, `false` or `null` at the beginning of a text.
fn word(text: &str) -> Option<&str> {
    let ends = |c: char| matches!(c, ',' | ']' | '}' | ' ' | '\n' | '\r' | '\t');
    text.split(ends).next().filter(|word| !word.is_empty())
}

/// Returns the length of the string at the beginning of a text, its quotes included.
fn string_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    let mut bytes = text.bytes().enumerate().skip(1);
    bytes.find_map(|(at, byte)| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends.then_some(at + 1)
    })
}

fn string(token: &str) -> Node<'_> {
    let inside = token
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match inside {
        Some(plain) if !plain.contains('\\') => Node::Text(Cow::Borrowed(plain)),
        _ => match serde_json::from_str::<String>(token) {
            Ok(text) => Node::Text(Cow::Owned(text)),
            Err(_) => Node::Odd(token),
        },
    }
}

/// Returns whether two JSON documents have the same value.
pub(super) fn same_value(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let mut values = Values::default();
    let first = values.read(a);
    first.is_some() && first == values.read(b)
}

#[cfg(test)]
mod tests {
    use super::{canonical, same_value};

    fn check(same: bool, pairs: &[(&str, &str)]) {
        for (a, b) in pairs {
            assert_eq!(same_value(a, b), same, "{a} {b}");
            assert_eq!(same_value(b, a), same, "{b} {a}");
            assert_eq!(canonical(a) == canonical(b), same, "{a} {b}");
        }
    }

    #[test]
    fn order_of_names_spaces_and_escapes_do_not_matter() {
        check(
            true,
            &[
                (r#"{"a":1,"b":2}"#, "\t{ \"b\" : 2 ,\r\n \"a\" : 1 } "),
                (r#"{"a":{"x":[],"y":{}}}"#, r#"{"a":{"y":{ },"x":[ ]}}"#),
                (r#""é/\n😀""#, r#""\u00e9\/\u000A\ud83D\uDE00""#),
                (r#"{"\u0061":1}"#, r#"{"a":1}"#),
                ("null", " null"),
                (r#"["a\\","\"b"]"#, r#"[ "a\u005c" , "\u0022b" ]"#),
            ],
        );
    }

    #[test]
    fn other_values_are_different() {
        check(
            false,
            &[
                ("[1,2]", "[2,1]"),
                ("[1]", "[1,1]"),
                ("[[1],2]", "[[1,2]]"),
                ("[]", "{}"),
                ("1", "\"1\""),
                ("null", "\"null\""),
                ("true", "false"),
                (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
                (r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#),
                (r#"{"a":"b"}"#, r#"["a","b"]"#),
                (r#""a""#, r#""A""#),
            ],
        );
    }

    #[test]
    fn numbers_are_compared_as_they_are_written() {
        for number in [
            "9007199254740993",
            "18446744073709551617",
            "-9223372036854775809",
            "0.1000000000000000055511151231257827",
            "1e400",
        ] {
            let padded = format!(" {number} ");
            check(true, &[(number, &padded)]);
        }
        check(
            false,
            &[
                ("9007199254740993", "9007199254740992"),
                ("18446744073709551617", "18446744073709551616"),
                ("0.1", "0.10"),
                // A handler that reads a whole number takes only the first.
                ("1", "1.0"),
                ("100", "1e2"),
                ("0", "-0"),
            ],
        );
    }

    #[test]
    fn names_that_come_twice_count_each_time_in_their_order() {
        check(
            true,
            &[(r#"{"a":1,"b":0,"a":2}"#, r#"{"a":1,"a":2,"b":0}"#)],
        );
        check(
            false,
            &[
                (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
                (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
                (r#"{"a":1,"a":1}"#, r#"{"a":1}"#),
            ],
        );
    }

    #[test]
    fn an_escape_that_stands_for_no_character_is_compared_by_its_text() {
        let lone = r#"["\ud800"]"#;
        check(true, &[(lone, r#"[ "\ud800" ]"#)]);
        check(false, &[(lone, r#"["\ud801"]"#), (lone, r#"[" "]"#)]);
    }

    #[test]
    fn the_one_text_of_a_value_has_its_names_in_order_and_no_spaces() {
        let text = r#" { "b" : [ 1.0, "\u00e9\/" , { } ] , "a" : null , "b" : true } "#;
        let one = r#"{"a":null,"b":[1.0,"é/",{}],"b":true}"#;
        assert_eq!(canonical(text), one);
        assert_eq!(canonical(one), one);
        assert_eq!(canonical("[1"), "[1", "no document");
    }

    #[test]
    fn a_deep_document_needs_no_deep_stack() {
        let deep = |inner: &str, space: &str| {
            let (open, close) = (format!("[{space}{{\"a\":"), format!("{space}}}]"));
            format!("{}{inner}{}", open.repeat(50_000), close.repeat(50_000))
        };
        assert!(same_value(&deep("1", ""), &deep("1", " ")));
        assert!(!same_value(&deep("1", ""), &deep("2", " ")));
    }

    #[test]
    fn what_is_no_document_is_the_same_as_nothing_else() {
        for text in ["", "[", "]", "{\"a\"}", "\"a", "[1", "{\"a\":"] {
            check(false, &[(text, "[1]"), (text, " ")]);
        }
    }
}
