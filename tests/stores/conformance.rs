//! Runs the conformance suite on every store that ships with windlass.
#![cfg(feature = "conformance")]
#![allow(
    clippy::unwrap_used,
    reason = "a harness that fails should fail its test"
)]

use std::{sync::Arc, time::Duration};

use windlass::{
    TaskId, async_trait,
    clock::Clock,
    store::{
        StateStore, Store,
        memory::{MemoryStates, MemoryStore},
    },
    testing::{
        TokioClock,
        conformance::{Harness, StateHarness},
    },
};

/// Stores in memory that follow tokio's clock, and the last one that was made, which damages its
/// own records.
#[derive(Default)]
struct Memory {
    store: std::sync::Mutex<Option<Arc<MemoryStore>>>,
    /// The state that was damaged last.
    sound: std::sync::Mutex<String>,
}

impl Memory {
    fn with(&self, clock: Arc<dyn Clock>) -> Store {
        let store = Arc::new(MemoryStore::new(clock.clone()));
        *self.store.lock().unwrap() = Some(store.clone());
        Store::from_parts(store.clone(), store, clock)
    }
}

#[async_trait]
impl Harness for Memory {
    async fn store(&self) -> Store {
        self.with(Arc::new(TokioClock::new(jiff::Timestamp::now())))
    }

    async fn store_with_clock(&self, clock: Arc<dyn Clock>) -> Option<Store> {
        Some(self.with(clock))
    }

    async fn corrupt_state(&self, store: &Store, task: &TaskId) -> bool {
        let state = store.registry().get(task).await.unwrap().state.unwrap();
        *self.sound.lock().unwrap() = serde_json::to_string(&state).unwrap();
        let store = self.store.lock().unwrap();
        store.as_ref().unwrap().damage(task, "{").unwrap();
        true
    }

    async fn repair_state(&self, _: &Store, task: &TaskId) -> bool {
        let (store, sound) = (self.store.lock().unwrap(), self.sound.lock().unwrap());
        store.as_ref().unwrap().damage(task, &sound).unwrap();
        true
    }
}

