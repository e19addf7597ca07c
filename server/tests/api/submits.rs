//! Submits of tasks that wait for others.

use serde_json::json;
use windlass::NewTask;

use crate::kit::Kit;

/// Regression: a task that waited for a mistyped id started at once.
#[tokio::test]
async fn a_submit_waits_only_for_tasks_that_exist() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    for field in ["after", "after_ok"] {
        let task =
            |more: &str| format!(r#"{{"id":"{field}","kind":"k","{field}":["a","typo"]{more}}}"#);
        let refused = kit.call("POST /v1/tasks", task("")).await;
        assert_eq!(refused.field(), field);
        assert!(
            refused.text.contains("task 'typo' does not exist"),
            "{}",
            refused.text
        );
        let refused = kit
            .call("POST /v1/tasks", task(r#","allow_missing":false"#))
            .await;
        assert_eq!(refused.field(), field);
        let wrong = kit
            .call("POST /v1/tasks", task(r#","allow_missing":1"#))
            .await;
        assert_eq!(wrong.field(), "allow_missing");
        let allowed = kit
            .call("POST /v1/tasks", task(r#","allow_missing":true"#))
            .await;
        assert_eq!(allowed.status, 201, "{}", allowed.text);
        // A repeated submit is not checked.
        let same = task(r#","if_exists":"same""#);
        let again = kit.call("POST /v1/tasks", same).await;
        assert_eq!(again.json()["submitted"], "existing");
    }
    let body = r#"{"id":"b","kind":"k","after":["typo"]}"#;
    let allowed = kit.call("POST /v1/tasks?allow_missing=true", body).await;
    assert_eq!(allowed.status, 201, "{}", allowed.text);
}

#[tokio::test]
async fn ids_of_the_same_request_exist_for_its_tasks() {
    let kit = Kit::new().await;
    let array = r#"[{"id":"b","kind":"k","after":["a"]},{"id":"a","kind":"k"},
        {"id":"c","kind":"k","after":["typo"]},{"id":"d","kind":"k","after":["c"]},
        {"id":"e","kind":"k","after":["typo"],"allow_missing":true}]"#;
    let answer = kit.call("POST /v1/tasks", array).await.json();
    let results: Vec<_> = answer.as_array().unwrap().iter().collect();
    let of = |n: usize, name: &str| results[n][name].clone();
    assert_eq!(
        (of(0, "submitted"), of(1, "submitted")),
        (json!("new"), json!("new"))
    );
    assert_eq!(
        (of(2, "field"), of(3, "field")),
        (json!("after"), json!("after"))
    );
    assert_eq!(of(4, "submitted"), "new");
    // Of lines, those before.
    let lines = "{\"id\":\"l1\",\"kind\":\"k\"}\n{\"id\":\"l2\",\"kind\":\"k\",\"after\":[\"l1\"]}\n\
                 {\"id\":\"l3\",\"kind\":\"k\",\"after\":[\"l4\"]}\n{\"id\":\"l4\",\"kind\":\"k\"}\n";
    let mut request = crate::kit::request(&kit.admin, "POST /v1/tasks", lines);
    let kind = "application/x-ndjson".parse().unwrap();
    request.headers_mut().insert("content-type", kind);
    let answer = kit.send(request).await;
    let lines = answer.text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line.get("submitted")
            .or(line.get("field"))
            .cloned()
            .unwrap()
    });
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines, ["new", "new", "after", "new"]);
}

/// A key of a request stands for its tasks, also when what they waited for is gone.
#[tokio::test]
async fn a_repeated_request_with_a_key_is_not_checked() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    for body in [
        r#"{"id":"b","kind":"k","after":["a"]}"#,
        r#"[{"id":"c","kind":"k","after":["a"]}]"#,
    ] {
        let send = async || {
            let mut request = crate::kit::request(&kit.admin, "POST /v1/tasks", body);
            let key = format!("key-{}", body.len()).parse().unwrap();
            request.headers_mut().insert("idempotency-key", key);
            kit.send(request).await.json()
        };
        let first = send().await;
        kit.client.delete("a").await.unwrap();
        let id = if body.starts_with('[') { "c" } else { "b" };
        kit.client.delete(id).await.unwrap();
        assert_eq!(send().await, first);
        kit.client.submit(NewTask::new("k").id("a")).await.unwrap();
    }
}
