//! What the tests share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use windlass::{
    Client, Code, Command, Kind, Outcome, TaskId,
    clock::Clock,
    runner::Builder,
    store::{
        Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, NodeRecord, NodeSpec,
        NodeStatus, Store,
    },
};

/// A clock that follows tokio's, paused or not.
#[derive(Debug)]
pub(crate) struct Virtual {
    begun: Instant,
    at: Timestamp,
}

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        self.at + SignedDuration::try_from(self.begun.elapsed()).unwrap()
    }
}

/// Counts the claims that are asked for.
struct Counting {
    inner: Arc<dyn Coordinator>,
    asked: Arc<AtomicUsize>,
}

#[windlass::async_trait]
impl Coordinator for Counting {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.inner.join(node, ttl).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.inner.renew(lease, status).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        self.inner.leave(lease).await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.inner.watch(lease, kinds).await
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        self.asked.fetch_add(tasks.len(), Ordering::SeqCst);
        self.inner.claim(lease, tasks).await
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        self.inner.commit(commits).await
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.inner.peers().await
    }

    async fn acknowledge(&self, lease: &Lease, order: u64, outcome: &str) -> Result<(), Error> {
        self.inner.acknowledge(lease, order, outcome).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        self.inner.maintain(retention).await
    }
}

pub(crate) struct World {
    asked: Arc<AtomicUsize>,
    pub(crate) store: Store,
    pub(crate) client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        let at = "2030-01-01T00:00:00Z".parse().unwrap();
        let clock = Arc::new(Virtual {
            begun: Instant::now(),
            at,
        });
        let store = Store::open_with_clock("memory:", clock).await.unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counting = Counting {
            inner: store.coordinator().clone(),
            asked: asked.clone(),
        };
        let (registry, clock) = (store.registry().clone(), store.clock().clone());
        let store = Store::from_parts(Arc::new(counting), registry, clock);
        Self {
            asked,
            client: Client::new(&store),
            store,
        }
    }

    pub(crate) fn node(&self, name: &str) -> Builder {
        windlass::Runner::builder(&self.store).node(name)
    }

    /// How many tasks the nodes have asked the store for.
    pub(crate) fn claims_asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    pub(crate) async fn code(&self, id: &TaskId) -> Code {
        self.client.get(id).await.unwrap().state.unwrap().code()
    }

    /// Waits until the task is in this state and nobody has it.
    pub(crate) async fn rest(&self, id: &TaskId, code: Code) {
        self.until(&format!("{id} rests {code}"), || async {
            let record = self.client.get(id).await.unwrap();
            record.state.unwrap().code() == code && record.node.is_none()
        })
        .await;
    }

    /// Waits for something that no signal tells, in virtual time.
    pub(crate) async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        mut is: impl FnMut() -> F,
    ) {
        let deadline = Instant::now() + Duration::from_secs(3600);
        while !is().await {
            assert!(Instant::now() < deadline, "never: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends a command and waits for what becomes of it.
    pub(crate) async fn command(&self, id: &TaskId, command: Command) -> Outcome {
        let sent = self.client.command(id, command).await.unwrap();
        self.client.wait_outcome(&sent).await.unwrap()
    }
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn applied(from: Code, to: Code) -> Outcome {
    Outcome::Applied { from, to }
}
