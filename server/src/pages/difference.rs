//! How data has changed: the places that differ between two JSON documents.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::value::RawValue;

use super::{frame::Page, record::Record, text::cut};

/// The most places that are shown of one change, and how deep a document is compared.
const PLACES: usize = 12;
const DEPTH: usize = 4;
/// The most characters of a value.
const VALUE: usize = 60;

/// A place that differs, with what is there before and after.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    path: String,
    before: Option<&'a str>,
    after: Option<&'a str>,
}

/// Returns the members of an object, as they are written.
fn members(json: &str) -> Option<BTreeMap<String, &RawValue>> {
    json.starts_with('{')
        .then(|| serde_json::from_str(json).ok())?
}

/// Adds the places at or below `path` that differ.
fn compare<'a>(
    path: String,
    (before, after): (Option<&'a str>, Option<&'a str>),
    depth: usize,
    to: &mut Vec<Place<'a>>,
) {
    if before == after {
        return;
    }
    let objects = before.and_then(members).zip(after.and_then(members));
    let Some((old, new)) = objects.filter(|_| depth > 0) else {
        to.push(Place {
            path,
            before,
            after,
        });
        return;
    };
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        let both = (
            old.get(name).map(|json| json.get()),
            new.get(name).map(|json| json.get()),
        );
        let path = match path.is_empty() {
            true => name.clone(),
            false => format!("{path}.{name}"),
        };
        compare(path, both, depth - 1, to);
    }
}

/// A document: its bytes, unless a mask hides them, and its text if it is known.
type Known<'a> = (Option<u64>, Option<&'a RawValue>);

/// Shows the last changes of the data of a task, the newest first.
pub(super) fn show(page: &Page, task: &Record) -> Markup {
    let kept = &task.earlier_data;
    let is_masked = kept.iter().any(|earlier| earlier.bytes.is_none());
    let now = || {
        let bytes = task.data.as_ref().map_or(0, |json| json.get().len() as u64);
        (Some(bytes).filter(|_| !is_masked), task.data.as_deref())
    };
    let after = |at: usize| match kept.get(at + 1) {
        Some(next) => (next.bytes, next.data.as_deref()),
        None => now(),
    };
    html! {
        h3 { "How it has changed" }
        table.rows {
            thead { tr { th { "When" } th.w { "Change" } } }
            tbody { @for (at, earlier) in kept.iter().enumerate().rev() {
                tr data-key=(earlier.until) {
                    td { (page.moment(earlier.until)) }
                    td.w { (change((earlier.bytes, earlier.data.as_deref()), after(at))) }
                }
            } }
        }
    }
}

/// Shows one change.
fn change(before: Known<'_>, after: Known<'_>) -> Markup {
    let is_known = |(bytes, json): Known<'_>| bytes == Some(0) || json.is_some();
    if !is_known(before) || !is_known(after) {
        return match (before.0, after.0) {
            (Some(old), Some(new)) => html! {
                (old) " bytes → " (new) " bytes " span.dim { "(earlier data is kept up to 128 bytes)" }
            },
            _ => html! { span.dim { "A mask hides what has changed" } },
        };
    }
    let mut places = Vec::new();
    let both = (before.1.map(RawValue::get), after.1.map(RawValue::get));
    compare(String::new(), both, DEPTH, &mut places);
    let is_masked = before.0.is_none() || after.0.is_none();
    html! {
        @if places.is_empty() {
            span.dim { @if is_masked { "A mask hides what has changed" } @else { "The same values, written in another way" } }
        }
        @for place in places.iter().take(PLACES) {
            p { @if !place.path.is_empty() { bdi { b { (cut(&place.path, VALUE)) } } " " }
                (value(place.before)) " → " (value(place.after)) }
        }
        @if places.len() > PLACES { p.dim { "and " (places.len() - PLACES) " more" } }
    }
}

fn value(json: Option<&str>) -> Markup {
    html! {
        @match json {
            Some(json) => code { bdi { (cut(json, VALUE)) } },
            None => span.dim { "none" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(before: &str, after: &str) -> Vec<String> {
        let mut found = Vec::new();
        compare(
            String::new(),
            (Some(before), Some(after)),
            DEPTH,
            &mut found,
        );
        let text = |json: Option<&str>| json.unwrap_or("-").to_owned();
        let line = |p: &Place<'_>| format!("{}: {} {}", p.path, text(p.before), text(p.after));
        found.iter().map(line).collect()
    }

    #[test]
    fn each_place_that_differs_is_named_with_every_digit() {
        assert_eq!(
            places(
                r#"{"page":1,"same":[1],"gone":true,"in":{"a":1,"b":2}}"#,
                r#"{"page":9007199254740993.0,"same":[1],"new":"x","in":{"a":1,"b":3}}"#
            ),
            [
                "gone: true -",
                "in.b: 2 3",
                "page: 1 9007199254740993.0",
                "new: - \"x\""
            ]
        );
        assert_eq!(places("1", "2"), [": 1 2"]);
        assert_eq!(places("[1,2]", "[1,3]"), [": [1,2] [1,3]"]);
        assert_eq!(places("{\"a\":1}", "7"), [": {\"a\":1} 7"]);
        assert!(places("{\"a\":1}", "{\"a\":1}").is_empty());
        let deep = |n: &str| format!("{{\"a\":{{\"b\":{{\"c\":{{\"d\":{{\"e\":{n}}}}}}}}}}}");
        assert_eq!(
            places(&deep("1"), &deep("2")),
            ["a.b.c.d: {\"e\":1} {\"e\":2}"]
        );
    }
}
