//! `windlass watch`: changes as they happen.

use serde_json::Value;

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_changes() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "double", "--id", "a", "--props", "1", "--wait"])
        .ok();
    env.run(&["submit", "double", "--id", "b", "--props", "1", "--wait"])
        .ok();
    let changes = env
        .run(&["watch", "a", "--after", "0", "--limit", "3", "-o", "json"])
        .ok()
        .lines();
    let whats: Vec<&Value> = changes.iter().map(|c| &c["what"]).collect();
    assert_eq!(whats, ["submitted", "claimed", "moved"]);
    assert!(changes.iter().all(|c| c["task"] == "a"));
    let version = &env.json(&["get", "a"])["version"];
    assert!(
        changes.iter().all(|c| c["version"] == *version),
        "{changes:?}"
    );
    let text = env.run(&["watch", "--after", "0", "--limit", "3"]).ok().out;
    assert!(
        text.contains("a  runnable → completed by complete"),
        "{text}"
    );
    assert!(text.contains(&format!(", now version {version}")), "{text}");
    let ended = env.run(&["watch", "a", "--until-ended"]).ok();
    assert_eq!(ended.out, "");
    let after = ["watch", "a", "--until-ended", "--after"];
    let ended = env.run(&[&after[..], &["0"]].concat()).ok();
    assert_eq!(ended.out.lines().count(), 3, "{ended:?}");
    let ended = env.run(&[&after[..], &["3"]].concat()).ok();
    assert_eq!(ended.out, "", "the end is before the number");
    env.run(&["watch", "--timeout", "100ms"])
        .fails(5, &["the watch ended after 100ms"]);
    env.run(&["watch", "nope"]).code(3);
    env.run(&["watch", "--until-ended"]).code(2);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_shows_what_went_wrong() {
    let env = Env::new();
    let node = env.node("n1").await;
    env.run(&["submit", "fail", "--id", "f1", "--wait"]).code(1);
    let watched = env.run(&["watch", "f1", "--after", "0", "--limit", "3"]);
    let text = watched.ok().out;
    assert!(text.contains("runnable → fault by error"), "{text}");
    assert!(text.contains("out of luck"), "{text}");
    node.shutdown().await;
}

/// Returns the tasks of the first two changes of these kinds.
fn watched(env: &Env, kind: &str) -> Vec<Value> {
    let watch = ["watch", "--kind", kind, "--after", "0", "--limit", "2"];
    let lines = env
        .run(&[&watch[..], &["-o", "json"]].concat())
        .ok()
        .lines();
    lines.iter().map(|line| line["task"].clone()).collect()
}

/// `watch` and `stats` took the star of `--kind` for a part of the name.
#[test]
fn every_filter_of_kinds_knows_the_star() {
    let env = Env::new();
    for (id, kind) in [("a", "q/new"), ("b", "queue"), ("c", "q/err")] {
        env.run(&["submit", kind, "--id", id]).ok();
    }
    assert_eq!(watched(&env, "q/*"), ["a", "c"]);
    for (kind, tasks) in [("q/*", 2), ("q*", 3), ("q", 0), ("queue", 1)] {
        assert_eq!(
            env.json(&["stats", "--kind", kind])["tasks"],
            tasks,
            "{kind}"
        );
    }
}

#[test]
fn a_watch_of_a_kind_shows_its_tasks_only() {
    let env = Env::new();
    for (id, kind) in [("a", "mail"), ("b", "other"), ("c", "mail")] {
        env.run(&["submit", kind, "--id", id]).ok();
    }
    assert_eq!(watched(&env, "mail"), ["a", "c"]);
}
