//! Two texts of one JSON value are the same, however they are written; texts of two values are not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use proptest::{collection::vec, prelude::*};
use windlass_statemachine::Json;

/// A value whose numbers are their text. Names may come twice.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Word(String),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

fn value() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        "true|false|null",
        "-?(0|[1-9][0-9]{0,30})",
        "-?[1-9]\\.[0-9]{1,20}([eE][+-]?[0-9]{1,3})?",
    ];
    let text = prop_oneof!["[a-c]{0,2}", "\\PC{0,6}", "[\u{0}-\u{7f}]{0,4}"];
    let leaf = prop_oneof![
        word.prop_map(Value::Word),
        text.clone().prop_map(Value::Text)
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::List),
            vec((text.clone(), inner), 0..5).prop_map(Value::Object),
        ]
    })
}

/// Takes one decision after the other from a list, for ever.
struct Dice<'a>(&'a [u8], usize);

impl Dice<'_> {
    fn roll(&mut self) -> u8 {
        self.1 += 1;
        self.0[self.1 % self.0.len()]
    }
}

fn space(dice: &mut Dice<'_>, out: &mut String) {
    for _ in 0..dice.roll() % 3 {
        out.push([' ', '\n', '\t', '\r'][usize::from(dice.roll() % 4)]);
    }
}

fn write_text(text: &str, dice: &mut Dice<'_>, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        let must = c < ' ' || c == '"' || c == '\\';
        if must || dice.roll().is_multiple_of(4) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                match dice.roll() % 2 {
                    0 => *out += &format!("\\u{unit:04x}"),
                    _ => *out += &format!("\\u{unit:04X}"),
                }
            }
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

/// Writes a value in one of many ways: with spaces, escapes, and its members in another order (but
/// those of one name among themselves).
fn write(value: &Value, dice: &mut Dice<'_>, out: &mut String) {
    space(dice, out);
    match value {
        Value::Word(word) => *out += word,
        Value::Text(text) => write_text(text, dice, out),
        Value::List(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                write(item, dice, out);
            }
            space(dice, out);
            out.push(']');
        }
        Value::Object(members) => {
            let mut left: Vec<_> = members.iter().collect();
            out.push('{');
            while !left.is_empty() {
                let name = left[usize::from(dice.roll()) % left.len()].0.clone();
                let first = left.iter().position(|(other, _)| *other == name).unwrap();
                let (_, member) = left.remove(first);
                space(dice, out);
                write_text(&name, dice, out);
                space(dice, out);
                out.push(':');
                write(member, dice, out);
                if !left.is_empty() {
                    out.push(',');
                }
            }
            space(dice, out);
            out.push('}');
        }
    }
    space(dice, out);
}

fn text(value: &Value, dice: &[u8]) -> Json {
    let mut out = String::new();
    write(value, &mut Dice(dice, 0), &mut out);
    Json::parse("props", &out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// The members sorted by their names, those of one name in their order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(sorted).collect()),
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members)
        }
        other => other.clone(),
    }
}

/// The parts of a value that have no parts.
fn leaves(value: &mut Value) -> Vec<&mut Value> {
    if matches!(value, Value::Word(_) | Value::Text(_))
        || *value == Value::List(vec![])
        || *value == Value::Object(vec![])
    {
        return vec![value];
    }
    match value {
        Value::List(items) => items.iter_mut().flat_map(leaves).collect(),
        Value::Object(members) => members.iter_mut().flat_map(|(_, v)| leaves(v)).collect(),
        Value::Word(_) | Value::Text(_) => vec![],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_to_write_a_value_is_the_same(
        value in value(), one in vec(any::<u8>(), 1..60), other in vec(any::<u8>(), 1..60),
    ) {
        let (one, other) = (text(&value, &one), text(&value, &other));
        prop_assert!(one.same_value(&other), "{one} {other}");
        prop_assert!(other.same_value(&one));
    }

    #[test]
    fn two_values_are_the_same_only_if_they_are_equal(
        a in value(), b in value(), dice in vec(any::<u8>(), 1..60),
    ) {
        let equal = sorted(&a) == sorted(&b);
        let (a, b) = (text(&a, &dice), text(&b, &dice));
        prop_assert_eq!(a.same_value(&b), equal, "{} {}", a, b);
    }

    /// One change anywhere in a value is seen.
    #[test]
    fn a_changed_part_makes_another_value(
        value in value(), at in any::<prop::sample::Index>(), dice in vec(any::<u8>(), 1..60),
    ) {
        let mut changed = value.clone();
        let mut leaves = leaves(&mut changed);
        let leaf = at.index(leaves.len());
        *leaves[leaf] = Value::Text("no other value has this text".into());
        let (value, changed) = (text(&value, &dice), text(&changed, &dice));
        prop_assert!(!value.same_value(&changed), "{value} {changed}");
    }
}
