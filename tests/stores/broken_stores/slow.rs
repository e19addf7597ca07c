//! Cases on a store whose calls take long.

use std::time::Duration;

use windlass::{
    async_trait,
    store::Store,
    testing::conformance::{Harness, leases, moving},
};

use super::{defect::Defect, passes_on, store::Planted};

/// A sound store: each claim takes half a second, each write too.
struct Slow {
    stores: Planted,
    short_lease: Duration,
}

impl Slow {
    fn new(short_lease: Duration) -> Self {
        let stores = Planted::new(Some(Defect::CallsTakeLong));
        Self {
            stores,
            short_lease,
        }
    }
}

#[async_trait]
impl Harness for Slow {
    async fn store(&self) -> Store {
        self.stores.store().await
    }

    fn short_lease(&self) -> Duration {
        self.short_lease
    }
}

#[test]
fn a_slow_store_sets_the_lease_that_a_case_loses() {
    macro_rules! cases {
        ($($topic:ident::$case:ident),*) => {$(
            let passes = |lease| passes_on(&Slow::new(lease), async |h| $topic::$case(h).await);
            assert!(passes(Duration::from_secs(2)), stringify!($case));
            assert!(!passes(Duration::from_millis(300)), stringify!($case));
        )*};
    }
    cases!(
        leases::an_ended_lease_is_gone,
        leases::a_lost_node_abandons_its_tasks,
        leases::an_abandoned_claim_counts_once,
        moving::a_lost_claim_counts_after_an_import
    );
}
