//! Every store that ships with windlass, held to the duties of the traits.
#![cfg(feature = "conformance")]
#![allow(
    clippy::unwrap_used,
    reason = "a harness that fails should fail its test"
)]

use std::sync::Arc;

use windlass::{
    TaskId, async_trait,
    clock::SystemClock,
    store::{
        StateStore, Store,
        memory::{MemoryStates, MemoryStore},
    },
    testing::conformance::{Harness, StateHarness},
};

/// The stores of one kind, and the last one that was made: it is damaged by its own hand.
#[derive(Default)]
struct Memory(std::sync::Mutex<Option<Arc<MemoryStore>>>);

#[async_trait]
impl Harness for Memory {
    async fn store(&self) -> Store {
        let clock = SystemClock::shared();
        let store = Arc::new(MemoryStore::new(clock.clone()));
        *self.0.lock().unwrap() = Some(store.clone());
        Store::from_parts(store.clone(), store, clock)
    }

    async fn corrupt_state(&self, _: &Store, task: &TaskId) -> bool {
        let store = self.0.lock().unwrap();
        store.as_ref().unwrap().damage(task, "{").unwrap();
        true
    }
}

/// Any store with its states beside it.
#[derive(Default)]
struct Split<H> {
    inner: H,
    states: Arc<MemoryStates>,
}

#[async_trait]
impl<H: Harness> Harness for Split<H> {
    async fn store(&self) -> Store {
        self.inner
            .store()
            .await
            .with_state_store(self.states.clone())
    }

    async fn corrupt_state(&self, _: &Store, task: &TaskId) -> bool {
        self.states.damage(task, "{");
        true
    }

    fn takes_effects(&self) -> bool {
        false
    }
}

#[derive(Default)]
struct States(Arc<MemoryStates>);

#[async_trait]
impl StateHarness for States {
    async fn states(&self) -> Arc<dyn StateStore> {
        self.0.clone()
    }

    async fn corrupt(&self, _: &Arc<dyn StateStore>, task: &TaskId) -> bool {
        self.0.damage(task, "{");
        true
    }
}

// One line per store; a durable store's harness also has `reopen`.
windlass::conformance_tests!(memory, Memory::default());
windlass::conformance_tests!(split_memory, Split::<Memory>::default());
windlass::state_store_conformance_tests!(memory_states, States::default());
