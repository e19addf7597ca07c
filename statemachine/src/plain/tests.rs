//! Tests of the errors of JSON in plain words.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    #[serde(default)]
    #[allow(dead_code, reason = "read only to be refused")]
    count: u8,
    #[serde(default)]
    #[allow(dead_code, reason = "read only to be refused")]
    names: Vec<String>,
    #[serde(default)]
    #[allow(dead_code, reason = "read only to be refused")]
    env: BTreeMap<String, PathBuf>,
    #[serde(default)]
    #[allow(dead_code, reason = "read only to be refused")]
    colour: Option<Colour>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
}

#[test]
fn an_error_is_in_the_words_of_json() {
    for (text, says) in [
        ("[]", "is an array, not an object"),
        ("null", "is null, not an object"),
        (r#""x""#, r#"is "x", not an object"#),
        (
            r#"{"count":256}"#,
            "count: is 256, not a whole number from 0 to 255",
        ),
        (r#"{"names":["a",1]}"#, "names[1]: is 1, not text in quotes"),
        (r#"{"names":{}}"#, "names: is an object, not an array"),
        (r#"{"env":[]}"#, "env: is an array, not an object"),
        (
            r#"{"env":{"A":true}}"#,
            "env.A: is true, not text in quotes",
        ),
        (
            r#"{"name":["a"]}"#,
            "'name' is not a field; write 'names', if that is the one",
        ),
        (
            r#"{"xyz":["a"]}"#,
            "'xyz' is not a field; the fields are count, names, env, colour",
        ),
        (
            r#"{"colour":"blue"}"#,
            "colour: 'blue' is not one of red, green",
        ),
        // Regression: the found text was cut at the word of serde.
        (
            r#"{"count":"1, expected 2"}"#,
            r#"count: is "1, expected 2", not a whole number from 0 to 255"#,
        ),
        // Regression: the name was cut at the mark, and the fields were not named.
        (
            r#"{"x`y":1}"#,
            "'x`y' is not a field; the fields are count, names, env, colour",
        ),
        // Regression: the part before the dot was named as the field.
        (
            r#"{"count.x":1}"#,
            "'count.x' is not a field; write 'count', if that is the one",
        ),
        (
            "{",
            "is not JSON: EOF while parsing an object at character 1",
        ),
        ("{} x", "is not JSON: trailing characters at character 4"),
        (
            "noise",
            "is not JSON: neither true, false, null nor text in quotes at character 2",
        ),
    ] {
        let error = object::<Sample>(text).unwrap_err();
        assert_eq!(error.to_string(), says, "{text}");
    }
    let _ = (Colour::Red, Colour::Green);
}

/// Regression: the error about a field with the empty name named no field.
#[test]
fn a_field_without_a_name_is_an_error_of_the_whole() {
    let refused = object::<Sample>(r#"{"":1}"#).unwrap_err();
    let refused = refused.into_invalid("sample");
    assert_eq!(refused.field(), "sample");
    assert!(
        refused.reason().starts_with("'' is not a field"),
        "{refused}"
    );
}
