//! Commands, signals and nodes.

use serde_json::json;
use windlass::{Command, Message, Runner, TaskContext};

use crate::kit::Kit;

/// Replies to each signal with its payload.
async fn echo(task: TaskContext) -> Message {
    let commands = task.commands();
    loop {
        tokio::select! {
            biased;
            Some(command) = commands.next() => {
                if let Command::Signal(signal) = command {
                    let payload = signal.payload::<windlass::Json>().unwrap();
                    return Message::pause().answer(&signal, &payload);
                }
            }
            stop = task.stop_requested() => return stop.message(),
            () = std::future::ready(()) => return Message::pause(),
        }
    }
}

#[tokio::test]
async fn a_command_has_an_outcome_in_the_end() {
    let kit = Kit::new().await;
    kit.submit("a", "echo").await;
    let sent = kit
        .call(
            "POST /v1/tasks/a/commands",
            r#"{"command":"pause","id":"c1"}"#,
        )
        .await;
    assert_eq!(sent.status, 202);
    let first = sent.json();
    assert_eq!(
        (&first["id"], &first["outcome"]),
        (&json!("c1"), &json!(null))
    );
    let waiting = kit.get("/v1/commands/c1?wait=20ms").await.json();
    assert_eq!(waiting["outcome"], json!(null));
    let runner = Runner::builder(&kit.store)
        .handler("echo", echo)
        .start()
        .await
        .unwrap();
    let settled = kit.get("/v1/commands/c1?wait=30s").await.json();
    assert_eq!(settled["outcome"]["outcome"], "applied", "{settled}");
    assert_eq!(settled["by"], "token admin");
    let run = kit
        .call(
            "POST /v1/tasks/a/commands?wait=30s",
            r#"{"command":"kill"}"#,
        )
        .await;
    assert_eq!(
        (run.status.as_u16(), run.json()["outcome"]["to"].clone()),
        (200, json!("killed"))
    );
    let wrong = kit
        .call("POST /v1/tasks/a/commands", r#"{"command":"stop"}"#)
        .await;
    assert_eq!(wrong.field(), "command");
    let ended = kit
        .call("POST /v1/tasks/a/commands", r#"{"command":"pause"}"#)
        .await;
    assert_eq!(ended.problem(409), "finished");
    assert_eq!(kit.get("/v1/commands/none").await.problem(404), "not_found");
    kit.submit("b", "echo").await;
    let path = "POST /v1/tasks/b/signals/say?id=s1";
    assert_eq!(kit.call(path, "1").await.status, 202);
    assert_eq!(kit.call(path, "1").await.status, 202, "a repetition");
    let other = kit.call(path, "2").await;
    assert_eq!(other.problem(409), "id_used", "nothing is swallowed");
    runner.shutdown().await;
}

#[tokio::test]
async fn a_signal_is_answered_with_the_reply() {
    let kit = Kit::new().await;
    kit.submit("a", "echo").await;
    let runner = Runner::builder(&kit.store)
        .handler("echo", echo)
        .start()
        .await
        .unwrap();
    let answered = kit
        .call("POST /v1/tasks/a/signals/say?wait=30s", r#"{"n":1.50}"#)
        .await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert!(answered.text.contains(r#"{"n":1.50}"#), "{}", answered.text);
    let empty = kit.call("POST /v1/tasks/a/signals/say?wait=30s", "").await;
    assert_eq!(empty.json()["outcome"]["reply"], json!(null));
    let wrong = kit.call("POST /v1/tasks/a/signals/say", "{").await;
    assert_eq!(wrong.field(), "body");
    runner.shutdown().await;
}

#[tokio::test]
async fn nodes_are_listed_and_commanded() {
    let kit = Kit::new().await;
    assert_eq!(kit.get("/v1/nodes").await.json(), json!({"nodes":[]}));
    let runner = Runner::builder(&kit.store)
        .handler("echo", echo)
        .node("n1")
        .start()
        .await
        .unwrap();
    let nodes = kit.get("/v1/nodes").await.json();
    assert!(nodes["nodes"].to_string().contains("\"n1\""), "{nodes}");
    let sent = kit
        .call("POST /v1/nodes/n1/commands", r#"{"command":"freeze"}"#)
        .await;
    assert_eq!(sent.status, 202, "{}", sent.text);
    let order = sent.json()["order"].clone();
    let path = format!("/v1/node-commands/{order}");
    let answered = async {
        loop {
            let answer = kit.get(&path).await.json();
            if answer["answer"] != json!(null) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::kit::BOUND, answered)
        .await
        .expect("an answer of the node");
    let missing = kit
        .call("POST /v1/nodes/n2/commands", r#"{"command":"freeze"}"#)
        .await;
    assert_eq!(missing.problem(404), "not_found");
    assert_eq!(
        kit.call("POST /v1/nodes/n1/commands", r#"{"command":"dance"}"#)
            .await
            .field(),
        "body"
    );
    runner.shutdown().await;
}

#[tokio::test]
async fn ended_tasks_are_purged_by_their_age() {
    let kit = Kit::new().await;
    let wrong = kit
        .call(
            "POST /v1/purge",
            r#"{"states":["paused"],"older_than":"1d"}"#,
        )
        .await;
    assert_eq!(wrong.field(), "states");
    let wrong = kit
        .call(
            "POST /v1/purge",
            r#"{"states":["completed"],"older_than":"old"}"#,
        )
        .await;
    assert_eq!(wrong.field(), "older_than");
    let none = kit
        .call(
            "POST /v1/purge",
            r#"{"states":["completed"],"older_than":"1d"}"#,
        )
        .await;
    assert_eq!(none.json(), json!({"deleted":0}));
    assert!(kit.get("/v1/time").await.json()["now"].is_string());
    assert_eq!(kit.get("/v1/limits").await.json(), json!({"limits":[]}));
    let index = kit.get("/v1").await.json();
    assert!(index["requests"].as_array().unwrap().len() > 20);
}
