//! `schedule update`: how a field is removed, and what stays.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::env::Env;

/// The name of each field that `--clear` takes, and its place in the spec.
const FIELDS: [(&str, &str); 30] = [
    ("cron", "/cron"),
    ("every", "/every"),
    ("at", "/at"),
    ("except", "/except"),
    ("except-cron", "/except/cron"),
    ("except-at", "/except/at"),
    ("except-date", "/except/dates"),
    ("start", "/start"),
    ("end", "/end"),
    ("count", "/count"),
    ("zone", "/zone"),
    ("offset", "/offset"),
    ("jitter", "/jitter"),
    ("start-within", "/start_within"),
    ("end-within", "/end_within"),
    ("gap", "/gap"),
    ("fold", "/fold"),
    ("overlap", "/overlap"),
    ("missed", "/missed/run"),
    ("within", "/missed/within"),
    ("pause-on-failure", "/pause_on_failure"),
    ("description", "/description"),
    ("props", "/run/props"),
    ("priority", "/run/priority"),
    ("label", "/run/labels"),
    ("limits", "/run/limits"),
    ("retry", "/run/retry"),
    ("cwd", "/run/props/cwd"),
    ("env-file", "/run/props/env_file"),
    ("env-from", "/run/props/env_from_file"),
];

/// A schedule with a value in each of the fields that is not the default.
fn full() -> Value {
    json!({
        "run": {
            "kind": "exec",
            "props": {
                "command": "true",
                "cwd": "/srv",
                "env_file": "/srv/a.env",
                "env_from_file": {"A": "/srv/a"},
            },
            "priority": 3,
            "labels": {"team": "billing"},
            "retry": {"policy": "never"},
            "limits": [{"key": "api", "at_once": 2}],
        },
        "cron": ["@daily"],
        "every": [{"interval": "1h"}],
        "at": ["2090-01-01T00:00:00Z"],
        "except": {"cron": ["@yearly"], "at": ["2090-01-02T00:00:00Z"], "dates": ["2090-01-03"]},
        "start": "2029-01-01T00:00:00Z",
        "end": "2091-01-01T00:00:00Z",
        "count": 7,
        "zone": "Europe/Berlin",
        "offset": "1m",
        "jitter": "2m",
        "start_within": "10m",
        "end_within": "20m",
        "gap": "skip",
        "fold": "both",
        "overlap": "kill",
        "missed": {"run": "all", "within": "2h"},
        "pause_on_failure": true,
        "description": "copies the orders",
    })
}

/// The spec that is stored, without the moment from which it counts.
fn stored(env: &Env) -> Value {
    let mut spec = env.json(&["schedule", "get", "s"])["spec"].clone();
    spec.as_object_mut().unwrap().remove("since");
    spec
}

#[test]
fn each_field_is_removed_by_clear_and_by_null() {
    let env = Env::new();
    let full = full().to_string();
    env.run(&["schedule", "create", "s", "--spec", &full]).ok();
    let update = |words: &[&str]| env.run(&[&["schedule", "update", "s"], words].concat());
    let names: BTreeSet<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    let ran = update(&["--clear", "nonsense"]).code(2);
    let (_, known) = ran.err.split_once("[possible values: ").unwrap();
    let (known, _) = known.split_once(']').unwrap();
    assert_eq!(
        names,
        known.split(", ").collect(),
        "a new field belongs here"
    );
    for (name, pointer) in FIELDS {
        update(&["--spec", &full]).ok();
        let mut expected = stored(&env);
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let inner = expected.pointer_mut(parent).unwrap().as_object_mut();
        assert!(inner.unwrap().remove(field).is_some(), "{name}");
        // Fields with their defaults are not written; the policy of missed times is written
        // completely.
        match name {
            "missed" => expected["missed"]["run"] = json!("last"),
            "within" => expected["missed"]["within"] = json!("1h"),
            _ => {}
        }
        let given = match name {
            // An exec needs a command.
            "props" => &["--clear", "props", "--", "true"][..],
            _ => &["--clear", name],
        };
        if name == "props" {
            expected["run"]["props"] = json!({"command": "true", "args": []});
        }
        update(given).ok();
        assert_eq!(stored(&env), expected, "--clear {name}");
        if parent.is_empty() {
            update(&["--spec", &full]).ok();
            let null = json!({ field: null }).to_string();
            update(&["--spec", &null]).ok();
            assert_eq!(stored(&env), expected, "{null}");
        }
    }
    // Several at once, and one that is set at the same time.
    let words = ["--clear", "at,every", "--clear", "end", "--every", "5m"];
    update(&words).ok();
    let left = stored(&env);
    assert!(left["at"].is_null() && left["end"].is_null(), "{left}");
    assert_eq!(left["every"], json!([{"interval": "5m"}]));
}

#[test]
fn times_that_an_update_keeps_are_noted() {
    let env = Env::new();
    let create = ["schedule", "create", "s", "--every", "5m", "--", "true"];
    env.run(&create).ok();
    let says = "note: 's': its earlier times of --every stay: every 5m; --clear every removes them";
    let cron = ["--cron", "0 6 * * *"];
    for command in ["preview", "update"] {
        let ran = env.run(&[&["schedule", command, "s"], &cron[..]].concat());
        assert!(ran.err.contains(says), "{ran:?}");
        let ran = env.run(&["schedule", command, "s", "--zone", "Asia/Tokyo"]);
        assert!(!ran.err.contains("stay"), "{ran:?}");
    }
    let words = ["schedule", "update", "s", "--cron", "0 7 * * *"];
    let ran = env.run(&[&words[..], &["--clear", "every"]].concat()).ok();
    assert!(!ran.err.contains("stay"), "{ran:?}");
    assert_eq!(stored(&env)["every"], Value::Null);
    let ran = env.run(&["schedule", "preview", "--every", "1h", "--clear", "every"]);
    ran.code(2);
}

#[test]
fn a_preview_with_a_spec_of_standard_input_reads_it_once() {
    let env = Env::new();
    let create = ["schedule", "create", "s", "--every", "5m", "--", "true"];
    env.run(&create).ok();
    let words = ["schedule", "preview", "s", "-n", "1", "--spec", "-"];
    let ran = env
        .run_with(&words, r#"{"every":null,"cron":["0 6 * * *"]}"#)
        .ok();
    assert!(ran.out.contains("T06:00:00Z"), "{ran:?}");
}
