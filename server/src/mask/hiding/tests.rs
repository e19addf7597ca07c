//! What is hidden of which kind, and which filters are refused.

use super::*;

fn row(kind: &str, pointers: &[&str], more: &str) -> NamedValue {
    let text =
        serde_json::json!({"kind": kind, "pointers": pointers, "set_at": "2030-01-01T00:00:00Z"});
    let text = text.to_string().replacen('{', &format!("{{{more}"), 1);
    NamedValue::new(crate::mask::row::key_of(kind), text, 1)
}

fn kind(text: &str) -> Kind {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn json(text: &str) -> Json {
    Json::parse("json", text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_masks_of_a_kind_add_up() {
    let hiding = Hiding::read(&[
        row("mail", &["/props/a"], ""),
        row("ma*", &["/props/b", "/data"], r#""errors":true,"#),
        row("other", &["/props"], ""),
    ]);
    let shown = |of: &str, document| {
        let shown = hiding.document(Some(&kind(of)), document, &json(r#"{"a":1,"b":2}"#));
        shown
            .as_str()
            .replace(crate::mask::placeholder::PLACEHOLDER, "#")
    };
    assert_eq!(shown("mail", Document::Props), r##"{"a":#,"b":#}"##);
    assert_eq!(shown("make", Document::Props), r##"{"a":1,"b":#}"##);
    assert_eq!(shown("make", Document::Data), "#");
    assert_eq!(shown("k", Document::Props), r#"{"a":1,"b":2}"#);
    assert!(hiding.of(Some(&kind("mail"))).errors && !hiding.of(Some(&kind("other"))).errors);
}

#[test]
fn a_mask_of_commands_is_for_the_lines_of_runs_too() {
    let line = kind(Kind::RUN_LINE);
    for pattern in ["exec", "ex*", "exec/run", "exec/*"] {
        let hiding = Hiding::read(&[row(pattern, &["/props/env/*"], r#""errors":true,"#)]);
        let shown = hiding.document(Some(&line), Document::Props, &json(r#"{"env":{"A":"s3"}}"#));
        assert!(!shown.as_str().contains("s3"), "{pattern}: {shown}");
        let mut filter = Filter::new().kind(line.clone());
        filter.error = Some("s3".to_owned());
        assert!(hiding.check_filter(&filter, &[]).is_err(), "{pattern}");
        assert!(
            hiding
                .check_filter(&filter, &["exec/run".to_owned()])
                .is_err(),
            "{pattern}"
        );
    }
    let of_lines = Hiding::read(&[row("exec/run", &["/props/env/*"], "")]);
    assert!(!of_lines.of(Some(&kind("exec"))).is_any());
    let of_others = Hiding::read(&[row("mail", &["/props"], "")]);
    assert!(!of_others.of(Some(&line)).is_any());
}

#[test]
fn a_row_that_cannot_be_read_hides_everything() {
    let hiding = Hiding::read(&[NamedValue::new("server/mask/x", "{", 1)]);
    let of = hiding.of(Some(&kind("k")));
    assert!(of.errors && of.log && of.hides(Document::Reply));
    let shown = hiding.document(Some(&kind("k")), Document::Props, &json("7"));
    assert_eq!(shown.as_str(), crate::mask::placeholder::PLACEHOLDER);
}

#[test]
fn the_props_of_runs_are_hidden_in_their_schedule() {
    let hiding = Hiding::read(&[row("exec", &["/props/env/*"], "")]);
    let schedule = kind(Kind::SCHEDULE);
    let run = r#"{"kind":"exec","props":{"env":{"A":"secret"},"command":"ls"}}"#;
    let props = json(&format!(r#"{{"run":{run},"cron":[]}}"#));
    let shown = hiding.document(Some(&schedule), Document::Props, &props);
    assert!(
        !shown.as_str().contains("secret") && shown.as_str().contains("ls"),
        "{shown}"
    );
    let data = json(&format!(r#"{{"counts":{{}},"spec":{{"run":{run}}}}}"#));
    let shown = hiding.document(Some(&schedule), Document::Data, &data);
    assert!(
        !shown.as_str().contains("secret") && shown.as_str().contains("ls"),
        "{shown}"
    );
    let unnamed = json(r#"{"run":{"props":"secret"}}"#);
    let shown = hiding.document(Some(&schedule), Document::Props, &unnamed);
    assert!(!shown.as_str().contains("secret"), "{shown}");
    let task = windlass::Task::new("s".parse().unwrap_or_else(|e| panic!("{e}")), schedule);
    assert!(hiding.would_show(&task, &kind("k")));
}

#[test]
fn a_kind_that_hides_less_would_show_more() {
    let hiding = Hiding::read(&[
        row("a", &["/props/x"], ""),
        row("b", &["/props"], r#""log":true,"#),
    ]);
    let task =
        |of: &str| windlass::Task::new("t".parse().unwrap_or_else(|e| panic!("{e}")), kind(of));
    for (from, to, shows) in [
        ("a", "b", false),
        ("b", "a", true),
        ("a", "k", true),
        ("k", "a", false),
        ("a", "a", false),
    ] {
        assert_eq!(
            hiding.would_show(&task(from), &kind(to)),
            shows,
            "{from} {to}"
        );
    }
}

#[test]
fn a_filter_on_what_is_masked_is_refused() {
    let hiding = Hiding::read(&[
        row("mail", &["/props/to"], r#""errors":true,"#),
        row("box/*", &["/props/*/n"], ""),
    ]);
    let refused = |set: &dyn Fn(&mut Filter), kinds: &[&str]| {
        let mut filter = Filter::default();
        set(&mut filter);
        let scope: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let refused = hiding.check_filter(&filter, &scope);
        refused
            .err()
            .map(|problem| String::from_utf8(problem.json()).unwrap_or_default())
    };
    let names = |set: &dyn Fn(&mut Filter), kinds: &[&str], field: &str| {
        let said = refused(set, kinds).unwrap_or_default();
        assert!(said.contains(&format!("\"field\":\"{field}\"")), "{said}");
    };
    let props = |pointer: &str| vec![(pointer.to_owned(), json("1"))];
    names(&|f| f.error = Some("x".into()), &[], "error");
    names(&|f| f.fingerprint = Some("x".into()), &[], "fingerprint");
    names(&|f| f.limit_key = Some("x".into()), &[], "limit_key");
    names(&|f| f.props = props("/to/country"), &[], "props_at");
    names(&|f| f.props = props("/a"), &["box/in"], "props_at");
    names(
        &|f| {
            f.kind_prefix = Some("bo".into());
            f.props = props("/a");
        },
        &[],
        "props_at",
    );
    names(&|f| f.props = props("/run"), &["schedule"], "props_at");
    assert!(refused(&|f| f.kind = Some(kind("mail")), &[]).is_none());
    assert!(
        refused(
            &|f| {
                f.kind = Some(kind("k"));
                f.error = Some("x".into());
            },
            &[]
        )
        .is_none()
    );
    assert!(refused(&|f| f.error = Some("x".into()), &["box/*"]).is_none());
    assert!(
        refused(
            &|f| {
                f.kind = Some(kind("mail"));
                f.props = props("/from");
            },
            &[]
        )
        .is_none()
    );
}

#[test]
fn the_note_of_a_schedule_is_hidden_like_notes_of_commands_and_like_its_place_in_the_data() {
    let form = json(r#"{"note":"secret","spec":{"run":{"kind":"k"}}}"#);
    let data = json(r#"{"note":"secret","spec":{"run":{"kind":"k","props":null}}}"#);
    let schedule = kind(Kind::SCHEDULE);
    for (mask, is_hidden) in [
        (row("schedule", &[], r#""errors":true,"#), true),
        (row("schedule", &["/data"], ""), true),
        (row("schedule", &["/data/note"], ""), true),
        (row("schedule", &["/data/counts"], ""), false),
        (row("k", &["/data/note"], r#""errors":true,"#), false),
    ] {
        let hiding = Hiding::read(&[mask]);
        for shown in [
            hiding.schedule(&form).unwrap_or_else(|e| panic!("{e}")),
            hiding.document(Some(&schedule), Document::Data, &data),
        ] {
            assert_ne!(
                shown.as_str().contains("secret"),
                is_hidden,
                "{hiding:?}: {shown}"
            );
        }
    }
}

#[test]
fn the_error_of_a_last_run_is_hidden_by_the_kind_of_the_runs() {
    let form = json(r#"{"spec":{"run":{"kind":"k"}},"last_run":{"error":"secret"}}"#);
    for (of, is_hidden) in [("k", true), ("schedule", true), ("other", false)] {
        let hiding = Hiding::read(&[row(of, &[], r#""errors":true,"#)]);
        let shown = hiding.schedule(&form).unwrap_or_else(|e| panic!("{e}"));
        assert_ne!(
            shown.as_str().contains("secret"),
            is_hidden,
            "{of}: {shown}"
        );
    }
}

/// Regression: a mask of the props of schedules hid them in the answers for tasks, and showed them in those for schedules.
#[test]
fn the_spec_of_a_schedule_is_hidden_like_its_props() {
    let spec = r#"{"description":"secret","cron":["@daily"],"run":{"kind":"k"}}"#;
    let spec = json(&format!(r#"{{"id":"s","spec":{spec}}}"#));
    let schedule = kind(Kind::SCHEDULE);
    for (mask, hides_text, hides_times) in [
        (row("schedule", &["/props/description"], ""), true, false),
        (row("schedule", &["/props"], ""), true, true),
        (row("*", &["/*/description"], ""), true, false),
        (row("k", &["/props"], ""), false, false),
    ] {
        let hiding = Hiding::read(&[mask]);
        for shown in [
            hiding.schedule(&spec).unwrap_or_else(|e| panic!("{e}")),
            hiding.document(Some(&schedule), Document::Data, &spec),
        ] {
            let has = |text: &str| shown.as_str().contains(text);
            let hides = (!has("secret"), !has("@daily"));
            assert_eq!(hides, (hides_text, hides_times), "{hiding:?}: {shown}");
            assert!(has(r#""id":"s""#), "{shown}");
        }
    }
}
