//! Runs the suite on a state store as a user writes it (the example's folder of JSON files), alone
//! and with a coordinator.
#![cfg(all(feature = "conformance", feature = "sqlite-system"))]
#![allow(
    clippy::unwrap_used,
    reason = "a harness that fails should fail its test"
)]

#[path = "../../examples/own_state_store.rs"]
#[allow(dead_code, reason = "its main is not called")]
mod example;

use std::sync::{Arc, Mutex};

use example::JsonFolder;
use tempfile::TempDir;
use windlass::{
    TaskId, async_trait,
    store::{StateStore, Store},
    testing::{
        TokioClock,
        conformance::{Harness, StateHarness},
    },
};

/// The folder of the last store that was made.
#[derive(Default)]
struct Folder(Mutex<Option<TempDir>>);

impl Folder {
    fn make(&self) -> Arc<JsonFolder> {
        *self.0.lock().unwrap() = Some(tempfile::tempdir().unwrap());
        self.open()
    }

    fn open(&self) -> Arc<JsonFolder> {
        let folder = self.0.lock().unwrap();
        let path = folder.as_ref().unwrap().path().join("states");
        Arc::new(JsonFolder::open(path).unwrap())
    }

    fn damage(&self, task: &TaskId) {
        std::fs::write(self.open().file(task), "{").unwrap();
    }
}

#[async_trait]
impl StateHarness for Folder {
    async fn states(&self) -> Arc<dyn StateStore> {
        self.make()
    }

    async fn reopen(&self, states: Arc<dyn StateStore>) -> Option<Arc<dyn StateStore>> {
        drop(states);
        Some(self.open())
    }

    async fn corrupt(&self, _: &Arc<dyn StateStore>, task: &TaskId) -> bool {
        self.damage(task);
        true
    }
}

#[async_trait]
impl Harness for Folder {
    async fn store(&self) -> Store {
        let clock = Arc::new(TokioClock::new(jiff::Timestamp::now()));
        let store = Store::open_with_clock("memory:", clock).await.unwrap();
        store.with_state_store(self.make())
    }

    async fn corrupt_state(&self, _: &Store, task: &TaskId) -> bool {
        self.damage(task);
        true
    }

    fn takes_effects(&self) -> bool {
        false
    }
}

windlass::state_store_conformance_tests!(json_folder, Folder::default());
windlass::conformance_tests!(
    beside_memory,
    Folder::default(),
    paused,
    cannot {
        Reopen: "the coordinator's data end with the store",
        Clock: "the harness opens the coordinator on a clock of its own",
        CorruptEnvelope: "the coordinator keeps envelopes as values, which are always readable",
        CorruptLog: "the coordinator keeps logs as values, which are always readable",
        RepairState: "the coordinator fails the task, and no record of it is quarantined",
        Effects: "a commit to two stores cannot be one step with its effects",
    }
);