/// Any store with a separate state store.
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

    async fn reopen(&self, store: Store) -> Option<Store> {
        let store = self.inner.reopen(store).await?;
        Some(store.with_state_store(self.states.clone()))
    }

    async fn store_with_clock(&self, clock: Arc<dyn Clock>) -> Option<Store> {
        let store = self.inner.store_with_clock(clock).await?;
        Some(store.with_state_store(self.states.clone()))
    }

    fn short_lease(&self) -> Duration {
        self.inner.short_lease()
    }

    async fn corrupt_state(&self, _: &Store, task: &TaskId) -> bool {
        self.states.damage(task, "{");
        true
    }

    async fn corrupt_envelope(&self, store: &Store, task: &TaskId) -> bool {
        self.inner.corrupt_envelope(store, task).await
    }

    async fn corrupt_log(&self, store: &Store, task: &TaskId) -> bool {
        self.inner.corrupt_log(store, task).await
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

/// A separate SQLite file for each store.
#[cfg(feature = "sqlite-system")]
mod sqlite_file {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use rusqlite::Connection;
    use tempfile::TempDir;
    use windlass::{
        TaskId, async_trait,
        clock::Clock,
        store::{
            StateStore, Store,
            sqlite::{Options, SqliteStates},
        },
        testing::conformance::{Harness, StateHarness},
    };

    /// The folder of the last store that was made, and the state that was damaged last.
    #[derive(Default)]
    pub(super) struct File {
        folder: Mutex<Option<TempDir>>,
        sound: Mutex<String>,
    }

    impl File {
        fn make(&self) -> String {
            *self.folder.lock().unwrap() = Some(tempfile::tempdir().unwrap());
            self.path()
        }

        fn path(&self) -> String {
            let folder = self.folder.lock().unwrap();
            let path = folder.as_ref().unwrap().path().join("tasks.db");
            path.to_str().unwrap().to_owned()
        }

        fn write(&self, sql: &str, task: &TaskId) {
            let file = Connection::open(self.path()).unwrap();
            assert_eq!(file.execute(sql, [task.as_str()]).unwrap(), 1);
        }
    }

    const WHICH: &str = "n = (SELECT n FROM windlass_tasks WHERE id = ?1)";

    async fn open(path: &str) -> Store {
        Store::open(&format!("sqlite:{path}")).await.unwrap()
    }

    #[async_trait]
    impl Harness for File {
        async fn store(&self) -> Store {
            open(&self.make()).await
        }

        async fn store_with_clock(&self, clock: Arc<dyn Clock>) -> Option<Store> {
            let url = format!("sqlite:{}", self.make());
            Some(Store::open_with_clock(&url, clock).await.unwrap())
        }

        async fn reopen(&self, store: Store) -> Option<Store> {
            drop(store);
            Some(open(&self.path()).await)
        }

        /// On a busy machine only a few calls fit into a second of real time, because each syncs
        /// the file.
        fn short_lease(&self) -> Duration {
            Duration::from_secs(1)
        }

        async fn corrupt_state(&self, _: &Store, task: &TaskId) -> bool {
            let file = Connection::open(self.path()).unwrap();
            let read = format!("SELECT state FROM windlass_states WHERE {WHICH}");
            let read = file.query_row(&read, [task.as_str()], |row| row.get(0));
            *self.sound.lock().unwrap() = read.unwrap();
            self.write(
                &format!("UPDATE windlass_states SET state = '{{' WHERE {WHICH}"),
                task,
            );
            true
        }

        async fn repair_state(&self, _: &Store, task: &TaskId) -> bool {
            let sound = self.sound.lock().unwrap().replace('\'', "''");
            let sql = format!("UPDATE windlass_states SET state = '{sound}' WHERE {WHICH}");
            self.write(&sql, task);
            true
        }

        async fn corrupt_envelope(&self, _: &Store, task: &TaskId) -> bool {
            self.write("UPDATE windlass_tasks SET props = '{' WHERE id = ?1", task);
            true
        }

        async fn corrupt_log(&self, _: &Store, task: &TaskId) -> bool {
            let sql = format!("UPDATE windlass_log SET lines = '{{' WHERE part = 0 AND {WHICH}");
            self.write(&sql, task);
            true
        }
    }

    #[async_trait]
    impl StateHarness for File {
        async fn states(&self) -> Arc<dyn StateStore> {
            let states = SqliteStates::open(self.make(), Options::default()).await;
            Arc::new(states.unwrap())
        }

        async fn reopen(&self, states: Arc<dyn StateStore>) -> Option<Arc<dyn StateStore>> {
            drop(states);
            let states = SqliteStates::open(self.path(), Options::default()).await;
            Some(Arc::new(states.unwrap()))
        }

        async fn corrupt(&self, _: &Arc<dyn StateStore>, task: &TaskId) -> bool {
            self.write(
                "UPDATE windlass_states_alone SET state = '{' WHERE task = ?1",
                task,
            );
            true
        }
    }
}

windlass::conformance_tests!(
    memory,
    Memory::default(),
    paused,
    cannot {
        Reopen: "the data end with the store",
        CorruptEnvelope: "the store keeps envelopes as values, which are always readable",
        CorruptLog: "the store keeps logs as values, which are always readable",
        Examine: "the store has no examination of its own",
    }
);
windlass::conformance_tests!(
    split_memory,
    Split::<Memory>::default(),
    paused,
    cannot {
        Reopen: "the coordinator's data end with the store",
        CorruptEnvelope: "the coordinator keeps envelopes as values, which are always readable",
        CorruptLog: "the coordinator keeps logs as values, which are always readable",
        RepairState: "the coordinator fails the task, and no record of it is quarantined",
        Effects: "a commit to two stores cannot be one step with its effects",
    }
);
windlass::state_store_conformance_tests!(
    memory_states,
    States::default(),
    paused,
    cannot {
        Reopen: "the data end with the store",
    }
);
#[cfg(feature = "sqlite-system")]
windlass::conformance_tests!(sqlite, sqlite_file::File::default());
#[cfg(feature = "sqlite-system")]
windlass::conformance_tests!(
    split_sqlite,
    Split::<sqlite_file::File>::default(),
    cannot {
        RepairState: "the coordinator fails the task, and no record of it is quarantined",
        Effects: "a commit to two stores cannot be one step with its effects",
    }
);
#[cfg(feature = "sqlite-system")]
windlass::state_store_conformance_tests!(sqlite_states, sqlite_file::File::default());
