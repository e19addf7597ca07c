//! Who made changes: in the history of a task, and in `windlass audit`; and the text that travels with a task.

use serde_json::json;

use crate::env::Env;

#[test]
fn the_history_names_the_user_who_made_each_change() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    env.run(&["pause", "a"]).ok();
    let got = env.json(&["get", "a", "--history"]);
    let user = got["history"][0]["by"].as_str().unwrap().to_owned();
    assert!(!user.is_empty());
    assert_eq!(got["history"][1]["by"], user);
    assert_eq!(got["commands"][0]["by"], user);
    let text = env.run(&["get", "a", "--history"]).ok().out;
    assert!(text.contains(&format!(", by {user}")), "{text}");
    assert!(text.contains("BY"), "{text}");
}

#[test]
fn deletions_and_purges_are_in_the_audit() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let empty = env.run(&["audit"]).ok();
    assert!(empty.err.contains("no such deletion"), "{empty:?}");
    env.run(&["delete", "a", "--yes"]).ok();
    let lines = env.run(&["audit", "-o", "json"]).ok().lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["what"], "deleted");
    assert_eq!(
        (&lines[0]["task"], &lines[0]["kind"]),
        (&json!("a"), &json!("k"))
    );
    let text = env.run(&["audit"]).ok().out;
    assert!(text.contains("deleted task a (kind k)"), "{text}");
    env.run(&["submit", "k", "--id", "b"]).ok();
    env.run(&["delete", "b", "--yes"]).ok();
    let of_b = env.run(&["audit", "b", "-o", "json"]).ok().lines();
    assert_eq!((of_b.len(), &of_b[0]["task"]), (1, &json!("b")));
    let by = env
        .run(&["audit", "--by", "nobody else", "-o", "json"])
        .ok();
    assert_eq!(by.lines().len(), 0);
    assert_eq!(
        env.run(&["audit", "--limit", "1", "-o", "json"])
            .ok()
            .lines(),
        of_b
    );
    env.run(&["audit", "--limit", "0"]).fails(2, &["--limit"]);
}

#[test]
fn meta_reaches_the_command_of_a_task() {
    let env = Env::new();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let given = format!("traceparent={parent}");
    env.run(&[
        "submit",
        "--id",
        "t",
        "--meta",
        &given,
        "--meta",
        "request=7 f",
        "--shell",
        "echo $TRACEPARENT; echo $WINDLASS_META; echo \"${TRACESTATE-none}\"",
    ])
    .ok();
    let got = env.json(&["get", "t"]);
    assert_eq!(
        got["meta"],
        json!({"traceparent": parent, "request": "7 f"})
    );
    let shown = env.run(&["get", "t"]).ok().out;
    assert!(shown.contains("request=7 f"), "{shown}");
    env.run(&["worker", "--until-idle"]).ok();
    let result = env.json(&["get", "t"])["result"].to_string();
    assert!(result.contains(parent), "{result}");
    assert!(result.contains("request"), "{result}");
    assert!(result.contains("none"), "{result}");
    for wrong in ["=x", "x"] {
        env.run(&["submit", "k", "--meta", wrong])
            .fails(2, &["is not NAME=VALUE"]);
    }
    let long = format!("a={}", "x".repeat(5000));
    env.run(&["submit", "k", "--meta", &long])
        .fails(2, &["--meta: has 5001 bytes"]);
}
