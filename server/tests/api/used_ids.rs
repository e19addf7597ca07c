//! Ids and keys that were used before: the same answer, or a refusal, and never a part of a request.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_server::{
    Role,
    axum::{body::Body, http::Request},
};

use crate::kit::{Answer, Kit, request};

fn keyed(token: &str, line: &str, body: &str, key: &str) -> Request<Body> {
    let mut request = request(token, line, body.to_owned());
    let headers = request.headers_mut();
    headers.insert("idempotency-key", key.parse().unwrap());
    request
}

async fn ids(kit: &Kit) -> BTreeSet<String> {
    let listed = kit.get("/v1/tasks").await.json();
    let tasks = listed["tasks"].as_array().unwrap().iter();
    tasks
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect()
}

fn set<const N: usize>(ids: [&str; N]) -> BTreeSet<String> {
    ids.map(str::to_owned).into()
}

/// Regression: the tasks by which an array was longer than the first one were submitted.
#[tokio::test]
async fn an_array_under_a_used_key_submits_nothing() {
    let kit = Kit::new().await;
    let send = async |body: &str, key: &str| {
        kit.send(keyed(&kit.admin, "POST /v1/tasks", body, key))
            .await
    };
    let first = r#"[{"id":"a","kind":"k"},{"kind":7}]"#;
    let made = send(first, "1").await;
    assert_eq!(made.status, 200, "{}", made.text);
    for other in [
        r#"[{"id":"a","kind":"k"},{"kind":7},{"id":"b","kind":"k"}]"#,
        r#"[{"kind":7},{"id":"b","kind":"k"}]"#,
        r#"[{"id":"b","kind":"k"}]"#,
        r#"[ {"id":"a","kind":"k"},{"kind":7}]"#,
        "[]",
        r#"{"id":"b","kind":"k"}"#,
    ] {
        let refused = send(other, "1").await;
        assert_eq!(refused.problem(409), "key_used", "{other}");
        assert_eq!(refused.json()["field"], "Idempotency-Key");
    }
    assert_eq!(send(first, "1").await.text, made.text);
    assert_eq!(ids(&kit).await, set(["a"]));
    // Nor is the key of another request for an array.
    let one = send(r#"{"id":"one","kind":"k"}"#, "2").await;
    assert_eq!(one.status, 201, "{}", one.text);
    let refused = send(r#"[{"id":"one","kind":"k"},{"id":"two","kind":"k"}]"#, "2").await;
    assert_eq!(refused.problem(409), "key_used");
    // Lines take no key.
    let mut lines = keyed(&kit.admin, "POST /v1/tasks", "{\"kind\":\"k\"}\n", "1");
    let kind = "application/x-ndjson".parse().unwrap();
    lines.headers_mut().insert("content-type", kind);
    assert_eq!(kit.send(lines).await.field(), "Idempotency-Key");
    assert_eq!(ids(&kit).await, set(["a", "one"]));
}

/// A key belongs to one token, and not to the next one of its name.
#[tokio::test]
async fn a_key_is_of_one_token_and_not_of_the_next_of_its_name() {
    let kit = Kit::new().await;
    let body = r#"{"id":"a","kind":"k"}"#;
    for (status, code) in [(201, ""), (409, "exists")] {
        let token = kit.token("ci", Role::Operate, &[]).await;
        let made = kit.send(keyed(&token, "POST /v1/tasks", body, "1")).await;
        assert_eq!(made.status, status, "{}", made.text);
        if !code.is_empty() {
            assert_eq!(made.problem(status), code);
        }
        assert_eq!(kit.call("DELETE /v1/tokens/ci", "").await.status, 204);
    }
}

fn is_id_used(answer: &Answer) {
    assert_eq!(answer.problem(409), "id_used", "{}", answer.text);
}

/// Regression: it was refused as a wrong field, which a program takes for an error of its own.
#[tokio::test]
async fn an_id_that_was_used_with_another_content_is_a_conflict() {
    let kit = Kit::new().await;
    for id in ["a", "b"] {
        kit.submit(id, "k").await;
    }
    let transaction =
        async |body: &serde_json::Value| kit.call("POST /v1/transactions", body.to_string()).await;
    let delete = |id: &str| json!({"op": "delete", "task": id});
    let send = |task: &str, command: &str| json!({"op": "send", "task": task, "id": "c", "command": command});
    let first = json!({"id": "t", "lines": [send("a", "pause")]});
    assert_eq!(transaction(&first).await.status, 200);
    assert_eq!(transaction(&first).await.status, 200, "a repetition");
    for lines in [
        json!([delete("b")]),
        json!([send("a", "pause"), delete("b")]),
        json!([send("a", "kill")]),
    ] {
        is_id_used(&transaction(&json!({"id": "t", "lines": lines})).await);
    }
    // The id of a command, alone and in a transaction.
    for (task, command) in [("b", "pause"), ("a", "kill")] {
        let line = format!("POST /v1/tasks/{task}/commands");
        let body = json!({"id": "c", "command": command}).to_string();
        is_id_used(&kit.call(&line, body).await);
        for lines in [
            json!([send(task, command)]),
            json!([send(task, command), {"op": "submit", "id": "new", "kind": "k"}]),
        ] {
            for dry_run in [true, false] {
                is_id_used(&transaction(&json!({"lines": lines, "dry_run": dry_run})).await);
            }
        }
    }
    is_id_used(&kit.call("POST /v1/tasks/b/signals/s?id=c", "1").await);
    assert_eq!(ids(&kit).await, set(["a", "b"]), "nothing was changed");
    // Regression: another note was taken for a repetition, and dropped.
    let line = "POST /v1/tasks/a/commands";
    let noted = |id: &str, note: &str| json!({"id": id, "command": "pause", "note": note});
    is_id_used(&kit.call(line, noted("c", "new").to_string()).await);
    for status in [202, 202] {
        let sent = kit.call(line, noted("n", "first").to_string()).await;
        assert_eq!(sent.status, status, "{}", sent.text);
    }
    is_id_used(&kit.call(line, noted("n", "second").to_string()).await);
    is_id_used(&kit.call(line, r#"{"id":"n","command":"pause"}"#).await);
    let mut other = send("a", "pause");
    other["note"] = json!("second");
    is_id_used(&transaction(&json!({"lines": [other]})).await);
    is_id_used(&transaction(&json!({"id": "t", "lines": [other]})).await);
    // A malformed id is a wrong field.
    for body in [
        json!({"id": "a/b", "command": "pause"}),
        json!({"id": "", "command": "pause"}),
    ] {
        let wrong = kit
            .call("POST /v1/tasks/a/commands", body.to_string())
            .await;
        assert_eq!(wrong.problem(400), "invalid", "{body}");
    }
    // A scope does not learn whose command it is.
    let token = kit.token("mail", Role::Operate, &["mail"]).await;
    let own = r#"{"id":"own","kind":"mail"}"#;
    assert_eq!(kit.call_as(&token, "POST /v1/tasks", own).await.status, 201);
    let body = json!({"id": "c", "command": "pause"}).to_string();
    let refused = kit
        .call_as(&token, "POST /v1/tasks/own/commands", body)
        .await;
    is_id_used(&refused);
    assert!(!refused.text.contains("'a'"), "{}", refused.text);
}
