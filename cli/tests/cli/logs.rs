//! `logs` for lines that handlers log.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::json;
use tokio::sync::Notify;
use windlass::{Message, Runner, TaskContext, store::Store};

use crate::env::Env;

/// A node whose handler fails its first attempt, and then waits for the notification between two lines.
async fn node(env: &Env, go_on: &Arc<Notify>) -> Runner {
    let (store, go_on) = (Store::open(&env.url()).await.unwrap(), go_on.clone());
    let talk = move |task: TaskContext| {
        let go_on = go_on.clone();
        async move {
            if task.attempt() == 1 {
                task.log("the first attempt");
                return Message::error("once more");
            }
            task.log("one");
            go_on.notified().await;
            task.log("two\nthree");
            Message::complete()
        }
    };
    let builder = Runner::builder(&store).node("n1").handler("talk", talk);
    builder.start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_follow_the_lines_of_a_running_handler() {
    let (env, go_on) = (Env::new(), Arc::new(Notify::new()));
    let node = node(&env, &go_on).await;
    env.run(&["submit", "talk", "--id", "t"]).ok();
    let mut follow = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["logs", "t", "--follow", "--attempt", "2"])
        .env("WINDLASS_STORE", env.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    // The handler returns only after its first line was printed.
    let printed = tokio::task::spawn_blocking(move || {
        let mut printed = Vec::new();
        for line in lines {
            printed.push(line.unwrap());
            go_on.notify_one();
        }
        assert!(follow.wait().unwrap().success());
        printed
    });
    assert_eq!(printed.await.unwrap(), ["one", "two", "three"]);

    assert_eq!(env.run(&["logs", "t"]).ok().out, "one\ntwo\nthree\n");
    let first = env.run(&["logs", "t", "--attempt", "1", "--timestamps"]);
    let first = first.ok().out;
    assert!(first.starts_with("20"), "{first}");
    assert!(first.ends_with(" the first attempt\n"), "{first}");
    assert_eq!(
        env.run(&["logs", "t", "--stream", "log"]).ok().out,
        "one\ntwo\nthree\n"
    );
    assert_eq!(env.run(&["logs", "t", "--stream", "stdout"]).ok().out, "");
    env.run(&["logs", "t", "--attempt", "7"])
        .fails(3, &["'t' has no output of that attempt"]);
    let logs = env.json(&["logs", "t"]);
    assert_eq!(
        (&logs["attempt"], &logs["stdout"]),
        (&json!(2), &json!(null))
    );
    assert_eq!(logs["lines"][2]["text"], "three");
    assert_eq!(logs["lines"][2]["number"], 4);
    assert_eq!(logs.get("missing_lines"), None);
    let followed = env
        .run(&["logs", "t", "--follow", "-o", "json"])
        .ok()
        .lines();
    assert_eq!(followed[0]["stream"], "log");
    assert_eq!(followed[0]["text"], "one");
    node.shutdown().await;
}

/// Regression: a damaged part of a log disappeared without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_part_of_a_log_is_named_until_a_repair_deletes_it() {
    let (env, go_on) = (Env::new(), Arc::new(Notify::new()));
    let node = node(&env, &go_on).await;
    env.run(&["submit", "talk", "--id", "t"]).ok();
    go_on.notify_one();
    let store = Store::open(&env.url()).await.unwrap();
    windlass::Client::new(&store).wait("t").await.unwrap();
    node.shutdown().await;
    env.sql("UPDATE windlass_log SET lines = '{' WHERE part = 0");

    let first = env.run(&["logs", "t", "--attempt", "1"]).ok();
    let named = "part 0 of the log, with lines of attempt 1, cannot be read";
    assert!(first.err.contains(named), "{first:?}");
    let second = env.run(&["logs", "t"]).ok();
    assert_eq!(second.out, "one\ntwo\nthree\n");
    let logs = env.json(&["logs", "t", "--attempt", "1"]);
    assert_eq!(logs["damaged_parts"][0]["part"], 0, "{logs}");
    let followed = env.run(&["logs", "t", "--follow", "--attempt", "1", "-o", "json"]);
    let followed = followed.ok().lines();
    let damaged: Vec<_> = followed
        .iter()
        .filter(|line| !line["damaged_part"].is_null())
        .collect();
    assert_eq!(damaged.len(), 1, "it is named once: {followed:?}");

    env.run(&["doctor", "--repair"]);
    env.run(&["logs", "t", "--attempt", "1"])
        .fails(3, &["'t' has no output of that attempt"]);
    assert_eq!(env.run(&["logs", "t"]).ok().out, "one\ntwo\nthree\n");
}
