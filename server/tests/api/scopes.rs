//! A token with a scope: every way by which it could see or change a task of others.

use serde_json::json;
use windlass::{Client, Command, NewTask, store::Store};
use windlass_server::{NewToken, Role, Scope};

use crate::kit::{Kit, request};

/// A task of the token, one of others, and the token.
pub(crate) async fn scoped() -> (Kit, String) {
    let kit = Kit::new().await;
    kit.submit("mine", "mail").await;
    let theirs = NewTask::new("pay")
        .id("theirs")
        .props(&json!({"secret": 7}));
    kit.client
        .submit(theirs.unique("card", std::time::Duration::from_secs(3600)))
        .await
        .unwrap();
    kit.client
        .command_with_id("theirs", "c1", Command::Pause)
        .await
        .unwrap();
    let token = kit.token("mail", Role::Operate, &["mail", "box/*"]).await;
    (kit, token)
}

#[tokio::test]
async fn a_task_of_others_does_not_exist() {
    let (kit, token) = scoped().await;
    for line in [
        "GET /v1/tasks/theirs",
        "GET /v1/tasks/theirs?wait=1s",
        "GET /v1/tasks/theirs/history",
        "GET /v1/tasks/theirs/log",
        "GET /v1/tasks/theirs/commands",
        "GET /v1/commands/c1",
        "DELETE /v1/tasks/theirs",
        "POST /v1/tasks/theirs/retry",
        "POST /v1/tasks/theirs/signals/x",
    ] {
        let theirs = kit.call_as(&token, line, "").await;
        assert_eq!(theirs.problem(404), "not_found", "{line}");
        let missing = line.replace("theirs", "none").replace("c1", "none");
        let missing = kit.call_as(&token, &missing, "").await;
        assert_eq!(
            missing
                .text
                .replace("none", "theirs")
                .replace("'theirs'", "''"),
            theirs
                .text
                .replace("c1", "theirs")
                .replace("'theirs'", "''"),
            "{line}"
        );
    }
    for (line, body) in [
        ("POST /v1/tasks/theirs/commands", r#"{"command":"kill"}"#),
        ("POST /v1/tasks/theirs/reschedule", r#"{"priority":1}"#),
    ] {
        assert_eq!(
            kit.call_as(&token, line, body).await.problem(404),
            "not_found",
            "{line}"
        );
    }
    let record = kit.client.get("theirs").await.unwrap();
    assert_eq!(
        (record.task.priority, record.commands),
        (0, 1),
        "nothing has changed"
    );
}

#[tokio::test]
async fn a_list_has_only_tasks_of_the_scope_whatever_the_filter_is() {
    let (kit, token) = scoped().await;
    for query in [
        "",
        "?kind=pay",
        "?id=theirs",
        "?prefix=the",
        "?props_at=/secret=7",
        "?order=id",
        "?state=runnable",
    ] {
        let page = kit
            .call_as(&token, &format!("GET /v1/tasks{query}"), "")
            .await;
        assert!(
            !page.text.contains("theirs") && !page.text.contains("secret\":7"),
            "{query}: {}",
            page.text
        );
    }
    let all = kit.call_as(&token, "GET /v1/tasks", "").await.json();
    assert_eq!(all["tasks"][0]["id"], "mine");
    let counts = kit.call_as(&token, "GET /v1/counts", "").await.json();
    assert_eq!(
        counts["counts"],
        json!([{"kind":"mail","state":"runnable","tasks":1,"claimed":0}])
    );
    for line in ["GET /v1/nodes", "GET /v1/limits", "GET /v1/audit"] {
        assert_eq!(
            kit.call_as(&token, line, "").await.problem(403),
            "forbidden",
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_submit_stays_within_the_scope() {
    let (kit, token) = scoped().await;
    for (body, status, code) in [
        (r#"{"id":"x","kind":"pay"}"#, 403, "forbidden"),
        (
            r#"{"id":"x","kind":"schedule","props":{}}"#,
            403,
            "forbidden",
        ),
        (
            r#"{"id":"x","kind":"mail","after":["theirs"]}"#,
            404,
            "not_found",
        ),
        (r#"{"id":"theirs","kind":"mail"}"#, 409, "taken"),
        (
            r#"{"id":"theirs","kind":"mail","if_exists":"same"}"#,
            409,
            "taken",
        ),
        (
            r#"{"id":"theirs","kind":"mail","if_exists":"replace-waiting"}"#,
            409,
            "taken",
        ),
        (
            r#"{"id":"x","kind":"mail","unique":{"key":"card","within":"1h"}}"#,
            409,
            "taken",
        ),
        (
            r#"{"id":"x","kind":"mail","unique":{"key":"card","within":"1h"},"if_exists":"same"}"#,
            403,
            "forbidden",
        ),
    ] {
        let refused = kit.call_as(&token, "POST /v1/tasks", body).await;
        assert_eq!(refused.problem(status), code, "{body}");
        assert!(
            !refused.text.contains("pay") || body.contains("pay"),
            "{}",
            refused.text
        );
    }
    let array = kit
        .call_as(
            &token,
            "POST /v1/tasks",
            r#"[{"id":"x","kind":"pay"},{"id":"y","kind":"box/in"}]"#,
        )
        .await;
    let results = array.json();
    assert_eq!(
        (&results[0]["code"], &results[1]["submitted"]),
        (&json!("forbidden"), &json!("new"))
    );
    let missing = kit.client.get("x").await;
    assert!(missing.is_err());
}

#[tokio::test]
async fn no_part_of_a_transaction_reaches_a_task_of_others() {
    let (kit, token) = scoped().await;
    for (line, status) in [
        (r#"{"op":"delete","task":"theirs"}"#, 404),
        (r#"{"op":"send","task":"theirs","command":"kill"}"#, 404),
        (r#"{"op":"retry","task":"theirs"}"#, 404),
        (r#"{"op":"reschedule","task":"theirs","priority":1}"#, 404),
        (r#"{"op":"reschedule","task":"mine","kind":"pay"}"#, 403),
        (
            r#"{"op":"require","task":"theirs","state":"runnable"}"#,
            409,
        ),
        (r#"{"op":"require","task":"theirs","exists":false}"#, 409),
        (r#"{"op":"submit","id":"x","kind":"pay"}"#, 403),
    ] {
        for dry_run in [true, false] {
            let body = format!(
                r#"{{"dry_run":{dry_run},"lines":[{{"op":"submit","id":"y","kind":"mail"}},{line}]}}"#
            );
            let refused = kit.call_as(&token, "POST /v1/transactions", body).await;
            assert_eq!(refused.status.as_u16(), status, "{line}: {}", refused.text);
        }
        assert!(
            kit.client.get("y").await.is_err(),
            "nothing was applied: {line}"
        );
    }
    let own = r#"{"lines":[{"op":"submit","id":"y","kind":"mail"},{"op":"reschedule","task":"mine","kind":"box/out"}]}"#;
    let applied = kit.call_as(&token, "POST /v1/transactions", own).await;
    assert_eq!(applied.status, 200, "{}", applied.text);
    let kind = r#"{"kind":"pay"}"#;
    let refused = kit
        .call_as(&token, "POST /v1/tasks/mine/reschedule", kind)
        .await;
    assert_eq!(refused.problem(403), "forbidden");
}

#[tokio::test]
async fn a_label_scope_sees_its_labels_only() {
    let kit = Kit::with(Store::open("memory:").await.unwrap()).await;
    let client: &Client = &kit.client;
    client
        .submit(NewTask::new("k").id("a").label("team", "x"))
        .await
        .unwrap();
    client
        .submit(NewTask::new("k").id("b").label("team", "y"))
        .await
        .unwrap();
    let scope = Scope::new([], [("team".to_owned(), "x".to_owned())]).unwrap();
    let made = kit
        .tokens
        .make(NewToken::new("x", Role::Operate).scope(scope), None)
        .await;
    let token = made.unwrap().1;
    let page = kit.call_as(&token, "GET /v1/tasks", "").await.json();
    assert_eq!(page["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(
        kit.call_as(&token, "GET /v1/tasks/b", "")
            .await
            .problem(404),
        "not_found"
    );
    assert_eq!(
        kit.call_as(&token, "GET /v1/counts", "").await.problem(403),
        "forbidden"
    );
    let bare = kit
        .call_as(&token, "POST /v1/tasks", r#"{"kind":"k"}"#)
        .await;
    assert_eq!(bare.problem(403), "forbidden");
    let own = kit
        .call_as(
            &token,
            "POST /v1/tasks",
            r#"{"kind":"k","labels":{"team":"x"}}"#,
        )
        .await;
    assert_eq!(own.status, 201);
}

/// A unique key leads to a task that the submit does not name.
#[tokio::test]
async fn a_unique_key_leads_to_no_task_of_others() {
    let (kit, token) = scoped().await;
    let before = kit.client.get("theirs").await.unwrap();
    for how in ["same", "skip", "replace-waiting", "replace-finished"] {
        let task = format!(
            r#"{{"id":"evil","kind":"mail","props":"evil","unique":{{"key":"card","within":"1h"}},"if_exists":"{how}"}}"#
        );
        let line = task.replacen('{', r#"{"op":"submit","#, 1);
        let first = r#"{"op":"submit","id":"first","kind":"mail"}"#;
        let mut lines = request(&token, "POST /v1/tasks", task.clone());
        let kind = "application/x-ndjson".parse().unwrap();
        lines.headers_mut().insert("content-type", kind);
        for answer in [
            kit.call_as(&token, "POST /v1/tasks", task.clone()).await,
            kit.call_as(&token, "POST /v1/tasks", format!("[{task}]"))
                .await,
            kit.send(lines).await,
            kit.call_as(
                &token,
                "POST /v1/transactions",
                format!(r#"{{"lines":[{first},{line}]}}"#),
            )
            .await,
            kit.call_as(
                &token,
                "POST /v1/transactions",
                format!(r#"{{"dry_run":true,"lines":[{first},{line}]}}"#),
            )
            .await,
        ] {
            assert!(
                answer.text.contains(r#""code":"forbidden""#),
                "{how}: {}",
                answer.text
            );
            assert!(!answer.text.contains("theirs"), "{how}: {}", answer.text);
        }
        let after = kit.client.get("theirs").await.unwrap();
        assert_eq!(
            (after.task.props, after.order),
            (before.task.props.clone(), before.order),
            "{how}"
        );
        for id in ["first", "evil"] {
            assert!(
                kit.client.get(id).await.is_err(),
                "{how}: nothing was applied"
            );
        }
    }
    let refuse =
        r#"{"op":"submit","id":"evil","kind":"mail","unique":{"key":"card","within":"1h"}}"#;
    for dry_run in [true, false] {
        let body = format!(r#"{{"dry_run":{dry_run},"lines":[{refuse}]}}"#);
        let answer = kit.call_as(&token, "POST /v1/transactions", body).await;
        assert_eq!(answer.problem(409), "refused");
        assert!(!answer.text.contains("theirs"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_transaction_may_wait_for_its_own_tasks() {
    let (kit, token) = scoped().await;
    let lines = r#"{"lines":[{"op":"submit","id":"a1","kind":"mail"},{"op":"submit","id":"a2","kind":"mail","after":["a1"]}]}"#;
    let applied = kit.call_as(&token, "POST /v1/transactions", lines).await;
    assert_eq!(applied.status, 200, "{}", applied.text);
}
