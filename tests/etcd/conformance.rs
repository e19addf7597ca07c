//! Runs the conformance suite on the store on etcd. One server serves all cases, each with its own
//! namespaces.

use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicUsize, Ordering},
};

use etcd_client::{Client, GetOptions};
use windlass::{
    TaskId, async_trait,
    clock::{Clock, SystemClock},
    store::{
        StateStore, Store,
        etcd::{EtcdStates, EtcdStore, Options},
    },
    testing::conformance::{Harness, StateHarness},
};

use crate::server::Server;

/// The server that the cases share. It stops after the last of them.
fn shared() -> Arc<Server> {
    static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut server = SERVER.lock().unwrap();
    server.upgrade().unwrap_or_else(|| {
        let new = Arc::new(Server::start());
        *server = Arc::downgrade(&new);
        new
    })
}

/// How the keys of a namespace are laid out.
#[derive(Clone, Copy)]
enum Layout {
    /// As windlass makes a new namespace.
    Compact,
    /// As one that nodes of Metafora share. Lists and counts use the index in memory.
    Shared,
}

struct Etcd {
    layout: Layout,
    server: Arc<Server>,
    namespace: Mutex<String>,
    /// The value that was damaged last.
    sound: Mutex<Vec<u8>>,
}

impl Etcd {
    fn of(layout: Layout) -> Self {
        Self {
            layout,
            server: shared(),
            namespace: Mutex::default(),
            sound: Mutex::default(),
        }
    }

    fn url(&self) -> String {
        let url = self.server.url(&self.namespace.lock().unwrap());
        match self.layout {
            Layout::Compact => url,
            Layout::Shared => format!("{url}?metafora-nodes=true&memory-index=true"),
        }
    }

    async fn fresh(&self) -> EtcdStore {
        self.fresh_with(SystemClock::shared()).await
    }

    async fn fresh_with(&self, clock: Arc<dyn Clock>) -> EtcdStore {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("ns{count}");
        *self.namespace.lock().unwrap() = namespace;
        self.connect(clock).await
    }

    async fn connect(&self, clock: Arc<dyn Clock>) -> EtcdStore {
        let options = Options::parse(&self.url()).unwrap();
        EtcdStore::connect(options, clock).await.unwrap()
    }

    /// Writes text that no record begins with to a key of the namespace.
    async fn damage(&self, key: &str, task: &TaskId) {
        let (mut client, key) = self.key(key, task).await;
        let mut sound = client.get(key.as_str(), None).await.unwrap().take_kvs();
        let sound = sound.pop().map(|kv| kv.value().to_vec());
        *self.sound.lock().unwrap() = sound.unwrap_or_default();
        client.put(key, "{", None).await.unwrap();
    }

    async fn key(&self, key: &str, task: &TaskId) -> (Client, String) {
        let endpoint = [format!("http://{}", self.server.endpoint())];
        let client = Client::connect(endpoint, None).await.unwrap();
        let key = format!("/{}/{key}/{task}", self.namespace.lock().unwrap());
        (client, key)
    }
}

fn store(store: EtcdStore) -> Store {
    let store = Arc::new(store);
    Store::from_parts(store.clone(), store, SystemClock::shared())
}

#[async_trait]
impl Harness for Etcd {
    async fn store(&self) -> Store {
        store(self.fresh().await)
    }

    async fn store_with_clock(&self, clock: Arc<dyn Clock>) -> Option<Store> {
        let store = Arc::new(self.fresh_with(clock.clone()).await);
        Some(Store::from_parts(store.clone(), store, clock))
    }

    async fn reopen(&self, old: Store) -> Option<Store> {
        drop(old);
        Some(store(self.connect(SystemClock::shared()).await))
    }

    /// A server grants no lease below two seconds.
    fn short_lease(&self) -> std::time::Duration {
        std::time::Duration::from_secs(2)
    }

    async fn corrupt_state(&self, _: &Store, task: &TaskId) -> bool {
        self.damage("state", task).await;
        true
    }

    async fn repair_state(&self, _: &Store, task: &TaskId) -> bool {
        let (mut client, key) = self.key("state", task).await;
        let sound = self.sound.lock().unwrap().clone();
        client.put(key, sound, None).await.unwrap();
        true
    }

    async fn corrupt_envelope(&self, _: &Store, task: &TaskId) -> bool {
        self.damage("tasks", task).await;
        true
    }

    async fn corrupt_log(&self, _: &Store, task: &TaskId) -> bool {
        let (mut client, prefix) = self.key("meta/log", task).await;
        let parts = GetOptions::new().with_prefix().with_limit(1);
        let parts = client.get(format!("{prefix}/"), Some(parts)).await.unwrap();
        let key = parts.kvs()[0].key().to_vec();
        client.put(key, "{", None).await.unwrap();
        true
    }
}

#[async_trait]
impl StateHarness for Etcd {
    async fn states(&self) -> Arc<dyn StateStore> {
        Arc::new(EtcdStates::of(&self.fresh().await))
    }

    async fn reopen(&self, old: Arc<dyn StateStore>) -> Option<Arc<dyn StateStore>> {
        drop(old);
        Some(Arc::new(EtcdStates::of(
            &self.connect(SystemClock::shared()).await,
        )))
    }

    async fn corrupt(&self, _: &Arc<dyn StateStore>, task: &TaskId) -> bool {
        self.damage("state", task).await;
        true
    }
}

windlass::conformance_tests!(etcd, Etcd::of(Layout::Compact));
windlass::conformance_tests!(etcd_shared_layout, Etcd::of(Layout::Shared));
windlass::state_store_conformance_tests!(etcd_states, Etcd::of(Layout::Compact));
