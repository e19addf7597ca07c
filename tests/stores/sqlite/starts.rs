//! Limits on starts with one key and different periods, which etcd does not promise.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use windlass::{
    Limit, Task,
    clock::Clock,
    store::{IfExists, Lease, NodeSpec, Store, Submit},
    testing::ManualClock,
};

use super::support::{file, id, task};

const HOUR: Duration = Duration::from_secs(3600);

fn rated(name: &str, most: u32, within: Duration) -> Task {
    let mut task = task(name);
    task.limits = vec![Limit::starts("api", most, within).unwrap()];
    task
}

struct Claims {
    store: Store,
    node: Lease,
}

impl Claims {
    async fn of(url: &str, clock: Arc<dyn Clock>) -> Self {
        let store = Store::open_with_clock(url, clock).await.unwrap();
        let spec = NodeSpec::new("n".parse().unwrap());
        let node = store.coordinator().join(&spec, 9 * HOUR).await.unwrap();
        Self { store, node }
    }

    /// Submits a task, and returns whether a node gets the claim.
    async fn starts(&self, task: Task) -> bool {
        let name = task.id.clone();
        let if_exists = IfExists::Same;
        let submits = vec![Submit { task, if_exists }];
        let submitted = self.store.registry().submit(submits).await;
        submitted.into_iter().for_each(|one| drop(one.unwrap()));
        let coordinator = self.store.coordinator();
        let claimed = coordinator.claim(&self.node, vec![name]).await;
        claimed.into_iter().all(|one| one.unwrap().is_some())
    }
}

#[tokio::test]
async fn a_start_counts_for_its_own_period_whatever_takes_its_slot() {
    let file = file();
    for url in [
        "memory:".to_owned(),
        format!("sqlite:{}", file.path().display()),
    ] {
        let start: Timestamp = "2030-01-02T03:04:05Z".parse().unwrap();
        let clock = Arc::new(ManualClock::new(start));
        let after = |seconds| clock.set(start + SignedDuration::from_secs(seconds));
        let claims = Claims::of(&url, clock.clone()).await;
        let (long, short) = ((2, HOUR), (1, Duration::from_secs(5)));
        assert!(claims.starts(rated("a", long.0, long.1)).await, "{url}");
        assert!(!claims.starts(rated("s", short.0, short.1)).await, "{url}");
        after(5);
        assert!(claims.starts(rated("s", short.0, short.1)).await, "{url}");
        after(20);
        let second = rated("b", long.0, long.1);
        assert!(!claims.starts(second.clone()).await, "two within the hour");
        let limited = claims.store.registry().get(&id("b")).await.unwrap();
        let until = limited.limited_by.and_then(|by| by.until);
        assert_eq!(until, Some(start + SignedDuration::from_secs(3600)));
        after(3600);
        assert!(claims.starts(second).await, "{url}");
        assert!(!claims.starts(rated("c", long.0, long.1)).await, "{url}");
        after(3605);
        assert!(claims.starts(rated("c", long.0, long.1)).await, "{url}");
    }
}
