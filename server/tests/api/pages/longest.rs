//! The page of the nodes shows the tasks that have run longest.

use std::{sync::Arc, time::Duration};

use windlass::{
    NewTask,
    store::{NodeSpec, Store},
    testing::ManualClock,
};

use crate::kit::Kit;

#[tokio::test]
async fn the_nodes_page_shows_what_has_run_longest_first() {
    let clock = Arc::new(ManualClock::new("2030-01-01T00:00:00Z".parse().unwrap()));
    let store = Store::open_with_clock("memory:", clock.clone())
        .await
        .unwrap();
    let kit = Kit::with(store).await;
    assert!(!kit.page("/nodes").await.contains("Longest running"));
    let spec = NodeSpec::new("worker-1".parse().unwrap());
    let coordinator = kit.store.coordinator();
    let lease = coordinator
        .join(&spec, Duration::from_secs(100_000))
        .await
        .unwrap();
    for n in 0..12 {
        let id = format!("t-{n}");
        kit.client
            .submit(NewTask::new("mail").id(&*id))
            .await
            .unwrap();
        clock.advance(Duration::from_secs(60));
    }
    // Not claimed.
    kit.client
        .submit(NewTask::new("mail").id("waits"))
        .await
        .unwrap();
    // Tasks that waited longer have not run longer.
    let order: Vec<_> = (0..12)
        .rev()
        .map(|n| format!("t-{n}").parse().unwrap())
        .collect();
    for id in order {
        let claimed = coordinator.claim(&lease, vec![id]).await.remove(0);
        claimed.unwrap().unwrap();
        clock.advance(Duration::from_secs(60));
    }
    let page = kit.page("/nodes").await;
    let (_, table) = page.split_once("Longest running").expect("the table");
    let rows: Vec<&str> = table.split("data-key=\"running-").skip(1).collect();
    assert_eq!(rows.len(), 10, "{table}");
    assert!(
        rows[0].starts_with("t-11\"") && rows[0].contains("12 min ago"),
        "{}",
        rows[0]
    );
    assert!(rows[0].contains("/tasks?node=worker-1"), "{}", rows[0]);
    assert!(rows[9].starts_with("t-2\""), "{}", rows[9]);
    assert!(!table.contains("waits"), "{table}");
}
