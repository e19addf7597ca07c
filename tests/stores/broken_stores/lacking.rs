//! Cases on a store that lacks what they need.

use windlass::{
    async_trait,
    store::Store,
    testing::conformance::{Capability, Harness, assert_declared, durability, quarantine},
};

use super::{passes_on, store::Planted};

/// A harness that makes stores and provides nothing else.
#[derive(Default)]
struct Bare(Planted);

#[async_trait]
impl Harness for Bare {
    async fn store(&self) -> Store {
        self.0.store().await
    }
}

#[test]
fn a_case_that_cannot_run_does_not_pass() {
    use durability::joins_are_durable as durable;
    use quarantine::it_can_be_deleted as unreadable;
    assert!(passes_on(&Planted::default(), async |h| durable(h).await));
    assert!(passes_on(&Planted::default(), async |h| unreadable(h).await));
    assert!(!passes_on(&Bare::default(), async |h| durable(h).await));
    assert!(!passes_on(&Bare::default(), async |h| unreadable(h).await));
}

#[test]
fn a_capability_that_is_declared_as_lacking_must_lack() {
    for (capability, has) in [
        (Capability::Reopen, false),
        (Capability::Clock, false),
        (Capability::CorruptState, false),
        (Capability::RepairState, false),
        (Capability::CorruptEnvelope, false),
        // A planted store has these, whatever its harness.
        (Capability::Effects, true),
        (Capability::Transfer, true),
        (Capability::Examine, true),
        (Capability::Workers, true),
    ] {
        let declared = [(capability, "the test says so")];
        let of_bare = passes_on(&Bare::default(), async |h| {
            assert_declared(h, &declared).await;
        });
        assert_eq!(of_bare, !has, "{capability:?}");
        let of_all = passes_on(&Planted::default(), async |h| {
            assert_declared(h, &declared).await;
        });
        assert!(!of_all, "{capability:?} is declared as lacking");
    }
}
