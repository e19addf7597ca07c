//! The log in text: one line for each event.

use crate::env::Env;

/// Regression: a line break in a path wrote a separate line into the log, which could look like any
/// other line.
#[test]
fn no_value_writes_a_line_of_its_own_into_the_log() {
    let env = Env::new();
    let forged = "x\n2030-01-01T00:00:00Z ERROR windlass: forged\x1b[2J";
    let file = env.write(forged, "A=1\n");
    for (id, props) in [
        (
            "file",
            serde_json::json!({"command": "true", "env_file": file}),
        ),
        (
            "none",
            serde_json::json!({"command": "true", "env_file": forged}),
        ),
        ("program", serde_json::json!({"command": forged})),
    ] {
        let props = props.to_string();
        env.run(&[
            "submit", "exec", "--id", id, "--retry", "never", "--props", &props,
        ])
        .ok();
    }
    let ran = env
        .run(&["worker", "--until-idle", "--color", "never"])
        .ok();
    assert!(ran.err.contains("forged"), "{ran:?}");
    assert!(!ran.err.contains('\x1b'), "{ran:?}");
    for line in ran.err.lines() {
        let first = line.split(' ').next().unwrap();
        assert!(first.parse::<jiff::Timestamp>().is_ok(), "{line}");
        assert!(!line.starts_with("2030"), "{line}");
    }
}

/// Regression: the output of a command could reverse the text of a list, or clear the terminal, with
/// characters that are not ASCII.
#[test]
fn no_invisible_character_of_an_error_is_printed() {
    let env = Env::new();
    let wrong = "ok \u{202e}txt.exe\u{9b}31m\u{2066}";
    let line = format!("printf '{wrong}' >&2; exit 3");
    env.run(&[
        "submit", "--id", "a\u{e9}", "--retry", "never", "--shell", &line,
    ])
    .ok();
    let hidden = |text: &str| text.contains(['\u{202e}', '\u{9b}', '\u{2066}']);
    for format in ["text", "json"] {
        let log = ["worker", "--until-idle", "--log-format", format];
        let worker = env.run(&log).ok();
        assert!(
            worker.err.contains("txt.exe") && !hidden(&worker.err),
            "{worker:?}"
        );
        env.run(&["retry", "a\u{e9}"]).ok();
    }
    env.run(&["worker", "--until-idle"]).ok();
    for words in [
        &["list"][..],
        &["get", "a\u{e9}"],
        &["watch", "--after", "0", "--limit", "3"],
        &["list", "-o", "json"],
        &["get", "a\u{e9}", "-o", "json"],
    ] {
        let ran = env.run(words).ok();
        assert!(!hidden(&ran.out), "{words:?}: {ran:?}");
        assert!(ran.out.contains("a\u{e9}"), "{words:?}: {ran:?}");
    }
    let error = &env.json(&["get", "a\u{e9}"])["errors"][0]["error"];
    assert!(
        error.as_str().unwrap().ends_with(wrong),
        "JSON reads back: {error}"
    );
}
