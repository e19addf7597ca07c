//! The last possible time, in each option and field with a time.

use std::collections::BTreeSet;

use crate::env::Env;

/// The last time, in whole seconds.
const LAST: &str = "9999-12-30T22:00:00Z";
/// A common time for "never", later than the last one.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// Each option with a time, in a command that works with the last one. `T` is the time.
const OPTIONS: [(&str, &str); 22] = [
    ("submit k --start-at T", "--start-at"),
    ("submit k --start-by T", "--start-by"),
    ("submit k --end-by T", "--end-by"),
    ("submit k --after a --after-deadline T", "--after-deadline"),
    ("sleep a --until T", "--until"),
    ("schedule create at --at T -- true", "--at"),
    (
        "schedule create anchor --every 1h --anchor T -- true",
        "--anchor",
    ),
    ("schedule create end --every 1h --end T -- true", "--end"),
    (
        "schedule create start --every 1s --start T -- true",
        "--start",
    ),
    (
        "schedule create except --every 1h --except-at T -- true",
        "--except-at",
    ),
    ("schedule update s --end T", "--end"),
    ("schedule preview s --end T", "--end"),
    ("schedule preview --every 1s --start T", "--start"),
    ("schedule backfill s --from T", "--from"),
    ("schedule backfill s --from T --to T", "--to"),
    ("schedule skip s T", "[TIME]"),
    ("schedule trigger s --for T", "--for"),
    ("list --submitted-from T", "--submitted-from"),
    ("list --submitted-until T", "--submitted-until"),
    ("list --ended-from T", "--ended-from"),
    ("list --ended-until T", "--ended-until"),
    ("failures --since T", "--since"),
];

fn words(text: &str, time: &str) -> Vec<String> {
    let words = text.split(' ');
    words
        .map(|word| if word == "T" { time } else { word }.to_owned())
        .collect()
}

#[test]
fn every_option_takes_the_last_time_and_names_it_for_a_later_one() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a", "--in", "1h"]).ok();
    env.run(&["schedule", "create", "s", "--every", "1h", "--", "true"])
        .ok();
    let pages = env.run(&["reference"]).ok().out;
    let names = pages.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("| `")?.split_once('`')?;
        match name.split_once(' ') {
            Some((option, value)) => value.starts_with("TIME").then_some(option),
            None => (name == "[TIME]").then_some(name),
        }
    });
    let names: BTreeSet<&str> = names.collect();
    let tested: BTreeSet<&str> = OPTIONS.iter().map(|(_, option)| *option).collect();
    assert_eq!(names, tested, "a new option with a time belongs here");
    for (text, option) in OPTIONS {
        let given = words(text, NEVER);
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let says = format!("'{NEVER}' is not a time up to {LAST}");
        env.run(&given).fails(2, &[&says]);
        let given = words(text, LAST);
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let ran = env.run(&given);
        assert!(!ran.err.contains("panicked"), "{ran:?}");
        // Nothing has happened since a future time, which cannot be backfilled either, and the schedule does not have this
        // one.
        let is_no = option.ends_with("from") || ["--since", "--to", "[TIME]"].contains(&option);
        assert!(ran.code == 0 || is_no, "{text}: {ran:?}");
    }
    for command in [
        &["list"][..],
        &["schedule", "list"],
        &["schedule", "get", "start"],
    ] {
        env.run(command).ok();
        env.run(&[command, &["-o", "json"]].concat()).ok();
    }
}

#[test]
fn every_field_names_the_last_time_for_a_later_one() {
    let env = Env::new();
    let says = format!("'{NEVER}' is not a time up to {LAST}");
    for field in ["start_at", "start_by", "end_by", "after_deadline"] {
        let line = format!(r#"{{"kind":"k","after":["a"],"{field}":"{NEVER}"}}"#);
        env.run_with(&["submit", "--lines", "-"], &line)
            .fails(2, &[field, &says]);
        let line = format!(r#"{{"op":"submit","kind":"k","after":["a"],"{field}":"{NEVER}"}}"#);
        env.run_with(&["apply", "-"], &line)
            .fails(2, &[field, &says]);
    }
    for (line, field) in [
        (
            r#"{"op":"send","task":"a","command":"sleep","until":"T"}"#,
            "until",
        ),
        (r#"{"op":"reschedule","task":"a","due":"T"}"#, "due"),
    ] {
        let line = line.replace("\"T\"", &format!("\"{NEVER}\""));
        env.run_with(&["apply", "-"], &line)
            .fails(2, &[field, &says]);
    }
    for (spec, place) in [
        (r#""start":"T""#, "start: "),
        (r#""end":"T""#, "end: "),
        (r#""at":["T"]"#, "at[0]: "),
        (r#""except":{"at":["T"]}"#, "except.at[0]: "),
        (
            r#""every":[{"interval":"1h","anchor":"T"}]"#,
            "every[0].anchor: ",
        ),
    ] {
        let spec = format!("{{{}}}", spec.replace("\"T\"", &format!("\"{NEVER}\"")));
        let words = ["schedule", "create", "s", "--spec", &spec, "--", "true"];
        env.run(&words).fails(2, &[place, &says]);
    }
    // A duration that ends later.
    for words in [
        &["submit", "k", "--in", "4000000d"][..],
        &["submit", "k", "--start-by", "4000000d"],
        &["sleep", "a", "--for", "4000000d"],
    ] {
        env.run(words)
            .fails(2, &["ends beyond 9999-12-30T22:00:00Z"]);
    }
}
