//! How many workers can wait at once.

use std::time::{Duration, Instant};

use serde_json::json;
use windlass_server::{
    Role, Server,
    axum::{Router, body::Body, http::Response},
};

use super::{SECRET, Worker, store};
use crate::kit::{BOUND, Kit, request};

/// Many workers with one token wait at once: their exchanges count neither in the share nor in the rate of the token, and
/// leave the places of other requests free.
#[tokio::test]
async fn exchanges_have_a_bound_of_their_own() {
    const WORKERS: usize = 20;
    let store = store().await;
    let server = Server::builder(&store)
        .max_in_flight(8)
        .max_workers(WORKERS)
        .rate(60);
    let kit = Kit::of(store, server.build()).await;
    let token = kit.token("w", Role::Work, &[]).await;
    let mut open = Vec::new();
    for n in 0..WORKERS {
        let worker = Worker::new(&token, &format!("w{n}"));
        let answer = worker.register(&kit, &["k"], json!({})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let line = format!("POST /v1/workers/w{n}/exchange");
        let (router, token) = (kit.server.router(), token.clone());
        open.push(tokio::spawn(async move {
            // The place may be taken by a probe of the test for a moment: then the answer comes at once.
            for seq in 1.. {
                let body = json!({"secret": SECRET, "seq": seq, "wait_ms": 11_000}).to_string();
                let (begun, request) = (Instant::now(), request(&token, &line, body));
                let answer: Result<Response<Body>, _> =
                    tower_service::Service::call(&mut router.clone(), request).await;
                assert_eq!(answer.unwrap().status(), 200);
                if begun.elapsed() > Duration::from_secs(5) {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    // One more is answered at once, with its lease renewed, when all places are taken.
    let extra = Worker::new(&token, "extra");
    let answer = extra.register(&kit, &["k"], json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let full = async {
        let mut seq = 0;
        loop {
            seq += 1;
            let body = json!({"secret": SECRET, "seq": seq, "wait_ms": 11_000}).to_string();
            let line = "POST /v1/workers/extra/exchange";
            let call = kit.call_as(&token, line, body);
            match tokio::time::timeout(Duration::from_millis(500), call).await {
                Ok(answer) => return answer,
                // It waited, in a place that another takes now.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let answered = tokio::time::timeout(BOUND, full).await;
    let answered = answered.expect("every place taken in time");
    assert_eq!(answered.status, 200, "{}", answered.text);
    // The others go on: also the requests of the same token.
    assert_eq!(kit.get("/v1/time").await.status, 200);
    let leave = Worker::new(&token, "none").leave(&kit).await;
    assert_eq!(leave.status, 204, "{}", leave.text);
    for worker in &open {
        assert!(!worker.is_finished(), "an exchange waits");
        worker.abort();
    }
}

/// Asks for a task until a wait of the caller is answered at once with when to ask again: all places for its waits are taken.
async fn until_crowded(kit: &Kit, token: &str) -> crate::kit::Answer {
    let crowded = async {
        loop {
            let answer = kit.call_as(token, "GET /v1/tasks/a?wait=10ms", "").await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            if answer.headers.contains_key("retry-after") {
                return answer;
            }
            // Leaves the place to one that waits for long.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let answered = tokio::time::timeout(BOUND, crowded).await;
    answered.expect("every place taken in time")
}

/// Waits for the task, again if another request has the place for a moment.
async fn wait(router: Router, token: String) -> Response<Body> {
    loop {
        let request = request(&token, "GET /v1/tasks/a?wait=5m", "");
        let answer = tower_service::Service::call(&mut router.clone(), request).await;
        let answer: Response<Body> = answer.unwrap();
        if !answer.headers().contains_key("retry-after") {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What callers wait for comes by the reports of workers: also with one token for both.
#[tokio::test]
async fn waits_leave_the_places_of_reports_free_and_one_too_many_ends_early() {
    let store = store().await;
    // The waits that find no place ask again at once.
    let server = Server::builder(&store).max_in_flight(8).rate(10_000_000);
    let kit = Kit::of(store, server.build()).await;
    kit.submit("a", "k").await;
    kit.submit("b", "other").await;
    let mut worker = Worker::new(&kit.admin, "w1");
    let answer = worker.register(&kit, &["k"], json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let mut waits = Vec::new();
    for token in 0..4 {
        let token = match token {
            0 => kit.admin.clone(),
            n => kit.token(&format!("t{n}"), Role::Read, &[]).await,
        };
        for _ in 0..2 {
            waits.push(tokio::spawn(wait(kit.server.router(), token.clone())));
        }
        let early = until_crowded(&kit, &token).await;
        assert_eq!(early.headers["retry-after"], "1");
        assert_eq!(early.json()["id"], "a", "what is known");
    }
    let other = kit.token("other", Role::Operate, &[]).await;
    until_crowded(&kit, &other).await;
    let sent = kit.call_as(
        &other,
        "POST /v1/tasks/b/commands?wait=5m",
        r#"{"command":"checkpoint"}"#,
    );
    let sent = sent.await;
    assert_eq!(sent.status, 202, "{}", sent.text);
    assert_eq!(sent.headers["retry-after"], "1");
    // Other requests, and all of the worker, have places.
    assert_eq!(kit.call_as(&other, "GET /v1/time", "").await.status, 200);
    let run = worker.claim(&kit).await;
    let item = super::returned(&run, &json!({"message": "complete"}));
    let reported = worker.report(&kit, json!([item])).await;
    assert_eq!(reported.status, 200, "{}", reported.text);
    for wait in waits {
        let answer = tokio::time::timeout(BOUND, wait).await;
        let answer = answer.expect("the result in time").unwrap();
        assert_eq!(answer.status(), 200);
    }
}
