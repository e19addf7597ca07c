//! `windlass bulk`: one action on many tasks, by a task in the background.

use serde_json::json;

use crate::env::Env;

#[test]
fn a_bulk_operation_is_a_task_that_a_worker_runs() {
    let env = Env::new();
    for id in ["a", "b", "c"] {
        env.run(&[
            "submit", "--id", id, "--label", "team=x", "--paused", "--shell", "true",
        ])
        .ok();
    }
    env.run(&["submit", "--id", "other", "--paused", "--shell", "true"])
        .ok();
    let words = ["bulk", "resume", "--label", "team=x"];
    assert_eq!(
        env.json(&[&words[..], &["--dry-run"]].concat()),
        json!({"tasks": 3})
    );
    env.run(&words)
        .fails(2, &["this would resume 3 tasks", "--yes"]);
    env.run(&["bulk", "resume", "--yes"]).fails(2, &["--all"]);
    env.run(&["bulk", "drop", "--all"])
        .fails(2, &["drop", "retry"]);
    env.run(&[&words[..], &["--props-at", "/a=1", "--yes"]].concat())
        .fails(2, &["--props-at"]);
    let started = env.run(&[&words[..], &["--yes"]].concat()).ok();
    assert!(
        started.err.contains("no live node handles kind 'bulk'"),
        "{}",
        started.err
    );
    let id = started.out.trim();
    assert!(id.starts_with("bulk-"), "{id}");
    env.run(&["worker", "--until-idle"]).ok();
    env.run(&["wait", id, "--timeout", "30s"]).ok();
    let done = env.json(&["get", id]);
    assert_eq!(done["state"], "completed", "{done}");
    assert_eq!(
        (&done["result"]["done"], &done["result"]["refused"]),
        (&json!(3), &json!(0))
    );
    for (id, state) in [("a", "completed"), ("c", "completed"), ("other", "paused")] {
        assert_eq!(env.json(&["get", id])["state"], state, "{id}");
    }
    let none = env
        .run(&["bulk", "kill", "--kind", "nothing", "--yes"])
        .ok();
    assert!(none.err.contains("0 tasks"), "{}", none.err);
    assert_eq!(none.out, "");
}

/// Regression: an id that no task has was left out without a word, with exit code 0.
#[test]
fn ids_that_a_bulk_operation_leaves_alone_are_named() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    let bulk = |words: &[&str]| env.run(&[&["bulk"], words].concat());
    bulk(&["kill", "nope", "--yes"]).fails(3, &["nope"]);
    bulk(&["kill", "a", "nope", "--dry-run"]).fails(1, &["nope", "1 task selected"]);
    bulk(&["kill", "a", "nope", "--yes"]).fails(1, &["nope", "1 task"]);
    let retried = bulk(&["retry", "a", "--yes"]).code(1);
    let why = "'a' is runnable, and retry leaves it alone";
    assert!(retried.err.contains(why), "{retried:?}");
    bulk(&["pause", "a", "--dry-run"]).ok();
}
