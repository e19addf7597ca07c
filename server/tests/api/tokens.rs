//! Tokens: made, used, rotated, expired and revoked.

use std::time::Duration;

use serde_json::json;
use windlass_server::{NewToken, Role, Scope, Server};

use crate::kit::Kit;

#[tokio::test]
async fn a_token_is_made_used_rotated_and_revoked() {
    let kit = Kit::new().await;
    let body = r#"{"name":"ci","role":"operate","kinds":["build/*"],"expires_in":"90d"}"#;
    let made = kit.call("POST /v1/tokens", body).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!((secret.len(), &secret[..4]), (68, "wlt_"));
    assert_eq!(
        (&made["made_by"], &made["secrets"]),
        (&json!("token admin"), &json!(1))
    );
    let again = kit.call("POST /v1/tokens", body).await;
    assert_eq!(again.problem(409), "exists");
    let used = kit
        .call_as(&secret, "POST /v1/tasks", r#"{"kind":"build/x"}"#)
        .await;
    assert_eq!(used.status, 201, "{}", used.text);

    let rotated = kit
        .call("POST /v1/tokens/ci/rotate?overlap=1h", "")
        .await
        .json();
    let second = rotated["secret"].as_str().unwrap().to_owned();
    assert_eq!(rotated["secrets"], 2);
    for secret in [&secret, &second] {
        assert_eq!(kit.call_as(secret, "GET /v1/tasks", "").await.status, 200);
    }
    // Without an overlap only the newest secret is valid.
    let third = kit.call("POST /v1/tokens/ci/rotate", "").await.json();
    let third = third["secret"].as_str().unwrap().to_owned();
    assert_eq!(kit.call_as(&third, "GET /v1/tasks", "").await.status, 200);
    for secret in [&secret, &second] {
        let refused = kit.call_as(secret, "GET /v1/tasks", "").await;
        assert_eq!(refused.problem(401), "unauthorized");
    }

    let list = kit.get("/v1/tokens").await;
    for secret in [&secret, &second, &third, &kit.admin] {
        assert!(!list.text.contains(&secret[4..]), "a list has no secrets");
    }
    let names: Vec<_> = list.json()["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["name"].clone())
        .collect();
    assert_eq!(names, ["admin", "ci"]);
    assert_eq!(kit.call("DELETE /v1/tokens/ci", "").await.status, 204);
    assert_eq!(
        kit.call("DELETE /v1/tokens/ci", "").await.problem(404),
        "not_found"
    );
    assert_eq!(
        kit.call("POST /v1/tokens/ci/rotate", "").await.problem(404),
        "not_found"
    );
    let refused = kit.call_as(&third, "GET /v1/tasks", "").await;
    assert_eq!(refused.problem(401), "unauthorized");
    let audit = kit.get("/v1/audit").await.text;
    assert!(
        audit.contains(r#""what":"value-deleted","name":"server/token/ci""#),
        "{audit}"
    );
}

#[tokio::test]
async fn a_token_that_makes_no_sense_is_refused_with_the_field() {
    let kit = Kit::new().await;
    for (body, field) in [
        (r#"{"name":"a b","role":"read"}"#, "name"),
        (r#"{"name":"../x","role":"read"}"#, "name"),
        (r#"{"name":"x","role":"king"}"#, "body"),
        (r#"{"name":"x","role":"read","kinds":["*"]}"#, "kinds"),
        (r#"{"name":"x","role":"admin","kinds":["mail"]}"#, "role"),
        (
            r#"{"name":"x","role":"read","expires_in":"soon"}"#,
            "expires_in",
        ),
        (
            r#"{"name":"x","role":"read","expires_in":"0s"}"#,
            "expires_in",
        ),
        (r#"{"name":"x","role":"read","kind":"mail"}"#, "body"),
    ] {
        let refused = kit.call("POST /v1/tokens", body).await;
        assert_eq!(refused.field(), field, "{body}");
    }
    assert_eq!(kit.tokens.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_token_expires() {
    let kit = Kit::new().await;
    let short = NewToken::new("short", Role::Read).valid_for(Duration::from_secs(1));
    let (token, secret) = kit.tokens.make(short, None).await.unwrap();
    assert_eq!(kit.call_as(&secret, "GET /v1/tasks", "").await.status, 200);
    let expires = token.expires_at.unwrap();
    let left = expires
        .duration_since(kit.client.now())
        .try_into()
        .unwrap_or_default();
    tokio::time::sleep(left).await;
    let refused = kit.call_as(&secret, "GET /v1/tasks", "").await;
    assert_eq!(refused.problem(401), "unauthorized");
}

#[tokio::test]
async fn a_role_may_do_what_it_says_and_no_more() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    let read = kit.token("r", Role::Read, &[]).await;
    let operate = kit.token("o", Role::Operate, &[]).await;
    let work = kit.token("w", Role::Work, &[]).await;
    let index = kit.get("/v1").await.json();
    for request in index["requests"].as_array().unwrap() {
        let (method, path, role) = (
            request["method"].as_str().unwrap(),
            request["path"].as_str().unwrap(),
            request["role"].as_str().unwrap(),
        );
        if path == "/v1/changes" {
            continue;
        }
        let path = path
            .replace("{id}", "a")
            .replace("{name}", "n")
            .replace("{node}", "n")
            .replace("{order}", "1");
        let line = format!("{method} {path}");
        for (token, own, may) in [
            (&read, "read", role == "read"),
            (&operate, "operate", matches!(role, "read" | "operate")),
            (&work, "work", role == "work"),
        ] {
            let answer = kit.call_as(token, &line, "").await;
            let is_forbidden = answer.status == 403;
            assert_eq!(
                is_forbidden, !may,
                "{own} {line}: {} {}",
                answer.status, answer.text
            );
            if is_forbidden {
                let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                assert!(
                    detail.contains(&format!("needs the role {role}")),
                    "{detail}"
                );
            }
        }
        // A retry of the task that the request before has deleted would be missing.
        let _ = kit
            .client
            .submit(windlass::NewTask::new("k").id("a").idempotent())
            .await;
    }
}

#[tokio::test]
async fn every_server_of_a_namespace_knows_its_tokens() {
    let kit = Kit::new().await;
    let other = Server::builder(&kit.store).build();
    let other = Kit::of_server(&kit, other);
    let token = kit.token("t", Role::Read, &[]).await;
    assert_eq!(other.call_as(&token, "GET /v1/tasks", "").await.status, 200);
    kit.tokens.revoke("t", None).await.unwrap();
    let refused = async {
        while other.call_as(&token, "GET /v1/tasks", "").await.status != 401 {
            tokio::task::yield_now().await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(5), refused).await;
    within.expect("the other server refuses it soon");
}

#[tokio::test]
async fn a_damaged_token_is_refused_and_the_others_work() {
    let kit = Kit::new().await;
    let token = kit.token("t", Role::Read, &[]).await;
    assert_eq!(kit.call_as(&token, "GET /v1/tasks", "").await.status, 200);
    let damage = windlass::store::SetValue::new("server/token/t", "{}");
    assert!(kit.store.registry().set_value(&damage).await.unwrap());
    let list = kit.get("/v1/tokens").await.json();
    assert_eq!(list["tokens"].as_array().unwrap().len(), 1);
    let rotate = kit.call("POST /v1/tokens/t/rotate", "").await;
    assert_eq!(rotate.problem(409), "unreadable");
    assert!(rotate.text.contains("revoke it"), "{}", rotate.text);
    assert_eq!(kit.call("DELETE /v1/tokens/t", "").await.status, 204);
    let scope = Scope::new([], [("team".to_owned(), "x".to_owned())]).unwrap();
    let new = NewToken::new("t", Role::Read).scope(scope);
    kit.tokens.make(new, None).await.unwrap();
}

#[tokio::test]
async fn metrics_are_shown_to_readers_of_everything() {
    let kit = Kit::new().await;
    assert_eq!(kit.get("/metrics").await.problem(404), "no_metrics");
    let server = Server::builder(&kit.store)
        .metrics(|| "windlass_tasks 7\n".to_owned())
        .build();
    let kit = Kit::of_server(&kit, server);
    let reader = kit.token("prometheus", Role::Read, &[]).await;
    let scoped = kit.token("scoped", Role::Operate, &["mail"]).await;
    let shown = kit.call_as(&reader, "GET /metrics", "").await;
    assert_eq!(
        (shown.status.as_u16(), &*shown.text),
        (200, "windlass_tasks 7\n")
    );
    let kind = shown.headers["content-type"].to_str().unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let refused = kit.call_as(&scoped, "GET /metrics", "").await;
    assert_eq!(refused.problem(403), "forbidden");
    let refused = kit.call_as("wlt_none", "GET /metrics", "").await;
    assert_eq!(refused.problem(401), "unauthorized");
}
