//! Reports that would write the placeholder of a masked value.

use serde_json::{Value, json};
use windlass::NewTask;

use super::{Worker, name_of, registered, returned};
use crate::kit::Kit;

fn placeholder() -> Value {
    json!({"$windlass": "masked"})
}

/// A worker with a run of the task `a`.
async fn running() -> (Kit, Worker, Value) {
    let (kit, mut worker) = registered().await;
    kit.submit("a", "k").await;
    let run = worker.claim(&kit).await;
    (kit, worker, run)
}

/// Regression: what a submit refuses, a report wrote.
#[tokio::test]
async fn a_worker_stores_no_placeholder_and_goes_on() {
    let (kit, mut worker, run) = running().await;
    let item = |n: u64, what: &str, value: Value| {
        let mut item = name_of(&run);
        item["n"] = json!(n);
        item[what] = value;
        item
    };
    for (what, value, says) in [
        (
            "checkpoint",
            placeholder(),
            "checkpoint: the whole value is",
        ),
        (
            "checkpoint",
            json!({"a": [placeholder()]}),
            "checkpoint: /a/0 is",
        ),
        (
            "answer",
            json!({"signal": 1, "reply": placeholder()}),
            "reply: the whole value is",
        ),
        (
            "answer",
            json!({"signal": 1, "reply": 1, "data": {"b": placeholder()}}),
            "data: /b is",
        ),
    ] {
        // The results are in the order of the items.
        let mut log = name_of(&run);
        log["log"] = json!([{"n": 1, "text": "a line"}]);
        let items = json!([
            log,
            item(1, what, value),
            item(0, "progress", json!({"fraction": 0.5}))
        ]);
        let answer = worker.report(&kit, items).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let answer = answer.json();
        let results = answer["results"].as_array().unwrap();
        let codes: Vec<&Value> = results.iter().map(|one| &one["result"]).collect();
        assert_eq!(codes, ["applied", "refused", "applied"], "{what}: {answer}");
        let error = results[1]["error"].as_str().unwrap();
        assert!(error.starts_with(says), "{error}");
        assert!(
            error.ends_with("in place of a masked value; give the value itself"),
            "{error}"
        );
    }
    let task = kit.get("/v1/tasks/a").await.json();
    assert_eq!(task["data"], Value::Null, "{task}");
    // The number is free for the next report.
    let answer = worker
        .report(&kit, json!([item(1, "checkpoint", json!({"page": 1}))]))
        .await;
    assert_eq!(
        answer.json()["results"][0]["result"],
        "applied",
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn a_returned_message_with_a_placeholder_fails_its_task() {
    let submit = |props: Value| json!({"op": "submit", "id": "new", "kind": "k", "props": props});
    let signal = json!({"op": "send", "task": "new", "command": "signal", "name": "say", "payload": placeholder()});
    for (more, place) in [
        (json!({"result": placeholder()}), "/result is"),
        (
            json!({"result": [{"card": placeholder()}]}),
            "/result/0/card is",
        ),
        (json!({"data": {"x": placeholder()}}), "/data/x is"),
        (
            json!({"replies": [{"signal": 1, "reply": placeholder()}]}),
            "/replies/0/reply is",
        ),
        (
            json!({"effects": [submit(placeholder())]}),
            "/effects/0/props is",
        ),
        // Regression: a command to a task that the message itself submits was not looked at.
        (
            json!({"effects": [submit(json!(1)), signal]}),
            "/effects/1/payload is",
        ),
    ] {
        let (kit, mut worker, run) = running().await;
        let mut message = json!({"message": "complete"});
        message
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = worker.report(&kit, json!([returned(&run, &message)])).await;
        let result = answer.json()["results"][0].clone();
        assert_eq!(
            (&result["result"], &result["state"]),
            (&json!("applied"), &json!("failed")),
            "{result}"
        );
        let task = kit.get("/v1/tasks/a").await.json();
        let error = task["errors"][0]["error"].as_str().unwrap();
        assert!(
            error.starts_with(&format!("the message: {place} ")),
            "{error}"
        );
        assert_eq!(
            (&task["data"], &task["result"]),
            (&Value::Null, &Value::Null)
        );
        assert!(kit.client.get("new").await.is_err());
    }
}

/// Only the name of the placeholder is taken: other objects are the data of the task.
#[tokio::test]
async fn an_object_that_is_no_placeholder_is_stored() {
    let (kit, mut worker) = registered().await;
    kit.client.submit(NewTask::new("k").id("a")).await.unwrap();
    let run = worker.claim(&kit).await;
    let message = json!({"message": "complete", "result": {"masked": true, "text": "$windlass"}});
    let answer = worker.report(&kit, json!([returned(&run, &message)])).await;
    assert_eq!(
        answer.json()["results"][0]["state"],
        "completed",
        "{}",
        answer.text
    );
}
