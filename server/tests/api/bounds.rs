//! Whatever a request may contain has a bound in work, which is checked first.

use std::time::Duration;

use serde_json::json;
use windlass::NewTask;
use windlass_server::{
    Role,
    axum::body::{Body, Bytes},
};

use crate::kit::{Answer, Kit, request};

#[tokio::test]
async fn a_schedule_of_a_thousand_expressions_is_refused_by_name_wherever_it_is_given() {
    let kit = Kit::new().await;
    let crons: Vec<String> = (0..1000).map(|n| format!("{} 2 29 2 *", n % 60)).collect();
    let spec = json!({"run": {"kind": "k"}, "cron": crons});
    let refused = kit
        .call("POST /v1/schedule-times", json!({"spec": spec}).to_string())
        .await;
    assert_eq!(refused.field(), "spec.cron", "{}", refused.text);
    let body = json!({"id": "s", "spec": spec}).to_string();
    let refused = kit.call("POST /v1/schedules", body).await;
    assert_eq!(refused.field(), "spec.cron", "{}", refused.text);
    let made =
        json!({"id": "s", "spec": {"run": {"kind": "k"}, "cron": ["0 3 * * *"]}}).to_string();
    let made = kit.call("POST /v1/schedules", made).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let changes = json!({"cron": crons}).to_string();
    let refused = kit.call("PATCH /v1/schedules/s", changes.clone()).await;
    assert_eq!(refused.problem(400), "invalid", "{}", refused.text);
    let body = json!({"id": "s", "spec": {"cron": crons}}).to_string();
    let refused = kit.call("POST /v1/schedule-times", body).await;
    assert_eq!(refused.problem(400), "invalid", "{}", refused.text);
    // As a task of the kind of schedules, too.
    let task = json!({"kind": "schedule", "props": spec}).to_string();
    let refused = kit.call("POST /v1/tasks", task).await;
    assert_eq!(refused.field(), "props", "{}", refused.text);
    // Fewer expressions have fewer times.
    let spec = json!({"cron": crons[..50]});
    for (limit, status) in [(1000, 200), (1001, 400)] {
        let body = json!({"spec": spec, "limit": limit}).to_string();
        let answer = kit.call("POST /v1/schedule-times", body).await;
        assert_eq!(answer.status, status, "{limit}: {}", answer.text);
    }
}

async fn patch(kit: &Kit, body: String) -> Answer {
    let mut patch = request(&kit.admin, "PATCH /v1/tasks/a", body);
    let kind = "application/json-patch+json".parse().unwrap();
    patch.headers_mut().insert("content-type", kind);
    kit.send(patch).await
}

