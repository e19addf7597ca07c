use serde_json::{Value, json};

use super::*;

/// A schedule with every field.
fn full() -> Value {
    json!({
        "run": {
            "kind": "report",
            "props": {"a": 1},
            "priority": 3,
            "labels": {"team": "billing"},
            "retry": {"policy": "never"},
            "limits": [{"key": "api", "at_once": 2}],
        },
        "cron": ["@daily"],
        "every": [{"interval": "1h", "anchor": "2030-01-01T00:00:00Z"}],
        "at": ["2030-01-01T00:00:00Z"],
        "except": {"cron": ["@hourly"], "at": ["2030-01-02T00:00:00Z"], "dates": ["2030-01-03"]},
        "start": "2029-01-01T00:00:00Z",
        "end": "2031-01-01T00:00:00Z",
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
        "description": "the first of the month",
        "since": "2029-01-01T00:00:00Z",
        "earlier": {"last": "2029-01-01T00:00:00Z", "counts": {"fired": 1}},
    })
}

/// Collects the pointers of the fields in an object and in the objects of the spec below it.
fn fields(value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, inner) in value.as_object().unwrap() {
        let pointer = format!("{at}/{name}");
        if ["/run", "/except", "/missed"].contains(&pointer.as_str()) {
            fields(inner, &pointer, found);
        }
        found.push(pointer);
    }
}

fn read(value: Value) -> Result<Schedule, Invalid> {
    Schedule::from_json(&value.into())
}

#[test]
fn a_field_that_is_null_is_one_that_is_left_out() {
    let full = full();
    // The error for an unknown field names all of them.
    let unknown = read(json!({"run": {"kind": "k"}, "xyz": 1})).unwrap_err();
    let (_, known) = unknown.reason().split_once("the fields are ").unwrap();
    let mut known: Vec<&str> = known.split(", ").collect();
    known.sort_unstable();
    let names: Vec<&String> = full.as_object().unwrap().keys().collect();
    assert_eq!(names, known, "a new field needs a value in `full`");
    let mut pointers = Vec::new();
    fields(&full, "", &mut pointers);
    pointers.push("/every/0/anchor".to_owned());
    for pointer in pointers {
        let (mut null, mut without) = (full.clone(), full.clone());
        *null.pointer_mut(&pointer).unwrap() = Value::Null;
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = without.pointer_mut(parent).unwrap().as_object_mut();
        parent.unwrap().remove(name);
        match (read(null), read(without)) {
            (Ok(null), Ok(without)) => assert_eq!(null, without, "{pointer}"),
            (null, without) => {
                assert!(["/run", "/run/kind"].contains(&pointer.as_str()));
                assert!(null.is_err() && without.is_err(), "{pointer}: {null:?}");
            }
        }
    }
    assert!(read(json!({"run": {"kind": "k"}, "every": [{"interval": null}]})).is_err());
}

#[test]
fn a_time_that_is_none_names_its_place_and_the_last_time() {
    for field in ["start", "end"] {
        let spec = json!({"run": {"kind": "k"}, field: "9999-12-31T23:59:59Z"});
        let refused = read(spec).unwrap_err();
        let says =
            format!("{field}: '9999-12-31T23:59:59Z' is not a time up to 9999-12-30T22:00:00Z");
        assert!(refused.to_string().contains(&says), "{refused}");
    }
    let end = "9999-12-31T23:59:59Z";
    for (spec, place) in [
        (json!({"at": ["2030-01-01T00:00:00Z", end]}), "at[1]: '"),
        (json!({"except": {"at": [end]}}), "except.at[0]: '"),
        (
            json!({"every": [{"interval": "1h", "anchor": end}]}),
            "every[0].anchor: '",
        ),
    ] {
        let mut spec = spec;
        spec["run"] = json!({"kind": "k"});
        let refused = read(spec).unwrap_err();
        assert!(refused.to_string().contains(place), "{refused}");
    }
}

#[test]
fn a_run_has_the_fields_of_a_task_but_those_of_one_run() {
    let spec = |field: &str, value: Value| {
        let mut spec = json!({"run": {"kind": "k"}, "cron": ["@daily"]});
        spec["run"][field] = value;
        read(spec).unwrap()
    };
    let now = Timestamp::UNIX_EPOCH;
    for (field, value) in [
        ("id", json!("a")),
        ("start_at", json!("2030-01-01T00:00:00Z")),
        ("after", json!(["a"])),
        ("start_by", json!("2030-01-01T00:00:00Z")),
        ("end_by", json!("2030-01-01T00:00:00Z")),
        ("unique", json!({"key": "q", "within": "1h"})),
    ] {
        let refused = spec(field, value).check("s", now).unwrap_err();
        assert_eq!(refused.field(), field);
    }
    for (text, policy) in [
        (json!("never"), json!({"policy": "never"})),
        (json!({"policy": "never"}), json!({"policy": "never"})),
    ] {
        let read = spec("retry", text);
        read.check("s", now).unwrap();
        assert_eq!(json!(read)["run"]["retry"], policy);
    }
    let default = spec("priority", json!(0));
    assert_eq!(default, spec("priority", Value::Null));
    assert_eq!(json!(default)["run"], json!({"kind": "k"}));
}
