//! Edits of props and data.

use serde_json::json;
use windlass::{Command, Message, NewTask, Runner, TaskContext};
use windlass_server::Role;

use crate::kit::{Answer, Kit, request};

async fn patch(kit: &Kit, token: &str, id: &str, body: &str) -> Answer {
    let mut patch = request(token, &format!("PATCH /v1/tasks/{id}"), body.to_owned());
    let kind = "application/json-patch+json".parse().unwrap();
    patch.headers_mut().insert("content-type", kind);
    kit.send(patch).await
}

#[tokio::test]
async fn a_patch_changes_props_and_no_digit_of_the_rest() {
    let kit = Kit::new().await;
    let task =
        r#"{"id":"a","kind":"mail","props":{"n":12345678901234567890.10,"to":"ann","cc":["x"]}}"#;
    kit.call("POST /v1/tasks", task).await;
    let body = r#"[{"op":"test","path":"/props/to","value":"ann"},{"op":"replace","path":"/props/to","value":"bob"},
        {"op":"add","path":"/props/cc/-","value":1.50}]"#;
    let changed = patch(&kit, &kit.admin, "a", body).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let record = kit.client.get("a").await.unwrap();
    assert_eq!(
        record.task.props.as_str(),
        r#"{"n":12345678901234567890.10,"to":"bob","cc":["x",1.50]}"#
    );
    let again = patch(&kit, &kit.admin, "a", body).await;
    assert_eq!(again.field(), "[0]");
    let nothing = patch(
        &kit,
        &kit.admin,
        "a",
        r#"[{"op":"test","path":"/props/to","value":"bob"}]"#,
    )
    .await;
    assert_eq!(nothing.json(), json!({"id":"a","done":null}));
    let history = kit.client.history("a", 10).await.unwrap();
    assert_eq!(history.len(), 2, "one change: {history:?}");
    assert_eq!(history[1].by.as_ref().unwrap().as_str(), "token admin");
}

#[tokio::test]
async fn a_patch_of_another_form_is_refused() {
    let kit = Kit::new().await;
    kit.submit("a", "mail").await;
    let plain = kit.call("PATCH /v1/tasks/a", "[]").await;
    assert_eq!(plain.problem(415), "media_type");
    for (body, field) in [
        ("{}", "body"),
        (r#"[{"op":"increase","path":"/props"}]"#, "body"),
        (r#"[{"op":"replace","path":"/kind","value":"k"}]"#, "[0]"),
        (r#"[{"op":"remove","path":"/props"}]"#, "props"),
    ] {
        assert_eq!(
            patch(&kit, &kit.admin, "a", body).await.field(),
            field,
            "{body}"
        );
    }
    let mut keyed = request(&kit.admin, "PATCH /v1/tasks/a", "[]");
    keyed
        .headers_mut()
        .insert("idempotency-key", "k".parse().unwrap());
    assert_eq!(kit.send(keyed).await.field(), "Idempotency-Key");
    let missing = patch(&kit, &kit.admin, "none", "[]").await;
    assert_eq!(missing.problem(404), "not_found");
    kit.submit("theirs", "pay").await;
    let token = kit.token("mail", Role::Operate, &["mail"]).await;
    let theirs = patch(
        &kit,
        &token,
        "theirs",
        r#"[{"op":"add","path":"/props","value":1}]"#,
    )
    .await;
    assert_eq!(theirs.problem(404), "not_found");
}

/// Keeps data, and parks.
async fn keep(_task: TaskContext) -> Message {
    Message::pause().with_data(&json!({"page": 3}))
}

#[tokio::test]
async fn a_patch_changes_data_and_is_refused_for_a_task_that_has_ended() {
    let kit = Kit::new().await;
    kit.client
        .submit(NewTask::new("keep").id("a"))
        .await
        .unwrap();
    let runner = Runner::builder(&kit.store).handler("keep", keep).start();
    let runner = runner.await.unwrap();
    let parked = async {
        while kit
            .client
            .get("a")
            .await
            .unwrap()
            .state
            .unwrap()
            .data
            .is_none()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::kit::BOUND, parked)
        .await
        .unwrap();
    runner.shutdown().await;
    let body = r#"[{"op":"replace","path":"/data/page","value":1},{"op":"copy","from":"/data/page","path":"/props"}]"#;
    let changed = patch(&kit, &kit.admin, "a", body).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let record = kit.client.get("a").await.unwrap();
    assert_eq!(
        record.state.unwrap().data.unwrap().as_str(),
        r#"{"page":1}"#
    );
    assert_eq!(record.task.props.as_str(), "1");
    let runner = Runner::builder(&kit.store).handler("keep", keep).start();
    let runner = runner.await.unwrap();
    kit.client.command("a", Command::Kill).await.unwrap();
    kit.client.wait("a").await.unwrap();
    runner.shutdown().await;
    let ended = patch(&kit, &kit.admin, "a", body).await;
    assert_eq!(ended.problem(409), "finished");
    assert!(ended.text.contains("/v1/tasks/ID/retry"), "{}", ended.text);
}