#[tokio::test]
async fn a_patch_has_a_bound_in_operations_and_in_work() {
    let kit = Kit::new().await;
    let list: Vec<u32> = (0..100_000).collect();
    let task = NewTask::new("k").id("a").props(&json!({"list": list}));
    kit.client.submit(task).await.unwrap();
    let operation = json!({"op": "add", "path": "/props/list/0", "value": 0});
    let patch_of = |many: usize| json!(vec![&operation; many]).to_string();
    let refused = patch(&kit, patch_of(60_000)).await;
    assert_eq!(refused.field(), "body");
    assert!(refused.text.contains("at most 1000"), "{}", refused.text);
    let refused = patch(&kit, patch_of(1000)).await;
    assert!(refused.field().starts_with('['), "{}", refused.text);
    assert!(refused.text.contains("134217728 bytes"), "{}", refused.text);
    let done = patch(&kit, patch_of(10)).await;
    assert_eq!(done.status, 200, "{}", done.text);
    let record = kit.client.get("a").await.unwrap();
    assert!(
        record
            .task
            .props
            .as_str()
            .starts_with(r#"{"list":[0,0,0,0,0,0,0,0,0,0,0,1,2"#)
    );
}

#[tokio::test]
async fn an_array_and_a_transaction_have_a_bound_that_is_checked_first() {
    let kit = Kit::new().await;
    let tasks = format!("[{}{{}}]", "{},".repeat(10_000));
    let refused = kit.call("POST /v1/tasks", tasks).await;
    assert_eq!(refused.problem(413), "too_large");
    assert_eq!(refused.json()["field"], "body", "{}", refused.text);
    assert!(refused.text.contains("10001 tasks"), "{}", refused.text);
    let lines = format!(r#"{{"lines":[{}{{}}]}}"#, "{},".repeat(10_000));
    let refused = kit.call("POST /v1/transactions", lines).await;
    assert_eq!(refused.field(), "lines", "{}", refused.text);
    let tasks: Vec<_> = (0..3000)
        .map(|n| json!({"id": format!("t{n}"), "kind": "k"}))
        .collect();
    let answer = kit.call("POST /v1/tasks", json!(tasks).to_string()).await;
    assert_eq!(answer.json().as_array().unwrap().len(), 3000);
    assert!(
        !answer.text.contains("code"),
        "each is submitted, in several writes"
    );
}

#[tokio::test]
async fn a_large_array_is_several_writes_that_let_other_requests_in_between() {
    let kit = Kit::new().await;
    let tasks = format!("[{}{{\"kind\":\"k\"}}]", "{\"kind\":\"k\"},".repeat(9_999));
    // The server has read its tokens.
    assert_eq!(kit.get("/v1/counts").await.status, 200);
    let mut array = std::pin::pin!(kit.call("POST /v1/tasks", tasks));
    let answer = tokio::select! {
        biased;
        _ = &mut array => panic!("the array was one write"),
        answer = kit.get("/v1/counts") => answer,
    };
    assert_eq!(answer.status, 200);
    assert_eq!(array.await.json().as_array().unwrap().len(), 10_000);
}

#[tokio::test]
async fn a_filter_with_too_many_conditions_is_refused_by_name() {
    let kit = Kit::new().await;
    let many = |name: &str, value: &str| vec![format!("{name}={value}"); 1000].join("&");
    for (name, value) in [("label", "a%3Db"), ("props_at", "/a%3D1")] {
        let query = many(name, value);
        let refused = kit.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(refused.field(), name, "{}", refused.text);
        let page = kit.get(&format!("/tasks?{query}")).await;
        assert_eq!(page.status, 400, "{}", page.text);
        let mut lines = request(&kit.admin, &format!("GET /v1/tasks?{query}"), "");
        lines
            .headers_mut()
            .insert("accept", "application/x-ndjson".parse().unwrap());
        let refused = kit.send(lines).await;
        assert!(
            refused.text.contains(&format!("\"field\":\"{name}\"")),
            "{}",
            refused.text
        );
    }
    // Equal words are one condition.
    let states = many("state", "failed");
    assert_eq!(kit.get(&format!("/v1/tasks?{states}")).await.status, 200);
    let labels = vec!["label=a%3Db"; 100].join("&");
    assert_eq!(kit.get(&format!("/v1/tasks?{labels}")).await.status, 200);
    let refused = kit.get("/tasks?limit=501").await;
    assert_eq!(refused.status, 400, "{}", refused.text);
}

#[tokio::test]
async fn a_graph_has_a_bound_in_waits() {
    let kit = Kit::new().await;
    let layer = |n: usize| (0..30).map(move |m| format!("t{n}-{m}"));
    for n in 0..10_usize {
        let tasks = layer(n).map(|id| {
            let task = NewTask::new("k").id(id);
            match n.checked_sub(1) {
                Some(before) => task.after(layer(before)),
                None => task,
            }
        });
        for submitted in kit.client.submit_many(tasks).await {
            submitted.unwrap();
        }
    }
    let graph = kit.get("/v1/tasks/t9-0/graph?limit=200").await.json();
    let edges = graph["edges"].as_array().unwrap().len();
    assert!((31..=1000).contains(&edges), "{edges} of 8,130");
    assert_eq!(graph["is_cut"], true);
    let graph = kit.get("/v1/tasks/t1-0/graph?limit=200").await.json();
    assert_eq!(graph["edges"].as_array().unwrap().len(), 30);
    assert_eq!(graph["is_cut"], false);
}

/// Seven tasks of 900 KB.
async fn large_tasks() -> Kit {
    let kit = Kit::new().await;
    for n in 0..7 {
        let props = json!({"text": "x".repeat(900_000)});
        let task = NewTask::new("k").id(format!("t{n}")).props(&props);
        kit.client.submit(task).await.unwrap();
    }
    kit
}

#[tokio::test]
async fn a_page_of_large_tasks_ends_early_and_the_next_one_goes_on() {
    let kit = large_tasks().await;
    let mut listed = Vec::new();
    let mut path = "/v1/tasks?order=submitted&reversed=true&limit=100".to_owned();
    loop {
        let page = kit.get(&path).await;
        assert!(page.text.len() < 6 << 20, "{}", page.text.len());
        let page = page.json();
        let ids = page["tasks"].as_array().unwrap().iter();
        listed.extend(ids.map(|task| task["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else {
            // And back again.
            let previous = page["previous"].as_str().unwrap();
            let path =
                format!("/v1/tasks?order=submitted&reversed=true&limit=100&cursor={previous}");
            let back = kit.get(&path).await.json();
            assert_eq!(
                back["tasks"].as_array().unwrap().last().unwrap()["id"],
                "t4"
            );
            break;
        };
        path = format!("/v1/tasks?order=submitted&reversed=true&limit=100&cursor={next}");
    }
    assert_eq!(listed, ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]);
    let mut lines = request(&kit.admin, "GET /v1/tasks?order=submitted", "");
    lines
        .headers_mut()
        .insert("accept", "application/x-ndjson".parse().unwrap());
    assert_eq!(kit.send(lines).await.text.lines().count(), 7);
}

#[tokio::test(start_paused = true)]
async fn readers_that_do_not_read_have_a_bound_in_bytes() {
    let kit = large_tasks().await;
    let greedy = kit.token("greedy", Role::Read, &[]).await;
    let mut unread = Vec::new();
    for _ in 0..13 {
        let answer = kit.open(request(&greedy, "GET /v1/tasks", "")).await;
        assert_eq!(answer.status(), 200);
        unread.push(answer);
    }
    let refused = loop {
        let answer = kit.open(request(&greedy, "GET /v1/tasks", "")).await;
        if answer.status() != 200 {
            break answer;
        }
        unread.push(answer);
        assert!(unread.len() <= 16, "64 MiB are enough for these");
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let other = kit.get("/v1/tasks").await;
    assert_eq!(other.status, 200, "others are not held up");
    unread.clear();
    assert_eq!(kit.call_as(&greedy, "GET /v1/tasks", "").await.status, 200);
}

/// A body that begins and then pauses for ever.
fn pausing() -> Body {
    let first = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"["))]);
    Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn every_body_that_pauses_for_30_s_loses_its_place() {
    let kit = Kit::new().await;
    kit.submit("a", "k").await;
    for line in [
        "POST /v1/tasks",
        "POST /v1/transactions",
        "POST /v1/bulk",
        "POST /v1/schedules",
        "POST /v1/schedule-times",
        "POST /v1/tasks/a/commands",
        "POST /v1/tasks/a/signals/s",
        "POST /v1/tasks/a/retry",
        "POST /v1/tasks/a/reschedule",
        "PATCH /v1/tasks/a",
        "POST /v1/tokens",
        "POST /v1/masks",
        "POST /v1/purge",
        "POST /v1/nodes/n/commands",
        "POST /v1/workers",
        "POST /v1/workers/w/exchange",
        "POST /v1/workers/w/report",
        "POST /v1/workers/w/leave",
    ] {
        let mut paused = request(&kit.admin, line, pausing());
        if line.starts_with("PATCH") {
            let kind = "application/json-patch+json".parse().unwrap();
            paused.headers_mut().insert("content-type", kind);
        }
        let begun = tokio::time::Instant::now();
        let mut router = kit.server.router();
        let answer = tower_service::Service::call(&mut router, paused);
        let answer = tokio::time::timeout(Duration::from_secs(40), answer).await;
        let answer = answer
            .unwrap_or_else(|_| panic!("{line}: no answer"))
            .unwrap();
        assert_eq!(answer.status(), 408, "{line}");
        assert!(begun.elapsed() <= Duration::from_secs(31), "{line}");
    }
}
