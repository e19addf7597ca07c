//! The log in text: one line for each event.

use crate::env::Env;

/// A line break in a path wrote a line of its own into the log, which could look like any other line.
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
