//! Specs of schedules, with cron expressions and intervals.

use std::str;

use serde_json::json;
use windlass::{Json, jiff::Timestamp, schedule::Schedule};

use crate::{names_a_field, within_bounds};

/// How many times are calculated.
const TIMES: usize = 5;

/// Reads a spec as JSON. A text that does not begin like JSON is a list of cron expressions, one a line; its first line is
/// a time zone if it begins with `zone `, and a line with `every ` is an interval.
///
/// Returns whether the schedule is accepted.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    let spec = match text.starts_with('{') {
        true => Json::parse("schedule", text),
        false => Json::new("schedule", &spec_of(text)),
    };
    spec.is_ok_and(|spec| within_bounds(|| read(&spec)))
}

fn spec_of(text: &str) -> serde_json::Value {
    let mut spec = json!({"run": {"kind": "k"}});
    let mut crons = Vec::new();
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("zone", zone)) => spec["zone"] = zone.into(),
            Some(("every", interval)) => spec["every"] = json!([{ "interval": interval }]),
            _ => crons.push(line),
        }
    }
    spec["cron"] = crons.into();
    spec
}

fn read(spec: &Json) -> bool {
    let now: Timestamp = "2028-02-28T23:30:00Z".parse().unwrap();
    let spec = match Schedule::from_json(spec) {
        Ok(spec) => spec,
        Err(refused) => {
            names_a_field(&refused);
            return false;
        }
    };
    let checked = spec.check("s", now);
    let times = spec.preview("s", now, TIMES);
    let times = match (&checked, times) {
        (Ok(()), Err(refused)) if refused.field() != "limit" => {
            panic!("a checked schedule has no times: {refused}")
        }
        (_, times) => times,
    };
    for refused in checked
        .as_ref()
        .err()
        .into_iter()
        .chain(times.as_ref().err())
    {
        names_a_field(refused);
    }
    let written = serde_json::to_string(&spec).unwrap();
    let again = Schedule::from_json(&Json::parse("schedule", &written).unwrap());
    let again = again.unwrap_or_else(|refused| panic!("{written}: {refused}"));
    assert_eq!(serde_json::to_string(&again).unwrap(), written);
    assert_eq!(again.check("s", now), checked, "{written}");
    let Ok(times) = times else {
        return false;
    };
    assert_eq!(
        again.preview("s", now, TIMES).as_ref(),
        Ok(&times),
        "{written}"
    );
    assert!(times.len() <= TIMES);
    assert!(
        times
            .iter()
            .all(|time| time.nominal > now && time.due >= time.nominal),
        "{written}"
    );
    assert!(
        times
            .windows(2)
            .all(|pair| pair[0].nominal < pair[1].nominal),
        "{written}"
    );
    checked.is_ok()
}
