//! [`Path`]: a place of a document, with `*` for every element and member.

use std::collections::BTreeMap;

use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use windlass::{Invalid, Json};

use super::placeholder::{PLACEHOLDER, placeholder};

/// The documents of a task whose values a mask can hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Document {
    Props,
    Data,
    Result,
    /// The payload of a signal.
    Payload,
    /// The reply to a signal.
    Reply,
    /// A schedule with its spec, of which is hidden what is hidden in its props, and the props of its runs.
    Spec,
}

impl Document {
    const ALL: [(&'static str, Self); 5] = [
        ("props", Self::Props),
        ("data", Self::Data),
        ("result", Self::Result),
        ("payload", Self::Payload),
        ("reply", Self::Reply),
    ];
}

/// A place that a mask hides, in one document or in all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// `None` for every document.
    document: Option<Document>,
    parts: Vec<String>,
}

impl Path {
    /// Reads a pointer: `/props/env/TOKEN`, `/props/args/*`, `/data`.
    pub(crate) fn read(pointer: &str) -> Result<Self, Invalid> {
        let wrong = |what: &str| {
            let what = format!(
                "'{pointer}' {what}; write it like /props/env/TOKEN, /props/args/* or /data, with props, data, result, \
                 payload, reply or * first"
            );
            Invalid::new("pointers", what)
        };
        let Some(rest) = pointer.strip_prefix('/') else {
            return Err(wrong("does not begin with '/'"));
        };
        let mut parts = rest.split('/').map(unescaped);
        let first = parts.next().unwrap_or_default();
        let named = Document::ALL.into_iter().find(|(name, _)| *name == first);
        let document = match named {
            Some((_, document)) => Some(document),
            None if first == "*" => None,
            None => return Err(wrong("begins with no document of a task")),
        };
        Ok(Self {
            document,
            parts: parts.collect(),
        })
    }

    /// Returns whether the place is in a document.
    pub(crate) fn is_in(&self, document: Document) -> bool {
        document != Document::Spec && self.document.is_none_or(|of| of == document)
    }

    pub(crate) fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Returns whether this path hides a part of the value at a pointer, or all of it.
    pub(crate) fn touches(&self, pointer: &str) -> bool {
        let pointed = pointer.strip_prefix('/');
        let pointed = pointed.into_iter().flat_map(|rest| rest.split('/'));
        let mut both = self.parts.iter().zip(pointed.map(unescaped));
        both.all(|(part, pointed)| part == "*" || *part == pointed)
    }

    /// Returns whether each place of another path is hidden by this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut both = self.parts.iter().zip(&other.parts);
        (self.document.is_none() || self.document == other.document)
            && self.parts.len() <= other.parts.len()
            && both.all(|(part, other)| part == "*" || part == other)
    }
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Returns a document without the values at these places. A document that cannot be read is hidden as a whole.
pub(crate) fn hidden(json: &Json, places: &[&[String]]) -> Json {
    replaced(json, places, &|_| PLACEHOLDER.to_owned())
}

/// Returns the document with this text at each place that has a text. An absent one stays so.
pub(crate) fn hidden_texts(json: &Json, places: &[&[String]], shown: &str) -> Json {
    replaced(json, places, &|text| match text.trim() {
        "null" => "null".to_owned(),
        _ => Value::from(shown).to_string(),
    })
}

/// What stands in place of a value.
type Instead<'a> = &'a dyn Fn(&str) -> String;

fn replaced(json: &Json, places: &[&[String]], instead: Instead<'_>) -> Json {
    if places.is_empty() {
        return json.clone();
    }
    let text = replaced_text(json.as_str(), places, instead);
    let text = text.unwrap_or_else(|| PLACEHOLDER.to_owned());
    Json::parse("masked", &text).unwrap_or_else(|_| placeholder())
}

