//! Transactions, and requests that are repeated with a key.

use serde_json::json;

use crate::kit::{Kit, request};

#[tokio::test]
async fn a_transaction_is_applied_whole_or_not_at_all() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let lines = r#"{"lines":[{"op":"delete","task":"a"},{"op":"submit","id":"b","kind":"k"},
        {"op":"require","task":"c","exists":true}]}"#;
    let refused = kit.call("POST /v1/transactions", lines).await;
    assert_eq!(refused.problem(409), "refused");
    assert_eq!(refused.json()["refused"][0]["reason"], "missing");
    let dry = r#"{"dry_run":true,"lines":[{"op":"delete","task":"a"}]}"#;
    assert_eq!(kit.call("POST /v1/transactions", dry).await.status, 200);
    assert_eq!(
        kit.get("/v1/tasks/a").await.status,
        200,
        "a dry run changes nothing"
    );
    for (body, says) in [
        (
            r#"[{"op":"delete","task":"a"}]"#,
            "is an array, not an object",
        ),
        (r#"{"lines":[]}"#, "has no operation"),
        (r#"{"operations":[]}"#, "write it like"),
    ] {
        let refused = kit.call("POST /v1/transactions", body).await;
        assert!(
            refused.problem(400) == "invalid" && refused.text.contains(says),
            "{}",
            refused.text
        );
    }
    let own = r#"{"dry_run":true,"lines":[{"op":"submit","kind":"k"}]}"#;
    let checked = kit.call("POST /v1/transactions", own).await.json();
    assert_eq!(
        (
            &checked["operations"][0]["done"],
            checked["operations"].as_array().unwrap().len()
        ),
        (&json!(null), 1)
    );
    let wrong = r#"{"lines":[{"op":"delete","task":"a"},{"op":"submit","id":"b"}]}"#;
    assert_eq!(
        kit.call("POST /v1/transactions", wrong).await.field(),
        "lines[1].kind"
    );
    let lines =
        r#"{"id":"t","lines":[{"op":"delete","task":"a"},{"op":"submit","id":"b","kind":"k"}]}"#;
    for _ in 0..2 {
        let applied = kit.call("POST /v1/transactions", lines).await;
        assert_eq!(
            applied.json()["operations"],
            json!([{"line":0,"task":"a","done":"deleted"},{"line":1,"task":"b","done":{"submitted":"new"}}])
        );
    }
}

#[tokio::test]
async fn an_idempotency_key_makes_a_repetition_have_no_further_effect() {
    let kit = Kit::new().await;
    let call = |token: &str, line: &str, body: &str, key: &str| {
        let mut request = request(token, line, body.to_owned());
        request
            .headers_mut()
            .insert("idempotency-key", key.parse().unwrap());
        request
    };
    let other = kit
        .token("other", windlass_server::Role::Operate, &[])
        .await;
    let body = r#"{"id":"one","kind":"k"}"#;
    for _ in 0..2 {
        let made = kit
            .send(call(&kit.admin, "POST /v1/tasks", body, "1"))
            .await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    // The key is the caller's own.
    let taken = kit.send(call(&other, "POST /v1/tasks", body, "1")).await;
    assert_eq!(taken.problem(409), "exists", "as without a key");
    let changed = r#"{"id":"two","kind":"k"}"#;
    let reused = kit
        .send(call(&kit.admin, "POST /v1/tasks", changed, "1"))
        .await;
    assert_eq!(reused.problem(409), "key_used");
    assert_eq!(reused.json()["field"], "Idempotency-Key");
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let bare = kit
            .send(call(
                &kit.admin,
                "POST /v1/tasks",
                r#"{"kind":"k"}"#,
                "bare",
            ))
            .await;
        assert_eq!(bare.status, 201, "{}", bare.text);
        ids.insert(bare.json()["id"].to_string());
        let several = r#"[{"kind":"k"},{"kind":"k"}]"#;
        let several = kit
            .send(call(&kit.admin, "POST /v1/tasks", several, "several"))
            .await;
        ids.extend(
            several
                .json()
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["id"].to_string()),
        );
    }
    assert_eq!(
        ids.len(),
        3,
        "a task without an id gets the same one: {ids:?}"
    );
    for line in [
        "POST /v1/tokens",
        "POST /v1/tokens/admin/rotate",
        "POST /v1/purge",
        "POST /v1/nodes/n/commands",
    ] {
        let refused = kit.send(call(&kit.admin, line, "{}", "4")).await;
        assert_eq!(refused.field(), "Idempotency-Key", "{line}");
    }
    let both = call(
        &kit.admin,
        "POST /v1/tasks/one/commands",
        r#"{"command":"pause","id":"c"}"#,
        "5",
    );
    assert_eq!(kit.send(both).await.field(), "id");
    for _ in 0..2 {
        let many = r#"[{"id":"x","kind":"k"},{"id":"y","kind":"k"}]"#;
        let made = kit
            .send(call(&kit.admin, "POST /v1/tasks", many, "2"))
            .await;
        assert_eq!(made.json()[1]["submitted"], "new");
    }
    for _ in 0..2 {
        let sent = call(
            &kit.admin,
            "POST /v1/tasks/one/commands",
            r#"{"command":"pause"}"#,
            "3",
        );
        assert_eq!(kit.send(sent).await.status, 202);
    }
    let commands = kit.get("/v1/tasks/one/commands").await.json();
    assert_eq!(commands["commands"].as_array().unwrap().len(), 1);
    let wrong = kit.send(call(&kit.admin, "POST /v1/tasks", body, "")).await;
    assert_eq!(wrong.field(), "Idempotency-Key");
}

