//! How many workers can wait at once.

use serde_json::json;
use windlass_server::{
    Role, Server,
    axum::{body::Body, http::Response},
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
        let body = json!({"secret": SECRET, "seq": 1, "wait_ms": 11_000}).to_string();
        let line = format!("POST /v1/workers/w{n}/exchange");
        let (router, token) = (kit.server.router(), token.clone());
        open.push(tokio::spawn(async move {
            // The place may be taken by a probe of the test for a moment.
            loop {
                let request = request(&token, &line, body.clone());
                let answer: Result<Response<Body>, _> =
                    tower_service::Service::call(&mut router.clone(), request).await;
                let status = answer.unwrap().status();
                if status != 503 {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    // More of them than the rate allows in a second, until all places are taken.
    let full = async {
        loop {
            let body = json!({"secret": SECRET, "seq": 1}).to_string();
            let probe = kit
                .call_as(&token, "POST /v1/workers/none/exchange", body)
                .await;
            match probe.status.as_u16() {
                410 => tokio::task::yield_now().await,
                _ => return probe,
            }
        }
    };
    let refused = tokio::time::timeout(BOUND, full).await;
    let refused = refused.expect("every place taken in time");
    assert_eq!(refused.problem(503), "busy");
    assert_eq!(refused.headers["retry-after"], "1");
    // The others go on: also the requests of the same token.
    assert_eq!(kit.get("/v1/time").await.status, 200);
    let leave = Worker::new(&token, "none").leave(&kit).await;
    assert_eq!(leave.status, 204, "{}", leave.text);
    for worker in &open {
        assert!(!worker.is_finished(), "an exchange waits");
        worker.abort();
    }
}
