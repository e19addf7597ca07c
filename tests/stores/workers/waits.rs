//! Runs after a wait.

use serde_json::json;
use windlass::{NewTask, jiff::Timestamp};

use super::support::{Worker, memory, server, submit};

/// The fact is stored when the wait ends, so each attempt gets the same.
#[tokio::test]
async fn a_run_knows_whether_its_wait_has_expired() {
    let (store, client) = memory().await;
    let (server, mut worker) = (server(&store), Worker::new("w"));
    worker.register(&server, 1).await;
    submit(&client, "a").await;
    let before = Timestamp::now();
    let claims = worker.exchange(&server, 3000).await.claims;
    assert!(!claims[0].wait_expired, "{claims:?}");
    let now = claims[0].now;
    assert!(before <= now && now <= Timestamp::now(), "{claims:?}");

    let awaits = json!({"message": "sleep", "until": "in 1ms", "awaits_signal": {"name": "go"}});
    worker.report(&server, "a", json!({"return": awaits})).await;
    for _attempt in 0..2 {
        let claims = worker.exchange(&server, 3000).await.claims;
        let awaited = claims[0].awaited_signal.as_ref().unwrap();
        assert!(claims[0].wait_expired && awaited.expired, "{claims:?}");
        let released = json!({"return": {"message": "release"}});
        worker.report(&server, "a", released).await;
    }

    // No worker takes this one.
    let other = NewTask::new("other").id("b");
    client.submit(other).await.unwrap();
    worker.exchange(&server, 3000).await;
    let waits = json!({"message": "sleep", "after": ["b"], "after_deadline": "in 1ms"});
    worker.report(&server, "a", json!({"return": waits})).await;
    let claims = worker.exchange(&server, 3000).await.claims;
    assert!(
        claims[0].wait_expired && claims[0].awaited_signal.is_none(),
        "{claims:?}"
    );
}