#[tokio::test]
async fn a_key_is_for_the_body_as_it_was_sent() {
    let kit = Kit::new().await;
    let send = async |line: &str, key: &str, body: &str| {
        let mut request = request(&kit.admin, line, body.to_owned());
        let headers = request.headers_mut();
        headers.insert("idempotency-key", key.parse().unwrap());
        kit.send(request).await
    };
    let at = |time: &str| format!(r#"{{"kind":"mail","start_at":"{time}"}}"#);
    let first = send("POST /v1/tasks", "a", &at("in 5m")).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let again = send("POST /v1/tasks", "a", &at("in 5m")).await;
    assert_eq!(
        again.text, first.text,
        "a repetition keeps the time of the first request"
    );
    for other in ["in 9m", "2031-01-01T00:00:00Z"] {
        let refused = send("POST /v1/tasks", "a", &at(other)).await;
        assert_eq!(refused.problem(409), "key_used", "{other}");
    }
    kit.submit("b", "mail").await;
    for (line, one, other) in [
        (
            "POST /v1/tasks/b/reschedule",
            r#"{"due":"in 5m"}"#,
            r#"{"due":"in 9m"}"#,
        ),
        (
            "POST /v1/transactions",
            r#"{"lines":[{"op":"reschedule","task":"b","due":"in 6m"}]}"#,
            r#"{"lines":[{"op":"reschedule","task":"b","due":"in 7m"}]}"#,
        ),
        (
            "POST /v1/tasks/b/commands",
            r#"{"command":"sleep","until":"in 1h"}"#,
            r#"{"command":"sleep","until":"in 2h"}"#,
        ),
    ] {
        let first = send(line, line, one).await;
        assert!(first.status.is_success(), "{line}: {}", first.text);
        let again = send(line, line, one).await;
        assert!(again.status.is_success(), "{line}: {}", again.text);
        let refused = send(line, line, other).await;
        assert_eq!(refused.problem(409), "key_used", "{line}");
    }
    let tasks = r#"[{"kind":"mail","start_at":"in 5m"}]"#;
    let first = send("POST /v1/tasks", "many", tasks).await;
    let other = send("POST /v1/tasks", "many", &tasks.replace("5m", "9m")).await;
    assert_eq!(first.json()[0]["submitted"], "new");
    assert_eq!(other.problem(409), "key_used", "the array as a whole");
}
