//! Requests: what is refused, and the lease of a worker.

use std::time::Duration;

use serde_json::json;
use windlass::{
    store::Error,
    workers::{WorkerError, protocol::ResultCode},
};

use super::support::{Worker, memory, server, submit, within};

#[tokio::test]
async fn a_registration_is_checked() {
    let (store, _) = memory().await;
    let server = server(&store);
    let base = json!({"name": "w", "secret": "a secret of sixteen", "kinds": {"k": {"slots": 1}}});
    for (field, value) in [
        ("protocol", json!([9])),
        ("secret", json!("short")),
        ("kinds", json!({})),
        ("kinds", json!({"k": {"slots": 1001}})),
        ("kinds", json!({"k": {"slots": 1, "reads": 0}})),
        ("ttl_ms", json!(1000)),
        ("ttl_ms", json!(300_001)),
        ("host", json!("a\nb")),
    ] {
        let mut form = base.clone();
        form[field] = value;
        let error = server
            .register(serde_json::from_value(form).unwrap())
            .await
            .unwrap_err();
        assert!(
            matches!(&error, WorkerError::Invalid(invalid) if invalid.field() == field),
            "{field}: {error:?}"
        );
    }
}

#[tokio::test]
async fn the_same_secret_finds_the_same_lease() {
    let (store, client) = memory().await;
    let (one, other, mut worker) = (server(&store), server(&store), Worker::new("w"));
    let first = worker.register(&one, 1).await;
    assert_eq!((first.ttl_ms, first.wait_ms, first.seq), (15000, 3750, 0));
    worker.exchange(&one, 0).await;
    let again = worker.register(&other, 1).await;
    assert_eq!(again.seq, 1, "further requests have greater numbers");
    worker.secret = "another secret of this length".to_owned();
    let offer = json!({"k": {"slots": 1}});
    let error = worker.try_register(&one, offer).await.unwrap_err();
    assert!(
        matches!(error, WorkerError::Store(Error::AlreadyExists { .. })),
        "{error:?}"
    );
    let error = worker.send_exchange(&one, 0).await.unwrap_err();
    assert!(matches!(error, WorkerError::Secret(_)), "{error:?}");
    let nodes = client.nodes().await.unwrap();
    let shown = serde_json::to_string(&nodes).unwrap();
    assert!(
        nodes.iter().any(|node| node.spec.worker.is_some()),
        "{shown}"
    );
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_ends() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let id = submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    // The memory store reads the system's clock.
    let leased = store
        .coordinator()
        .worker(&"w".parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    store.coordinator().abandon(&leased.lease).await.unwrap();
    let error = worker.send_exchange(&server, 0).await.unwrap_err();
    assert!(matches!(error, WorkerError::Over(_)), "{error:?}");
    worker.runs.clear();
    worker.register(&server, 1).await;
    let claims = within("the next claim", async {
        loop {
            let claims = worker.exchange(&server, 1000).await.claims;
            if !claims.is_empty() {
                return claims;
            }
        }
    })
    .await;
    assert_eq!(
        (&claims[0].id, claims[0].attempt),
        (&id, 2),
        "the lost claim counts"
    );
}

#[tokio::test]
async fn a_worker_that_leaves_releases_its_tasks() {
    let (store, client) = memory().await;
    let (server, mut worker, mut next) = (server(&store), Worker::new("w"), Worker::new("v"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let form = || serde_json::from_value(json!({"secret": super::support::SECRET})).unwrap();
    server.leave(&"w".parse().unwrap(), form()).await.unwrap();
    server.leave(&"w".parse().unwrap(), form()).await.unwrap();
    next.register(&server, 1).await;
    let claims = within("the claim of the next", async {
        loop {
            let claims = next.exchange(&server, 1000).await.claims;
            if !claims.is_empty() {
                return claims;
            }
        }
    })
    .await;
    assert_eq!(claims[0].attempt, 1, "a release is no lost claim");
}

#[tokio::test]
async fn shutdown_answers_open_exchanges() {
    let (store, _) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    let begun = std::time::Instant::now();
    let stop = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.shutdown().await;
    };
    let (answer, ()) = tokio::join!(worker.exchange(&server, 3700), stop);
    assert!(answer.claims.is_empty() && begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn an_earlier_report_is_not_applied_over_a_later_one() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    worker.exchange(&server, 3000).await;
    let first = worker.item("a", json!({"checkpoint": 1}));
    for page in [1, 2] {
        let result = worker
            .report(&server, "a", json!({"checkpoint": page}))
            .await;
        assert_eq!(result.result, ResultCode::Applied);
    }
    let again = worker
        .send_report(&server, vec![first], false)
        .await
        .unwrap();
    assert_eq!(again.results[0].result, ResultCode::Applied);
    let state = client.get("a").await.unwrap().state.unwrap();
    assert_eq!(state.data.unwrap().as_str(), "2");
}
