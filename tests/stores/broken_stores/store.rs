//! [`PlantedStore`]: the memory store with a journal and one planted defect.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use windlass::{
    Fence, Outcome, StateKind, TaskId, async_trait,
    clock::Clock,
    store::{Error, Filter, NodeRecord, Page, Registry, Store, TaskCount, memory::MemoryStore},
    testing::conformance::Harness,
};

use super::{
    defect::Defect,
    journal::{Call, Journal, ReplayClock},
};

/// What a planted defect remembers.
#[derive(Default)]
pub(crate) struct Memory {
    /// The fence that the store gave to the claim of each task.
    pub(crate) fences: HashMap<TaskId, Fence>,
    /// Fence and version of the last write of each task.
    pub(crate) written: HashMap<TaskId, (Fence, u64)>,
    /// The outcome that the last write brought for each command order.
    pub(crate) outcomes: HashMap<u64, Outcome>,
    /// The tasks that the first watch of a lease has listed.
    pub(crate) listed: HashMap<u64, Vec<TaskId>>,
    /// Every node that has ever been a peer.
    pub(crate) peers: Vec<NodeRecord>,
    /// Every task that was retried.
    pub(crate) retried: Vec<TaskId>,
    /// Whether a node was described again.
    pub(crate) described: bool,
    /// Whether the store was pruned.
    pub(crate) pruned: bool,
    /// The identity of the namespace, once somebody has asked for it.
    pub(crate) identity: Option<String>,
    /// The first counts.
    pub(crate) counts: Option<Vec<TaskCount>>,
}

/// A store that passes the suite except for one defect.
pub(crate) struct PlantedStore {
    pub(crate) inner: MemoryStore,
    pub(crate) clock: Arc<ReplayClock>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) defect: Option<Defect>,
    pub(crate) memory: Arc<Mutex<Memory>>,
}

impl PlantedStore {
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// Deletes the ended tasks, also those that others wait for, if pruning does.
    pub(crate) async fn forget_what_others_wait_for(&self) -> Result<(), Error> {
        if self.has(Defect::PruningTakesWhatOthersWaitFor) {
            let filter = Filter::new().states([StateKind::Completed]);
            for record in self.inner.list(&filter, Page::default()).await? {
                self.inner.delete(vec![record.task.id]).await;
            }
        }
        Ok(())
    }

    /// Waits where a slow store does.
    pub(crate) async fn take_long(&self) {
        if self.has(Defect::CallsTakeLong) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(crate) fn write(&self, call: Call) {
        self.journal.write(self.clock.now(), call);
    }
}

/// Makes stores with this defect, or sound ones.
#[derive(Default)]
pub(crate) struct Planted {
    pub(crate) defect: Option<Defect>,
    last: Mutex<Option<Arc<PlantedStore>>>,
    /// The state that was damaged last.
    sound: Mutex<String>,
}

impl Planted {
    pub(crate) fn new(defect: Option<Defect>) -> Self {
        Self {
            defect,
            last: Mutex::default(),
            sound: Mutex::default(),
        }
    }

    fn open(&self, store: PlantedStore) -> Store {
        let store = Arc::new(store);
        *self.last.lock().unwrap() = Some(store.clone());
        Store::from_parts(store.clone(), store.clone(), store.clock.clone())
    }
}

#[async_trait]
impl Harness for Planted {
    async fn store(&self) -> Store {
        let clock = ReplayClock::shared();
        self.open(PlantedStore {
            inner: MemoryStore::new(clock.clone()),
            clock,
            journal: Arc::default(),
            defect: self.defect,
            memory: Arc::default(),
        })
    }

    async fn reopen(&self, store: Store) -> Option<Store> {
        drop(store);
        let last = self.last.lock().unwrap().clone()?;
        let is_lost = |call: &Call| self.defect.is_some_and(|defect| defect.loses(call));
        Some(self.open(PlantedStore {
            inner: last.journal.replay(&last.clock, is_lost).await,
            clock: last.clock.clone(),
            journal: last.journal.clone(),
            defect: self.defect,
            memory: last.memory.clone(),
        }))
    }

    async fn store_with_clock(&self, clock: Arc<dyn Clock>) -> Option<Store> {
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Some(Store::from_parts(store.clone(), store, clock))
    }

    /// For the memory store, an unreadable state and an unreadable envelope are the same.
    async fn corrupt_envelope(&self, store: &Store, task: &TaskId) -> bool {
        self.corrupt_state(store, task).await
    }

    async fn corrupt_state(&self, _: &Store, task: &TaskId) -> bool {
        let last = self.last.lock().unwrap().clone();
        let Some(store) = last else { return false };
        if let Ok(record) = store.inner.get(task).await
            && let Ok(state) = record.state
        {
            *self.sound.lock().unwrap() = serde_json::to_string(&state).unwrap();
        }
        store.inner.damage(task, "{").is_ok()
    }

    async fn repair_state(&self, _: &Store, task: &TaskId) -> bool {
        let (last, sound) = (self.last.lock().unwrap(), self.sound.lock().unwrap());
        last.as_ref()
            .is_some_and(|store| store.inner.damage(task, &sound).is_ok())
    }
}
