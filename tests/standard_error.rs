//! A program without a log shows failed attempts on standard error.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::process::Command;

use windlass::{Client, Message, NewTask, Runner, TaskContext, store::Store};

/// Selects what the program does; without it, the program sets up no log.
const CASE: &str = "WINDLASS_TEST_CASE";

/// The program: it submits a task that fails, and waits for its end.
#[tokio::test]
async fn the_program() {
    let case = std::env::var(CASE).unwrap_or_default();
    let discard = || {
        tracing_subscriber::fmt()
            .with_writer(std::io::sink)
            .try_init()
    };
    if case == "subscriber" {
        discard().unwrap();
    }
    let store = Store::open("memory:").await.unwrap();
    let runner = Runner::builder(&store)
        .handler("fails", |_: TaskContext| async {
            Message::fail("disk\nfull")
        })
        .failures_to_stderr(case != "silent")
        .start()
        .await
        .unwrap();
    let client = Client::new(&store);
    let task = NewTask::new("fails").id("t");
    let id = client.submit(task).await.unwrap();
    assert!(!client.wait(&id).await.unwrap().is_completed());
    runner.shutdown().await;
}

/// What the program writes to standard error.
fn standard_error(case: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_program", "--nocapture"])
        .env(CASE, case)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn a_program_without_a_subscriber_sees_its_failed_attempts() {
    let line = "windlass: task 't' (fails): attempt 1 failed: disk full; \
                not retried, the task has failed";
    let text = standard_error("");
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("windlass:")).collect();
    assert_eq!(lines, [line]);
}

#[test]
fn a_program_with_a_subscriber_or_that_wants_none_sees_nothing_more() {
    for case in ["subscriber", "silent"] {
        let text = standard_error(case);
        assert!(!text.contains("attempt"), "{case}: {text}");
    }
}
