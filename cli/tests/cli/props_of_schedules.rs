//! Tasks of the kind `schedule` that are submitted as tasks: their props are those of a schedule.

use crate::env::Env;

/// Regression: they were accepted, and failed on a worker.
#[test]
fn props_that_are_no_schedule_are_refused_whichever_way_they_come() {
    let env = Env::new();
    let good = r#"{"run":{"kind":"k"},"cron":["@daily"]}"#;
    for (props, says) in [
        ("{}", "'run' is missing"),
        (r#"{"run":{"kind":"k"},"corn":1}"#, "'corn' is not a field"),
        (
            r#"{"run":{"kind":"k"},"cron":["x"]}"#,
            "cron: 'x' is not a cron expression",
        ),
        (
            r#"{"run":{"kind":"k"},"cron":["@daily"],"zone":"Mars"}"#,
            "zone: 'Mars'",
        ),
    ] {
        let submit = [
            "submit", "--kind", "schedule", "--id", "s", "--props", props,
        ];
        env.run(&submit).fails(2, &["props: ", says]);
        let line = env.write(
            "lines.jsonl",
            &format!("{{\"kind\":\"schedule\",\"id\":\"s\",\"props\":{props}}}\n"),
        );
        let ran = env.run(&["submit", "--lines", &line]);
        assert!(ran.code != 0 && ran.err.contains("props: "), "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
        let operation =
            format!("{{\"op\":\"submit\",\"kind\":\"schedule\",\"id\":\"s\",\"props\":{props}}}");
        let file = env.write("apply.jsonl", &format!("{operation}\n"));
        let ran = env.run(&["apply", &file]);
        assert!(ran.code != 0 && ran.err.contains("props: "), "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
        env.run(&["get", "s"]).code(3);
    }
    env.run(&["submit", "--kind", "schedule", "--id", "s", "--props", good])
        .ok();
    let listed = env.run(&["schedule", "list"]).ok().out;
    assert!(listed.contains("@daily"), "{listed}");
}