fn replaced_text(text: &str, places: &[&[String]], instead: Instead<'_>) -> Option<String> {
    if places.iter().any(|parts| parts.is_empty()) {
        return Some(instead(text));
    }
    let below = |name: &str| -> Vec<&[String]> {
        let rest = places.iter().filter_map(|parts| {
            let (first, rest) = parts.split_first()?;
            (first == "*" || first == name).then_some(rest)
        });
        rest.collect()
    };
    let value = |name: &str, value: &RawValue| -> Option<Box<RawValue>> {
        let places = below(name);
        match places.is_empty() {
            true => Some(value.to_owned()),
            false => RawValue::from_string(replaced_text(value.get(), &places, instead)?).ok(),
        }
    };
    match text.trim_start().as_bytes().first()? {
        b'{' => {
            // Of several fields with one name, the last counts; the others are left out.
            let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).ok()?;
            let fields = fields
                .into_iter()
                .map(|(name, of)| Some((value(&name, &of)?, name)).map(|(of, name)| (name, of)));
            let fields: BTreeMap<String, Box<RawValue>> = fields.collect::<Option<_>>()?;
            Some(to_raw_value(&fields).ok()?.get().to_owned())
        }
        b'[' => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
            let items = items.iter().enumerate();
            let items: Vec<Box<RawValue>> = items
                .map(|(place, of)| value(&place.to_string(), of))
                .collect::<Option<_>>()?;
            Some(to_raw_value(&items).ok()?.get().to_owned())
        }
        // A mask names a place within this value, and the value has none.
        _ => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(pointer: &str) -> Path {
        Path::read(pointer).unwrap_or_else(|e| panic!("{e}"))
    }

    fn masked(json: &str, pointers: &[&str]) -> String {
        let paths: Vec<Path> = pointers.iter().map(|pointer| path(pointer)).collect();
        let places: Vec<&[String]> = paths.iter().map(Path::parts).collect();
        let json = Json::parse("json", json).unwrap_or_else(|e| panic!("{e}"));
        hidden(&json, &places).as_str().replace(PLACEHOLDER, "#")
    }

    #[test]
    fn the_named_places_are_hidden_and_nothing_else() {
        let json = r#"{"a":[1.50,{"b":2,"c":3}],"d":{"e":null,"x/y":4,"m~n":5},"n":12345678901234567890123}"#;
        for (pointers, expected) in [
            (
                &["/props/a/1/b"][..],
                r#"{"a":[1.50,{"b":#,"c":3}],"d":{"e":null,"x/y":4,"m~n":5},"n":12345678901234567890123}"#,
            ),
            (
                &["/props/a/*"],
                r#"{"a":[#,#],"d":{"e":null,"x/y":4,"m~n":5},"n":12345678901234567890123}"#,
            ),
            (
                &["/props/*/e", "/props/d/x~1y", "/props/d/m~0n"],
                r#"{"a":[1.50,{"b":2,"c":3}],"d":{"e":#,"m~n":#,"x/y":#},"n":12345678901234567890123}"#,
            ),
            (
                &["/props/a/*/b", "/props/n"],
                r#"{"a":[1.50,{"b":#,"c":3}],"d":{"e":null,"x/y":4,"m~n":5},"n":#}"#,
            ),
            (&["/props/nowhere", "/props/n/deep"], json),
            (&["/props"], "#"),
            (&["/*"], "#"),
            (&["/props/a", "/props"], "#"),
        ] {
            // Fields that were read come in the order of their names.
            let sorted = |text: &str| {
                let text = text.replace('#', r#""hidden""#);
                let json = Json::parse("json", &text);
                json.unwrap_or_else(|e| panic!("{e}")).canonical()
            };
            let got = masked(json, pointers);
            assert_eq!(sorted(&got), sorted(expected), "{pointers:?}");
        }
        assert!(masked(json, &["/props/d"]).contains("12345678901234567890123"));
        assert_eq!(
            masked(r#"{"a":"first","a":2}"#, &["/props/a"]),
            r##"{"a":#}"##
        );
        assert_eq!(masked("7", &["/props/a"]), "7");
    }

    /// A text that is JSON, and that cannot be read as an object, is hidden as a whole.
    #[test]
    fn a_text_is_hidden_as_a_text_and_an_absent_one_stays_absent() {
        let json = Json::parse("json", r#"{"a":{"error":"x","n":1.50},"b":null}"#).unwrap();
        let place = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
        let places = [place("a/error"), place("b"), place("c/error")];
        let places = places.each_ref().map(Vec::as_slice);
        assert_eq!(
            hidden_texts(&json, &places, "[masked]").as_str(),
            r#"{"a":{"error":"[masked]","n":1.50},"b":null}"#
        );
    }

    #[test]
    fn what_cannot_be_read_is_hidden() {
        assert_eq!(masked(r#"{"\ud800":1,"a":2}"#, &["/props/a"]), "#");
    }

    #[test]
    fn a_filter_touches_what_is_above_and_below() {
        for (mask, pointer, touches) in [
            ("/props/a/b", "/a/b", true),
            ("/props/a/b", "/a", true),
            ("/props/a/b", "", true),
            ("/props/a/b", "/a/b/c", true),
            ("/props/a/b", "/a/c", false),
            ("/props/a/*", "/a/7", true),
            ("/props/a~1b", "/a~1b", true),
            ("/props", "/x", true),
        ] {
            assert_eq!(path(mask).touches(pointer), touches, "{mask} {pointer}");
        }
    }

    #[test]
    fn a_path_covers_what_it_hides() {
        for (one, other, covers) in [
            ("/props/a", "/props/a/b", true),
            ("/props/a/b", "/props/a", false),
            ("/props/*", "/props/a", true),
            ("/props/a", "/props/*", false),
            ("/*/a", "/data/a", true),
            ("/props/a", "/*/a", false),
            ("/props", "/data", false),
        ] {
            assert_eq!(path(one).covers(&path(other)), covers, "{one} {other}");
        }
    }

    #[test]
    fn a_pointer_names_its_document() {
        for wrong in ["", "props", "/", "/env", "/payload2/x"] {
            let error = Path::read(wrong).unwrap_err();
            assert_eq!(error.field(), "pointers", "{wrong}");
        }
        assert!(path("/*/x").is_in(Document::Reply));
        assert!(!path("/payload/x").is_in(Document::Reply));
    }
}
