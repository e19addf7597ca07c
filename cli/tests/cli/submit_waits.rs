//! `windlass submit --wait`: results, failed attempts and exit codes.

use serde_json::json;

use crate::env::Env;

#[tokio::test(flavor = "multi_thread")]
async fn wait_prints_the_result_and_its_exit_code_says_whether_it_completed() {
    let env = Env::new();
    let node = env.node("n1").await;
    let ran = env
        .run(&["submit", "double", "--id", "a", "--props", "21", "--wait"])
        .ok();
    assert_eq!(ran.out, "a\ncompleted: 42\n");
    let done = env.json(&[
        "submit",
        "double",
        "--props",
        "4",
        "--wait",
        "--timeout",
        "30s",
    ]);
    assert_eq!(
        (&done["state"], &done["result"]),
        (&json!("completed"), &json!(8))
    );
    let failed = env.run(&["submit", "fail", "--wait", "-o", "json"]).code(1);
    assert_eq!(failed.lines()[0]["error"], "out of luck");
    env.run(&["submit", "double", "--id", "a"])
        .fails(1, &["has ended already", "retry", "replace"]);
    env.run(&[
        "submit",
        "double",
        "--id",
        "a",
        "--props",
        "1",
        "--replace",
        "--wait",
    ])
    .ok();
    env.run(&["submit", "stay", "--wait", "--timeout", "200ms"])
        .fails(5, &["has not ended after 200ms"]);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_waited_for() {
    let env = Env::new();
    let node = env.node("n1").await;
    let lines = "{\"kind\":\"double\",\"props\":1}\n{\"kind\":\"fail\",\"id\":\"f\"}\n{\"kind\":\"double\",\"props\":3}\n";
    let ran = env
        .run_with(&["submit", "--lines", "-", "--wait", "-o", "json"], lines)
        .code(1);
    assert_eq!(ran.lines()[0]["completed"], 2);
    assert!(ran.err.contains("f: failed: out of luck"), "{ran:?}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_lines_reports_attempts_that_fail() {
    let env = Env::new();
    let node = env.node("n1").await;
    let retry = r#"{"policy":"exponential","attempts":3,"base":"10ms"}"#;
    let ran = env
        .run_with(
            &["submit", "--lines", "-", "--retry", retry, "--wait"],
            "{\"kind\":\"fail\",\"id\":\"f\"}\n{\"kind\":\"flaky\",\"id\":\"g\"}\n",
        )
        .code(1);
    let count = |text: &str| ran.err.lines().filter(|l| l.starts_with(text)).count();
    assert_eq!(count("f: attempt 1 failed: out of luck"), 1, "{ran:?}");
    assert_eq!(count("f: attempt 2 failed: out of luck"), 1, "{ran:?}");
    // The last one is the end, which has its own line.
    assert_eq!(count("f: attempt 3"), 0, "{ran:?}");
    assert_eq!(count("error: f: failed: out of luck"), 1, "{ran:?}");
    assert_eq!(count("g: attempt 1 failed: timed out;"), 1, "{ran:?}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_reports_failed_attempts() {
    let env = Env::new();
    let node = env.node("n1").await;
    let retry = r#"{"policy":"exponential","attempts":3,"base":"10ms"}"#;
    let ran = env
        .run(&["submit", "fail", "--retry", retry, "--wait"])
        .code(1);
    let lines: Vec<&str> = ran.err.lines().filter(|l| l.contains("attempt")).collect();
    // Standard output has the end.
    let [first, second] = lines.as_slice() else {
        panic!("{ran:?}")
    };
    assert!(
        first.starts_with("attempt 1 failed: out of luck"),
        "{ran:?}"
    );
    assert!(
        second.starts_with("attempt 2 failed: out of luck"),
        "{ran:?}"
    );
    assert!(ran.out.contains("failed: "), "{ran:?}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_reports_when_the_next_attempt_is_and_how_many_are_left() {
    let env = Env::new();
    let node = env.node("n1").await;
    // The command looks at the task before this time is over, on a busy machine too.
    let retry = r#"{"policy":"strikes","sleep":"3s"}"#;
    let ran = env
        .run(&["submit", "flaky", "--id", "f", "--retry", retry, "--wait"])
        .ok();
    let lines: Vec<&str> = ran.err.lines().filter(|l| l.contains("attempt")).collect();
    let expected = ["attempt 1 failed: timed out; next in 3 s (7 left)"];
    assert_eq!(lines, expected, "{ran:?}");
    assert_eq!(ran.out, "f\ncompleted\n");
    node.shutdown().await;
}
