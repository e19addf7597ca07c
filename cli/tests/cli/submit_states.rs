//! Tasks that are submitted paused, and ids that are free after success.

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_submitted_paused_and_runs_when_it_is_resumed() {
    let env = Env::new();
    let words = ["submit", "double", "--id", "a", "--props", "2", "--paused"];
    let submitted = env.run(&words).ok();
    assert_eq!(submitted.out, "a\n");
    let says = "note: the task is paused; `windlass resume a` starts it\n";
    assert_eq!(submitted.err, says);
    let node = env.node("n1").await;
    env.run(&["submit", "double", "--props", "1", "--wait"])
        .ok();
    assert_eq!(env.json(&["get", "a"])["state"], "paused");
    env.run(&["resume", "a"]).ok();
    env.run(&["watch", "a", "--until-ended"]).ok();
    assert_eq!(env.json(&["get", "a"])["state"], "completed");
    node.shutdown().await;
    env.run(&["submit", "k", "--paused", "--in", "1h"]).code(2);
    let line = r#"{"id":"b","kind":"k","paused":true,"start_at":"2999-01-01T00:00:00Z"}"#;
    env.run_with(&["submit", "--lines", "-"], line)
        .fails(2, &["paused: has no effect together with 'start_at'"]);
}

#[test]
fn an_id_is_free_after_success() {
    let env = Env::new();
    let submit = |command: &str| {
        env.run(&[
            "submit",
            "--id",
            "a",
            "--free-id",
            "--retry",
            "never",
            "--",
            command,
        ])
    };
    submit("true").ok();
    submit("true").fails(1, &["'a' exists already"]);
    env.run(&["worker", "--until-idle"]).ok();
    assert_eq!(env.json(&["get", "a"])["state"], "completed");
    submit("false").ok();
    assert_eq!(env.json(&["get", "a"])["state"], "runnable");
    env.run(&["worker", "--until-idle"]).ok();
    submit("true").fails(1, &["'a' has ended already"]);
}

/// Regression: the free id of a completed task freed its unique key for other tasks, too.
#[test]
fn a_free_id_frees_no_unique_key() {
    let env = Env::new();
    let submit = |id: &str| {
        let words = [
            "submit",
            "--id",
            id,
            "--free-id",
            "--unique",
            "k=1h",
            "--",
            "true",
        ];
        env.run(&words)
    };
    submit("a").ok();
    env.run(&["worker", "--until-idle"]).ok();
    submit("b").fails(1, &["the unique key 'k'"]);
    submit("a").ok();
}

/// Regression: `submit --after TYPO` ran at once.
#[test]
fn a_submit_waits_only_for_tasks_that_exist() {
    let env = Env::new();
    env.run(&["submit", "k", "--id", "a"]).ok();
    for option in ["--after", "--after-ok"] {
        let submit = ["submit", "-q", "k", "--id", "b", option, "a,typo"];
        env.run(&submit).fails(
            3,
            &[option, "task 'typo' does not exist", "--allow-missing"],
        );
        env.run(&["get", "b"]).code(3);
    }
    env.run(&["submit", "k", "--id", "b", "--after", "a"]).ok();
    let allowed = [
        "submit",
        "k",
        "--id",
        "c",
        "--after",
        "typo",
        "--allow-missing",
    ];
    let ran = env.run(&allowed).ok();
    assert!(ran.err.contains("'typo'"), "{ran:?}");
    // A repeated submit is not checked: what the task waits for may have been deleted since.
    let again = [
        "submit",
        "k",
        "--id",
        "c",
        "--after",
        "typo",
        "--idempotent",
    ];
    env.run(&again).ok();
    let lines = "{\"kind\":\"k\",\"id\":\"l1\"}
{\"kind\":\"k\",\"id\":\"l2\",\"after\":[\"l1\"]}
{\"kind\":\"k\",\"id\":\"l3\",\"after_ok\":[\"typo\"]}
{\"kind\":\"k\",\"id\":\"l4\",\"after\":[\"l3\"]}
";
    let ran = env.run_with(&["submit", "--lines", "-"], lines).code(1);
    assert!(ran.err.contains("line 3: after_ok: task 'typo'"), "{ran:?}");
    assert!(ran.err.contains("line 4: after: task 'l3'"), "{ran:?}");
    assert!(
        ran.out.contains("2 tasks submitted, 2 not submitted"),
        "{ran:?}"
    );
    let ran = env.run_with(
        &["submit", "--lines", "-", "--allow-missing", "--idempotent"],
        lines,
    );
    let ran = ran.ok();
    assert!(ran.out.contains("2 tasks submitted, 2 "), "{ran:?}");
}
