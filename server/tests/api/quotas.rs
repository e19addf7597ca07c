//! Quotas: how many live tasks a token may bring about.

use serde_json::json;
use windlass::Command;
use windlass_server::{NewToken, Role, Scope, Server};

use crate::kit::Kit;

async fn with_quota(most: u64) -> (Kit, String) {
    let kit = Kit::new().await;
    let scope = Scope::new(["mail".to_owned(), "box/*".to_owned()], []).unwrap();
    let new = NewToken::new("some", Role::Operate)
        .scope(scope)
        .max_tasks(most);
    let token = kit.tokens.make(new, None).await.unwrap().1;
    (kit, token)
}

fn mail(id: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","kind":"mail"{more}}}"#)
}

#[tokio::test]
async fn a_submit_over_the_quota_is_refused_with_both_numbers() {
    let (kit, token) = with_quota(2).await;
    kit.submit("others", "pay").await;
    let submit =
        async |id: &str, more: &str| kit.call_as(&token, "POST /v1/tasks", mail(id, more)).await;
    for id in ["a", "b"] {
        assert_eq!(submit(id, "").await.status, 201);
    }
    let refused = submit("c", "").await;
    assert_eq!(refused.problem(409), "quota");
    let says = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        says.contains("have 2 live tasks") && says.contains("at most 2"),
        "{says}"
    );
    let array = format!(
        "[{},{},{}]",
        mail("d", ""),
        mail("a", r#","if_exists":"same""#),
        mail("e", "")
    );
    let array = kit.call_as(&token, "POST /v1/tasks", array).await.json();
    let codes = [&array[0]["code"], &array[1]["submitted"], &array[2]["code"]];
    assert_eq!(
        codes,
        [&json!("quota"), &json!("existing"), &json!("quota")]
    );
    // What adds no task is not refused for the quota.
    assert_eq!(submit("a", r#","if_exists":"skip""#).await.status, 200);
    assert_eq!(submit("a", "").await.problem(409), "taken");
    let lines = |line: &str| format!(r#"{{"lines":[{line}]}}"#);
    for line in [
        r#"{"op":"submit","id":"f","kind":"box/in"}"#,
        r#"{"op":"submit","id":"f","kind":"mail"},{"op":"submit","id":"g","kind":"mail"},{"op":"delete","task":"a"}"#,
    ] {
        let refused = kit
            .call_as(&token, "POST /v1/transactions", lines(line))
            .await;
        assert_eq!(refused.problem(409), "quota", "{line}");
    }
    // Tasks of others count too: those of the kinds of the token.
    assert_eq!(
        kit.call_as(&token, "DELETE /v1/tasks/a", "").await.status,
        204
    );
    kit.submit("more", "box/out").await;
    assert_eq!(submit("c", "").await.problem(409), "quota");
    assert_eq!(
        kit.call_as(&token, "DELETE /v1/tasks/b", "").await.status,
        204
    );
    assert_eq!(submit("c", "").await.status, 201);
    let unlimited = kit.call("POST /v1/tasks", mail("x", "")).await;
    assert_eq!(unlimited.status, 201, "another token has no quota");
}

#[tokio::test]
async fn a_retry_brings_a_task_back_and_counts() {
    let (kit, token) = with_quota(1).await;
    kit.submit("a", "mail").await;
    let runner = windlass::Runner::builder(&kit.store)
        .handler("mail", async |_| windlass::Message::pause())
        .start()
        .await
        .unwrap();
    kit.client.command("a", Command::Kill).await.unwrap();
    kit.client.wait("a").await.unwrap();
    runner.shutdown().await;
    let submitted = kit.call_as(&token, "POST /v1/tasks", mail("b", "")).await;
    assert_eq!(submitted.status, 201, "an ended task does not count");
    let retry = async || kit.call_as(&token, "POST /v1/tasks/a/retry", "").await;
    assert_eq!(retry().await.problem(409), "quota");
    let replace = mail("a", r#","if_exists":"replace-finished""#);
    let replaced = kit.call_as(&token, "POST /v1/tasks", replace).await;
    assert_eq!(replaced.problem(409), "quota");
    assert_eq!(
        kit.call_as(&token, "DELETE /v1/tasks/b", "").await.status,
        204
    );
    assert_eq!(retry().await.status, 200);
}

/// Requests at the same time take turns.
#[tokio::test(flavor = "multi_thread")]
async fn requests_at_the_same_time_do_not_exceed_the_quota() {
    let (kit, token) = with_quota(20).await;
    let requests = (0..30).map(|n| {
        let one = mail(&format!("one-{n}"), "");
        let array = format!(
            "[{},{}]",
            mail(&format!("a-{n}"), ""),
            mail(&format!("b-{n}"), "")
        );
        let body = if n % 2 == 0 { one } else { array };
        kit.call_as(&token, "POST /v1/tasks", body)
    });
    let answers = futures::future::join_all(requests).await;
    let made = answers
        .iter()
        .map(|answer| answer.text.matches(r#""submitted":"new""#).count());
    assert_eq!(made.sum::<usize>(), 20);
    let listed = kit.get("/v1/tasks?limit=100").await.json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn a_quota_is_shown_and_needs_kinds() {
    let kit = Kit::new().await;
    let make = async |body: &str| kit.call("POST /v1/tokens", body.to_owned()).await;
    let made = make(r#"{"name":"a","role":"operate","kinds":["mail"],"max_tasks":7}"#).await;
    assert_eq!(
        (made.status.as_u16(), &made.json()["max_tasks"]),
        (201, &json!(7))
    );
    let all = kit.get("/v1/tokens").await.json();
    let shown = all["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| &token["max_tasks"]);
    assert_eq!(shown.collect::<Vec<_>>(), [&json!(7), &json!(null)]);
    for body in [
        r#"{"name":"b","role":"operate","max_tasks":7}"#,
        r#"{"name":"b","role":"operate","kinds":["mail"],"labels":{"team":"x"},"max_tasks":7}"#,
    ] {
        assert_eq!(make(body).await.field(), "max_tasks", "{body}");
    }
    // Another server of the namespace knows the quota.
    let other = Kit::of_server(&kit, Server::builder(&kit.store).build());
    let token = kit.tokens.make(
        NewToken::new("none", Role::Operate)
            .scope(Scope::new(["mail".to_owned()], []).unwrap())
            .max_tasks(0),
        None,
    );
    let token = token.await.unwrap().1;
    let refused = other.call_as(&token, "POST /v1/tasks", mail("a", "")).await;
    assert_eq!(refused.problem(409), "quota");
}

/// A client that has lost an answer repeats the request, also when its own task has filled the quota.
#[tokio::test]
async fn a_repetition_has_the_same_answer_at_a_full_quota() {
    let (kit, token) = with_quota(2).await;
    let send = async |line: &str, key: &str, body: &str| {
        let mut request = crate::kit::request(&token, line, body.to_owned());
        let headers = request.headers_mut();
        headers.insert("idempotency-key", key.parse().unwrap());
        kit.send(request).await
    };
    let both = r#"{"lines":[{"op":"submit","id":"a","kind":"mail"},{"op":"submit","id":"b","kind":"mail"}]}"#;
    for _ in 0..2 {
        let applied = send("POST /v1/transactions", "both", both).await;
        assert_eq!(applied.status, 200, "{}", applied.text);
    }
    let named = format!(r#"{{"id":"tx1",{}"#, &both.replace("\"a\"", "\"c\"")[1..]);
    let refused = kit.call_as(&token, "POST /v1/transactions", named).await;
    assert_eq!(refused.problem(409), "quota");
    let other = send(
        "POST /v1/transactions",
        "both",
        &both.replace("\"a\"", "\"c\""),
    )
    .await;
    assert_eq!(other.problem(409), "key_used");
    // One goes and one comes.
    let swap = r#"{"lines":[{"op":"delete","task":"a"},{"op":"submit","id":"c","kind":"mail"}]}"#;
    let swapped = send("POST /v1/transactions", "swap", swap).await;
    assert_eq!(swapped.status, 200, "{}", swapped.text);
    // One task that was made without an id, an array, and a retry.
    kit.client.command("c", Command::Kill).await.unwrap();
    kit.client.delete("b").await.unwrap();
    kit.client.delete("c").await.unwrap_or_default();
    let (one, many) = (r#"{"kind":"mail"}"#, r#"[{"kind":"mail"}]"#);
    let first = send("POST /v1/tasks", "one", one).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let array = send("POST /v1/tasks", "many", many).await;
    assert_eq!(array.json()[0]["submitted"], "new", "{}", array.text);
    assert_eq!(
        send("POST /v1/tasks", "full", one).await.problem(409),
        "quota"
    );
    assert_eq!(send("POST /v1/tasks", "one", one).await.text, first.text);
    assert_eq!(send("POST /v1/tasks", "many", many).await.text, array.text);
}
