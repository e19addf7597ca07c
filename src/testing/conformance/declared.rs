//! Checks that a store lacks the capabilities that its tests declare as lacking.

use std::sync::Arc;

use super::{
    Capability, Harness, StateHarness,
    kit::{Kit, id},
    limits, logs, workers,
};
use crate::testing::ManualClock;

fn assert_lacks(capability: Capability, reason: &str, lacks: bool) {
    assert!(
        lacks,
        "the store has {capability:?}, which its tests declare as lacking ({reason}); remove it \
         from `cannot {{ … }}`"
    );
}

/// Checks that a store lacks every capability that its tests declare as lacking.
#[doc(hidden)]
pub async fn assert_declared(harness: &dyn Harness, declared: &[(Capability, &str)]) {
    for (capability, reason) in declared {
        let kit = Kit::new(harness).await;
        kit.submit("a").await;
        let lacks = match capability {
            Capability::Reopen => harness.reopen(kit.store).await.is_none(),
            Capability::Clock => {
                let clock = Arc::new(ManualClock::new(kit.now()));
                harness.store_with_clock(clock).await.is_none()
            }
            Capability::CorruptState => !harness.corrupt_state(&kit.store, &id("a")).await,
            Capability::RepairState => {
                harness.corrupt_state(&kit.store, &id("a")).await;
                !harness.repair_state(&kit.store, &id("a")).await
            }
            Capability::CorruptEnvelope => !harness.corrupt_envelope(&kit.store, &id("a")).await,
            Capability::CorruptLog => {
                logs::one_line(&kit, "b").await;
                !harness.corrupt_log(&kit.store, &id("b")).await
            }
            Capability::Effects => !harness.takes_effects(),
            Capability::Transfer => kit.registry().transfer().is_none(),
            Capability::Limits => !limits::are_kept(&kit).await,
            Capability::Examine => kit.registry().doctor().is_none(),
            Capability::Workers => !workers::are_kept(&kit).await,
        };
        assert_lacks(*capability, reason, lacks);
    }
}

/// As [`assert_declared`], for a state store.
#[doc(hidden)]
pub async fn assert_states_declared(harness: &dyn StateHarness, declared: &[(Capability, &str)]) {
    for (capability, reason) in declared {
        let states = harness.states().await;
        let lacks = match capability {
            Capability::Reopen => harness.reopen(states).await.is_none(),
            Capability::CorruptState => !harness.corrupt(&states, &id("a")).await,
            other => panic!("no case for state stores needs {other:?}"),
        };
        assert_lacks(*capability, reason, lacks);
    }
}
