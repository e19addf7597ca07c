//! The place in a trace that a request names.

use serde_json::json;
use windlass::{TaskId, Trace};

use crate::kit::{Kit, request};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn traced(kit: &Kit, line: &str, body: &str, parent: &str) {
    let mut request = request(&kit.admin, line, body.to_owned());
    let headers = request.headers_mut();
    if body.ends_with('\n') {
        headers.insert("content-type", "application/x-ndjson".parse().unwrap());
    }
    headers.insert("traceparent", parent.parse().unwrap());
    headers.insert("tracestate", "a=1".parse().unwrap());
    headers.append("tracestate", "b=2".parse().unwrap());
    let answer = kit.send(request).await;
    assert!(answer.status.is_success(), "{line}: {}", answer.text);
}

async fn trace_of(kit: &Kit, id: &str) -> Option<(String, Option<String>)> {
    let id: TaskId = id.parse().unwrap();
    let trace = Trace::of(&kit.client.get(&id).await.unwrap().task.meta)?;
    Some((trace.parent().to_owned(), trace.state().map(str::to_owned)))
}

/// Every request that submits tasks gives them its place.
#[tokio::test]
async fn the_tasks_of_a_request_belong_to_its_trace() {
    let kit = Kit::new().await;
    let task = |id: &str| json!({"id": id, "kind": "k"}).to_string();
    let submit = |id: &str| json!({"op": "submit", "id": id, "kind": "k"});
    traced(&kit, "POST /v1/tasks", &task("one"), PARENT).await;
    let lines = format!("{}\n", task("line"));
    traced(&kit, "POST /v1/tasks", &lines, PARENT).await;
    let array = format!("[{},{}]", task("a1"), task("a2"));
    traced(&kit, "POST /v1/tasks", &array, PARENT).await;
    let all = json!({"lines": [submit("t1"), submit("t2")]}).to_string();
    traced(&kit, "POST /v1/transactions", &all, PARENT).await;
    let expected = Some((PARENT.to_owned(), Some("a=1,b=2".to_owned())));
    for id in ["one", "line", "a1", "a2", "t1", "t2"] {
        assert_eq!(trace_of(&kit, id).await, expected, "{id}");
    }
}

#[tokio::test]
async fn a_task_keeps_its_own_trace_and_a_wrong_header_is_ignored() {
    let kit = Kit::new().await;
    let other = "00-11111111111111111111111111111111-2222222222222222-01";
    let own = json!({"id": "own", "kind": "k", "meta": {"traceparent": other}}).to_string();
    traced(&kit, "POST /v1/tasks", &own, PARENT).await;
    assert_eq!(trace_of(&kit, "own").await, Some((other.to_owned(), None)));
    let wrong = json!({"id": "wrong", "kind": "k"}).to_string();
    traced(&kit, "POST /v1/tasks", &wrong, "00-nonsense").await;
    assert_eq!(trace_of(&kit, "wrong").await, None);
}
