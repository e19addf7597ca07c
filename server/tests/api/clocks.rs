//! Programs whose clocks differ: times are no order.

use std::sync::Arc;

use futures::StreamExt;
use jiff::{Timestamp, ToSpan};
use serde_json::json;
use windlass::{NewTask, StateKind, store::Store, testing::ManualClock};
use windlass_server::Role;

use crate::{
    bulk::{body, counted, ended, node, with_key},
    kit::{BOUND, Kit, request},
};

async fn with_clock() -> (Kit, Arc<ManualClock>, Timestamp) {
    let now: Timestamp = "2030-01-01T12:00:00Z".parse().unwrap();
    let clock = Arc::new(ManualClock::new(now));
    let store = Store::open_with_clock("memory:", clock.clone()).await;
    (Kit::with(store.unwrap()).await, clock, now)
}

/// Regression: an operation took what was submitted after its dry run by a program whose clock was behind, and left out what a
/// program whose clock was ahead had submitted before.
#[tokio::test]
async fn a_bulk_operation_takes_what_was_submitted_before_its_dry_run_by_the_order_of_submits() {
    for action in [
        "pause", "resume", "release", "complete", "kill", "retry", "delete",
    ] {
        let (kit, clock, now) = with_clock().await;
        let submit = async |id: &str| {
            let task = NewTask::new("mail").id(id).paused();
            kit.client.submit(task).await.unwrap();
        };
        clock.set(now + 1.hour());
        submit("ahead").await;
        clock.set(now);
        let filter = json!({"kind": "mail", "state": ["paused"]});
        let body = body(action, &filter);
        let dry = counted(&kit, &kit.admin, &body).await;
        assert_eq!(dry["tasks"], 1, "{action}");
        clock.set(now - 1.hour());
        submit("behind").await;
        clock.set(now + 1.minute());
        let started = kit.call("POST /v1/bulk", with_key(&body, &dry)).await;
        assert_eq!(started.status, 201, "{action}: {}", started.text);
        let id = started.json()["id"].as_str().unwrap().parse().unwrap();
        let node = node(&kit.store).await;
        let (code, result) = ended(&kit.client, &id).await;
        assert_eq!(code, StateKind::Completed, "{action}: {result}");
        let seen = result["done"].as_u64().unwrap() + result["refused"].as_u64().unwrap();
        assert_eq!(seen, 1, "{action}: {result}");
        let behind = kit.client.get("behind").await.unwrap();
        assert_eq!(
            (behind.commands, behind.state.unwrap().code()),
            (0, StateKind::Paused),
            "{action}"
        );
        node.shutdown().await;
    }
}

/// Regression: the changes of a task of others were shown to a scope whose task has its id now, when their clock was ahead.
#[tokio::test]
async fn a_stream_of_a_scope_shows_no_earlier_life_of_an_id_whatever_the_clocks_were() {
    let (kit, clock, now) = with_clock().await;
    clock.set(now + 1.hour());
    kit.submit("a", "pay").await;
    kit.client
        .command("a", windlass::Command::Pause)
        .await
        .unwrap();
    kit.client.delete("a").await.unwrap();
    clock.set(now);
    let token = kit.token("mail", Role::Operate, &["mail"]).await;
    let own = kit
        .call_as(&token, "POST /v1/tasks", r#"{"id":"a","kind":"mail"}"#)
        .await;
    assert_eq!(own.status, 201, "{}", own.text);
    // More changes than are read first.
    for n in 0..40 {
        let line = format!(r#"{{"priority":{}}}"#, n + 1);
        let moved = kit
            .call_as(&token, "POST /v1/tasks/a/reschedule", line)
            .await;
        assert_eq!(moved.status, 200, "{}", moved.text);
    }
    let stream = kit
        .open(request(&token, "GET /v1/changes?after=0", ""))
        .await;
    let mut stream = stream.into_body().into_data_stream();
    let mut text = String::new();
    while text.matches("rescheduled").count() < 40 {
        let next = tokio::time::timeout(BOUND, stream.next()).await;
        let bytes = next.expect("an event in time").unwrap().unwrap();
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert_eq!(text.matches(r#""what":"submitted""#).count(), 1, "{text}");
    assert!(
        !text.contains("commanded") && !text.contains("deleted"),
        "{text}"
    );
    assert_eq!(text.matches(r#""by":"token mail""#).count(), 41, "{text}");
}
