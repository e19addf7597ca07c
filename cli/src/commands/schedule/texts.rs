//! Times in words: those of a spec, and local ones.

use jiff::Zoned;
use serde_json::{Map, Value};

/// Returns a local time with its offset and the name of its zone.
pub(super) fn local(time: &Zoned) -> String {
    let zone = time.time_zone().iana_name().unwrap_or_default();
    format!("{} {zone}", time.strftime("%a %Y-%m-%d %H:%M:%S %:z"))
}

/// The fields that give times.
pub(super) const TIMES: [&str; 3] = ["cron", "every", "at"];

/// Returns the times that one of these fields gives, in short.
pub(super) fn time_texts(spec: &Map<String, Value>, field: &str) -> Vec<String> {
    let list = spec.get(field).and_then(Value::as_array);
    let text = |value: &Value| match value.get("interval") {
        Some(interval) => Some(format!("every {}", interval.as_str().unwrap_or("?"))),
        None => value.as_str().map(str::to_owned),
    };
    list.into_iter().flatten().filter_map(text).collect()
}
