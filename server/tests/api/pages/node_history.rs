//! The page of the nodes shows those that joined again or are gone.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use windlass::{
    store::{NodeSpec, Store},
    testing::ManualClock,
};

use crate::kit::Kit;

/// Regression: a node that had no tasks and came and went again and again was on no page.
#[tokio::test]
async fn a_node_that_joins_again_or_is_gone_is_on_the_page() {
    let clock = Arc::new(ManualClock::new("2030-01-01T00:00:00Z".parse().unwrap()));
    let store = Store::open_with_clock("memory:", clock.clone())
        .await
        .unwrap();
    let kit = Kit::with(store).await;
    let spec = NodeSpec::new("worker-1".parse().unwrap());
    let coordinator = kit.store.coordinator();
    let says = "Joined again, or gone";
    for _ in 0..3 {
        let lease = coordinator.join(&spec, Duration::from_secs(60)).await;
        let page = kit.page("/nodes").await;
        assert!(page.contains("worker-1"), "{page}");
        coordinator.leave(&lease.unwrap()).await.unwrap();
        clock.advance(Duration::from_secs(30));
    }
    let page = kit.page("/nodes").await;
    let (_, table) = page.split_once(says).expect("the table");
    for text in ["worker-1", "3 times", "gone", "30 s ago"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let answer = kit.get("/v1/nodes").await.json();
    assert_eq!(answer["nodes"], json!([]));
    assert_eq!(answer["recent"][0]["joins"], 3, "{answer}");
    assert_eq!(answer["recent"][0]["gone_at"], "2030-01-01T00:01:30Z");
}
