//! `wait` and `time`.

use jiff::Timestamp;
use serde_json::json;

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn wait_ends_with_its_tasks() {
    let env = Env::new();
    for (kind, id) in [
        ("double", "a"),
        ("double", "b"),
        ("fail", "c"),
        ("stay", "d"),
    ] {
        env.run(&["submit", kind, "--id", id, "--props", "1"]).ok();
    }
    let late = env.run(&["wait", "a", "--timeout", "10ms"]).code(5);
    assert!(late.err.contains("task 'a' has not ended"), "{late:?}");
    let node = env.node("n1").await;
    assert_eq!(env.run(&["wait", "a"]).ok().out, "a: completed\n");
    let all = env
        .run(&["-o", "json", "wait", "a", "b", "c", "a"])
        .code(1)
        .lines();
    let all = &all[0];
    assert_eq!(all["done"], json!(2), "{all}");
    let error = all["tasks"][2]["error"].as_str().unwrap();
    assert!(
        error.starts_with("task 'c' has ended as failed: "),
        "{error}"
    );
    env.run(&["wait", "nothing"]).code(3);

    // A selection: ended tasks do not count.
    let none = env.run(&["wait", "--kind", "double"]).ok();
    assert_eq!(none.out, "no matching task is left\n");
    let busy = env.run(&["wait", "--all", "--timeout", "50ms"]).code(5);
    assert!(busy.err.contains("1 task or more match"), "{busy:?}");
    env.run(&["wait", "--all", "--idle", "--timeout", "50ms"])
        .code(5);
    env.run(&["pause", "d", "--wait"]).ok();
    env.run(&["wait", "--all", "--idle"]).ok();
    env.run(&["kill", "d", "--wait"]).ok();
    env.run(&["wait", "--all"]).ok();
    node.shutdown().await;
}

#[test]
fn a_wait_names_tasks_or_filters() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    for (words, says) in [
        (&["wait"][..], "no task is named; give ids, filters"),
        (
            &["wait", "a", "--all"],
            "ids and filters do not go together",
        ),
        (
            &["wait", "a", "--idle"],
            "--idle is about a selection of tasks",
        ),
    ] {
        let wrong = env.run(words).code(2);
        assert!(wrong.err.contains(says), "{wrong:?}");
    }
}

#[test]
fn the_time_is_that_of_the_store() {
    let env = Env::new();
    env.run(&["submit", "k"]).ok();
    let before = Timestamp::now();
    let now = env.run(&["time"]).ok().out;
    let now: Timestamp = now.trim().parse().unwrap();
    assert!(before <= now && now <= Timestamp::now(), "{now}");
}
