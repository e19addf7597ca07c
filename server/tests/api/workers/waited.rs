//! The results of the tasks that a run has waited for: within the scope of the token, without what is masked.

use serde_json::{Value, json};
use windlass::{Message, NewTask, Runner, TaskContext};
use windlass_server::{Mask, Masks, Role};

use super::{SECRET, Worker, name_of, registered};
use crate::kit::Kit;

async fn waited(kit: &Kit, worker: &Worker, run: &Value) -> crate::kit::Answer {
    let mut body = name_of(run);
    body["secret"] = json!(SECRET);
    let line = format!("POST /v1/workers/{}/waited", worker.name);
    kit.call_as(&worker.token, &line, body.to_string()).await
}

/// Runs tasks of the kinds `k` and `other`, and submits `j`, which waits for them, and for a task that does not exist.
async fn joined(kit: &Kit) {
    let handler = |task: TaskContext| async move {
        match task.id().as_str() {
            "bad" => Message::fail("no disk at S3CRET"),
            _ => Message::complete_with(json!({"bytes": 120, "card": "S3CRET"})),
        }
    };
    let node = Runner::builder(&kit.store)
        .handler("k", handler)
        .handler("other", handler);
    let node = node.start().await.unwrap();
    for (id, kind) in [("good", "k"), ("bad", "k"), ("foreign", "other")] {
        let task = kit.client.submit(NewTask::new(kind).id(id)).await.unwrap();
        task.done().await.unwrap();
    }
    node.shutdown().await;
    let after = ["good", "bad", "foreign", "none"];
    kit.client
        .submit(NewTask::new("k").id("j").after(after))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_worker_reads_results_in_its_scope() {
    let (kit, mut worker) = registered().await;
    joined(&kit).await;
    let run = worker.claim(&kit).await;
    let answer = waited(&kit, &worker, &run).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let wanted = json!({"tasks": [
        {"task": "good", "outcome": "completed", "kind": "k", "state": "completed", "result": {"bytes": 120, "card": "S3CRET"}},
        {"task": "bad", "outcome": "failed", "kind": "k", "state": "failed", "error": "no disk at S3CRET"},
        {"task": "foreign", "outcome": "completed"},
        {"task": "none", "outcome": "unknown"},
    ]});
    assert_eq!(answer.json(), wanted);

    let token = kit.token("all", Role::Work, &[]).await;
    worker.token = token;
    let all = waited(&kit, &worker, &run).await.json();
    assert_eq!(
        all["tasks"][2]["result"]["bytes"], 120,
        "without a scope: {all}"
    );

    worker.token = kit.token("w2", Role::Work, &["other"]).await;
    let refused = waited(&kit, &worker, &run).await;
    assert_eq!(refused.problem(403), "forbidden");
    worker.token = kit.token("reader", Role::Read, &[]).await;
    assert_eq!(waited(&kit, &worker, &run).await.problem(403), "forbidden");
}

#[tokio::test]
async fn a_mask_hides_results_and_errors_from_a_worker_that_waits_for_them() {
    let (kit, mut worker) = registered().await;
    joined(&kit).await;
    let mask = Mask::new("k", ["/result/card"]).unwrap().errors(true);
    Masks::new(&kit.store).set(&mask, None).await.unwrap();
    // A change by a request waits until the server itself applies every mask.
    let body = r#"{"kind":"zzz","pointers":["/props"]}"#;
    assert_eq!(kit.call("POST /v1/masks", body).await.status, 204);
    let run = worker.claim(&kit).await;
    let answer = waited(&kit, &worker, &run).await;
    assert!(!answer.text.contains("S3CRET"), "{}", answer.text);
    let tasks = &answer.json()["tasks"];
    assert_eq!(tasks[0]["result"]["bytes"], 120);
    assert_eq!(tasks[0]["result"]["card"], json!({"$windlass": "masked"}));
    assert_eq!(
        (&tasks[0]["masked"], &tasks[1]["masked"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(tasks[1]["error"], "[masked]");
}

#[tokio::test]
async fn a_run_that_is_over_reads_nothing() {
    let (kit, mut worker) = registered().await;
    joined(&kit).await;
    let mut run = worker.claim(&kit).await;
    run["run"] = json!(12_345);
    assert_eq!(waited(&kit, &worker, &run).await.problem(409), "lost");
    run["run"] = json!("x");
    assert_eq!(waited(&kit, &worker, &run).await.problem(400), "invalid");
    worker.name = "gone".to_owned();
    run["run"] = json!(1);
    assert_eq!(waited(&kit, &worker, &run).await.problem(410), "over");
}
