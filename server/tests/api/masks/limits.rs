//! Keys of limits that were filled in from masked props, and errors of the store that would quote them.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::{Limit, Message, NewTask, Runner, TaskContext, store::Store};
use windlass_server::{Mask, axum::http::StatusCode};

use super::set;
use crate::kit::{BOUND, Kit, request};

const SECRET: &str = "hunter2";

fn task(id: &str, template: &str, limit: fn(&str) -> Limit) -> NewTask {
    let props = json!({"pw": SECRET, "n": 1});
    NewTask::new("safe")
        .id(id)
        .props(&props)
        .limit(limit(template))
}

/// Regression: on SQLite the limit that holds a task back was built without its template, and its key was shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_a_limit_shows_no_masked_value_in_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}", folder.path().join("w.db").display());
    for url in ["memory:", &file] {
        let kit = Kit::with(Store::open(url).await.unwrap()).await;
        set(&kit, &Mask::new("safe", ["/props/pw"]).unwrap()).await;
        let one = |key: &str| Limit::at_once(key, 1).unwrap();
        let hourly = |key: &str| Limit::starts(key, 1, Duration::from_secs(3600)).unwrap();
        let node = Runner::builder(&kit.store).handler("safe", |task: TaskContext| async move {
            match task.id().as_str() {
                "ends" => Message::complete(),
                _ => task.stop_requested().await.message(),
            }
        });
        let node = node.start().await.unwrap();
        for id in ["first", "held"] {
            kit.client
                .submit(task(id, "of-{prop:pw}", one))
                .await
                .unwrap();
        }
        // A limit of which only the line knows: the claim that has its slot has ended.
        for id in ["ends", "late"] {
            kit.client
                .submit(task(id, "hourly-{prop:pw}", hourly))
                .await
                .unwrap();
        }
        let until_held = async {
            for id in ["held", "late"] {
                let get = format!("/v1/tasks/{id}");
                while kit.get(&get).await.json()["limited_by"] == Value::Null {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        let held = tokio::time::timeout(BOUND, until_held).await;
        held.expect("the tasks wait for their limits");
        for (id, template) in [("held", "of-{prop:pw}"), ("late", "hourly-{prop:pw}")] {
            let shown = kit.get(&format!("/v1/tasks/{id}")).await.json();
            assert_eq!(shown["limited_by"]["limit"]["key"], template, "{url}");
            let why = kit.get(&format!("/v1/tasks/{id}/why")).await.text;
            assert!(why.contains(template), "{url}: {why}");
        }
        for path in [
            "/v1/tasks",
            "/v1/tasks/held",
            "/v1/tasks/late",
            "/v1/tasks/held/why",
            "/v1/tasks/late/why",
            "/v1/why",
            "/v1/stats",
            "/v1/limits",
        ] {
            let shown = kit.get(path).await;
            assert_eq!(shown.status, StatusCode::OK, "{path}: {}", shown.text);
            assert!(!shown.text.contains(SECRET), "{url}{path}: {}", shown.text);
        }
        for path in ["/", "/tasks", "/tasks/held", "/tasks/late", "/limits"] {
            let page = kit.page(path).await;
            assert!(!page.contains(SECRET), "{url}{path}: {page}");
        }
        node.shutdown().await;
    }
}

/// Regression: the error of a patch quoted the key of a limit, filled in again from the masked prop and the new one.
#[tokio::test]
async fn an_error_of_the_store_quotes_no_masked_value() {
    let kit = Kit::new().await;
    set(&kit, &Mask::new("safe", ["/props/pw"]).unwrap()).await;
    let one = |key: &str| Limit::at_once(key, 1).unwrap();
    let new = task("a", "of-{prop:pw}-{prop:n}", one).paused();
    kit.client.submit(new).await.unwrap();
    let patch = json!([{"op": "replace", "path": "/props/n", "value": "a/b"}]).to_string();
    let mut patch = request(&kit.admin, "PATCH /v1/tasks/a", patch);
    let kind = "application/json-patch+json".parse().unwrap();
    patch.headers_mut().insert("content-type", kind);
    let gone = json!([{"op": "remove", "path": "/props/n"}]).to_string();
    let mut gone = request(&kit.admin, "PATCH /v1/tasks/a", gone);
    let kind = "application/json-patch+json".parse().unwrap();
    gone.headers_mut().insert("content-type", kind);
    for refused in [kit.send(patch).await, kit.send(gone).await] {
        assert_eq!(refused.problem(400), "invalid", "{}", refused.text);
        assert_eq!(refused.json()["field"], "limits.key");
        assert!(!refused.text.contains(SECRET), "{}", refused.text);
    }
    // What quotes no value is shown.
    let long_ago = r#"{"due":"2001-01-01T00:00:00Z","kind":"schedule"}"#;
    let refused = kit.call("POST /v1/tasks/a/reschedule", long_ago).await;
    assert!(refused.status.is_client_error(), "{}", refused.text);
    let retried = kit
        .call("POST /v1/tasks/a/retry", r#"{"props":{"pw":"x","n":2}}"#)
        .await;
    assert!(retried.text.contains("paused"), "{}", retried.text);
}

/// The runs of a schedule have their props in its spec.
#[tokio::test]
async fn a_change_of_a_schedule_neither_quotes_nor_removes_masked_props() {
    let kit = Kit::new().await;
    set(&kit, &Mask::new("safe", ["/props/pw"]).unwrap()).await;
    let run = json!({"kind": "safe", "props": {"pw": SECRET, "n": 1}});
    let spec = json!({"id": "nightly", "spec": {"run": run, "cron": ["0 2 * * *"]}});
    let made = kit.call("POST /v1/schedules", spec.to_string()).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let update = async |run: Value| {
        let body = json!({ "run": run }).to_string();
        kit.call("PATCH /v1/schedules/nightly", body).await
    };
    let stored = async || {
        let record = kit.client.schedules().get("nightly").await.unwrap();
        let run = record.stored.at("/run").unwrap();
        serde_json::from_str::<Value>(run.as_str()).unwrap()
    };
    // Regression: the props were gone, without a word.
    let refused = update(json!({"kind": "safe", "priority": 3})).await;
    assert_eq!(refused.problem(403), "masked", "{}", refused.text);
    assert_eq!(refused.json()["field"], "run.props");
    assert_eq!(stored().await["props"]["pw"], SECRET);
    let whole = json!({"kind": "safe", "priority": 3, "props": {"pw": "new", "n": 2}});
    let changed = update(whole).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(stored().await["props"]["pw"], "new");
    let other = kit
        .call("PATCH /v1/schedules/nightly", r#"{"cron":["0 3 * * *"]}"#)
        .await;
    assert_eq!(other.status, 200, "{}", other.text);
    assert_eq!(stored().await["props"]["pw"], "new");
}
