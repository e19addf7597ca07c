//! What a form shows and sends.

use serde_json::json;

use super::*;

fn sent(pairs: &[(&str, &str)]) -> Fields {
    let pairs = pairs.iter();
    Fields(
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    )
}

fn schema(json: &Value) -> Schema {
    Schema::read(&json.to_string()).unwrap()
}

fn read(json: &Value, pairs: &[(&str, &str)]) -> Result<Option<String>, String> {
    let read = Form::of(Some(&schema(json))).read(&sent(pairs));
    read.map_err(|problem| problem.detail().to_owned())
}

#[test]
fn an_object_has_a_field_for_each_property() {
    let schema = json!({"type": "object", "required": ["approved", "count"], "properties": {
        "approved": {"type": "boolean", "title": "Deploy it?"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "reason": {"type": "string", "description": "For the log"},
        "mode": {"enum": ["fast", 2, null]},
        "more": {"type": "array"},
    }});
    let shown = Form::of(Some(&self::schema(&schema))).show().into_string();
    for part in [
        "<bdi>Deploy it?</bdi>",
        "<option value=\"true\">yes</option><option value=\"false\">no</option>",
        "type=\"number\" name=\"p.count\" required value=\"3\" autocomplete=\"off\" step=\"1\" min=\"1\" max=\"9\"",
        "<textarea name=\"p.reason\"",
        "<bdi>For the log</bdi>",
        "<option value=\"null\">null</option>",
        "<bdi>more</bdi> (JSON)",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let all = [
        ("p.approved", "false"),
        ("p.count", "7"),
        ("p.reason", " two\r\nlines "),
        ("p.mode", "2"),
        ("p.more", "[1.00]"),
    ];
    let payload = read(&schema, &all).unwrap().unwrap();
    let expected = r#"{"approved":false,"count":7,"mode":2,"more":[1.00],"reason":" two\nlines "}"#;
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(value(&payload), value(expected));
    assert!(payload.contains("[1.00]"), "every digit stays: {payload}");
    let least = [
        ("p.approved", "true"),
        ("p.count", "1"),
        ("p.reason", ""),
        ("p.mode", ""),
    ];
    assert_eq!(
        read(&schema, &least).unwrap().unwrap(),
        r#"{"approved":true,"count":1}"#
    );
}

#[test]
fn what_is_wrong_is_named() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "mode": {"enum": ["a"]},
        "more": {},
    }});
    for (pairs, says) in [
        (&[][..], "n: is empty"),
        (&[("p.n", "x")], "n: 'x' is not a number"),
        (&[("p.n", "1.5")], "n: 1.5 is not a whole number"),
        (&[("p.n", "0")], "n: is 0; give at least 1"),
        (&[("p.n", "10")], "n: is 10; give at most 9"),
        (
            &[("p.n", "1"), ("p.name", "x")],
            "name: has 1 characters; give at least 2",
        ),
        (
            &[("p.n", "1"), ("p.name", "xxxxx")],
            "name: has 5 characters; give at most 4",
        ),
        (
            &[("p.n", "1"), ("p.mode", "7")],
            "mode: is none of the choices",
        ),
        (&[("p.n", "1"), ("p.more", "{")], "more: is not JSON"),
    ] {
        let error = read(&schema, pairs).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn other_schemas_have_one_field() {
    for (schema, typed, payload) in [
        (json!({"type": "boolean"}), "true", "true"),
        (json!({"type": "number"}), "1.50", "1.50"),
        (json!({"type": "string"}), "yes", "\"yes\""),
        (json!({"enum": ["a", "b"]}), "\"b\"", "\"b\""),
        (json!({"type": "array"}), "[1]", "[1]"),
        (json!({"type": "object"}), "{}", "{}"),
        (
            json!({"type": "object", "properties": {}, "required": ["a"]}),
            "{\"a\":1}",
            "{\"a\":1}",
        ),
        (json!({"$ref": "#/x"}), "1", "1"),
    ] {
        let read = read(&schema, &[("p.value", typed)]).unwrap();
        assert_eq!(read.as_deref(), Some(payload), "{schema}");
    }
    let none = Form::of(None);
    assert_eq!(none.read(&sent(&[])).ok().unwrap(), None);
    let text = none.read(&sent(&[("p.value", "yes please")]));
    assert_eq!(text.ok().unwrap().as_deref(), Some("\"yes please\""));
}

#[test]
fn the_fields_have_the_order_of_the_schema() {
    let text =
        r#"{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"boolean"},"b":{}}}"#;
    let schema = Schema::read(text).unwrap();
    let names: Vec<_> = Form::of(Some(&schema))
        .fields
        .iter()
        .map(Field::id)
        .collect();
    assert_eq!(names, ["p.b", "p.a"]);
}

/// Whatever a handler declares, a form comes of it.
#[test]
fn a_schema_that_makes_no_sense_is_a_field_for_json() {
    let many: Map<String, Value> = (0..=MOST).map(|n| (format!("f{n}"), json!({}))).collect();
    for schema in [
        json!(true),
        json!([]),
        json!({"type": 7}),
        json!({"type": "object", "properties": 7}),
        json!({"type": "object", "properties": many}),
        json!({"type": ["string", "integer"]}),
        json!({"$ref": "#"}),
        json!({"type": "object", "properties": {"a": true}, "required": ["b"]}),
    ] {
        let shown = Form::of(Some(&self::schema(&schema))).show().into_string();
        assert_eq!(shown.matches("(JSON)").count(), 1, "{schema}: {shown}");
    }
}

#[test]
fn hostile_texts_of_a_schema_are_texts() {
    let evil = "\"><script>alert(1)</script>\u{202e}";
    let schema = json!({"type": "object", "properties": {
        evil: {"type": "string", "title": evil, "description": evil, "default": evil},
        "b": {"enum": [evil], "title": evil},
    }});
    let shown = Form::of(Some(&self::schema(&schema))).show().into_string();
    assert!(
        !shown.contains("<script") && shown.contains("&lt;script"),
        "{shown}"
    );
}

/// As pydantic writes optional fields and enumerations.
#[test]
fn references_and_choices_of_null_are_fields_of_their_type() {
    let schema = json!({"type": "object", "required": ["name", "ring"], "$defs": {"Ring": {"enum": ["one", "all"], "title": "Ring"}},
        "properties": {
            "name": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Name"},
            "ring": {"$ref": "#/$defs/Ring"},
            "count": {"type": ["integer", "null"]},
            "loop": {"$ref": "#/$defs/None"},
    }});
    let shown = Form::of(Some(&self::schema(&schema))).show().into_string();
    assert_eq!(shown.matches("(JSON)").count(), 1, "{shown}");
    let sent = [("p.name", ""), ("p.ring", "\"all\""), ("p.count", "3")];
    assert_eq!(
        read(&schema, &sent).unwrap().unwrap(),
        r#"{"count":3,"name":null,"ring":"all"}"#
    );
    let sent = [("p.name", "ann"), ("p.ring", "\"one\"")];
    assert_eq!(
        read(&schema, &sent).unwrap().unwrap(),
        r#"{"name":"ann","ring":"one"}"#
    );
}

#[test]
fn a_text_is_sent_as_it_was_typed() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 3}}});
    for (typed, payload) in [
        ("   ", "{\"a\":\"   \"}"),
        ("a\r\nb", "{\"a\":\"a\\nb\"}"),
        ("", "{\"a\":\"\"}"),
    ] {
        assert_eq!(
            read(&schema, &[("p.a", typed)]).unwrap().unwrap(),
            payload,
            "{typed:?}"
        );
    }
}

/// A choice was shown, and sent, with the digits that a floating-point number keeps.
#[test]
fn a_schema_with_a_number_that_would_lose_digits_is_a_field_for_json() {
    for text in [
        r#"{"enum":[1,12345678901234567890123]}"#,
        r#"{"enum":[0.1234567890123456789]}"#,
        r#"{"type":"integer","default":-9223372036854775809}"#,
        r#"{"type":"object","properties":{"a":{"const":1.00000000000000000001e5}}}"#,
    ] {
        assert!(Schema::read(text).is_none(), "{text}");
    }
    for text in [
        r#"{"enum":[9223372036854775807,-9007199254740993,0.1,1e300,0.000000000000000000001]}"#,
        r#"{"enum":["1234567890123456789012","\"12345678901234567890\\","é123456789012345678901"]}"#,
    ] {
        assert!(Schema::read(text).is_some(), "{text}");
    }
}

#[test]
fn lines_of_a_text_without_a_schema_end_as_those_of_a_text_with_one() {
    let sent = sent(&[("p.value", "a\r\nb")]);
    let read = Form::of(None).read(&sent).unwrap().unwrap();
    assert_eq!(read, r#""a\nb""#);
}
