//! Helpers of the tests.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use windlass::{
    Client, Command, Message, NewTask, Outcome, Runner, StateKind, StatefulHandler, Stop,
    TaskContext, TaskId,
    clock::Clock,
    runner::Builder,
    store::Store,
    testing::{FaultyStore, TokioClock},
};

/// Tokio's time, until it is set forward or back.
#[derive(Debug)]
pub(crate) struct SettableClock {
    runs: TokioClock,
    offset: Mutex<SignedDuration>,
}

impl SettableClock {
    /// Returns a clock that shows this time now.
    pub(crate) fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self {
            runs: TokioClock::new(now),
            offset: Mutex::default(),
        })
    }

    /// Sets the clock forward, or back.
    pub(crate) fn set_by(&self, offset: SignedDuration) {
        *self.offset.lock().unwrap() += offset;
    }
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        self.runs.now() + *self.offset.lock().unwrap()
    }
}

pub(crate) struct World {
    /// Fails on demand.
    pub(crate) faults: FaultyStore,
    pub(crate) store: Store,
    pub(crate) client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        let at = "2030-01-01T00:00:00Z".parse().unwrap();
        let clock = Arc::new(TokioClock::new(at));
        let faults = FaultyStore::new(&Store::open_with_clock("memory:", clock).await.unwrap());
        let store = faults.store();
        Self {
            faults,
            client: Client::new(&store),
            store,
        }
    }

    /// One whose nodes have a clock that can be set. The store's leases do not follow it.
    pub(crate) async fn with_settable_clock() -> (Self, Arc<SettableClock>) {
        let mut world = Self::new().await;
        let clock = SettableClock::at(world.now());
        let (coordinator, registry) = (world.store.coordinator(), world.store.registry());
        let store = Store::from_parts(coordinator.clone(), registry.clone(), clock.clone());
        world.client = Client::new(&store);
        world.store = store;
        (world, clock)
    }

    pub(crate) fn node(&self, name: &str) -> Builder {
        Runner::builder(&self.store).node(name)
    }

    /// Starts a node with a handler of the kind `work`, and submits a task of the kind.
    pub(crate) async fn work(&self, handler: impl StatefulHandler) -> (Runner, TaskId) {
        let node = self.node("n").handler("work", handler).start().await;
        let task = self.client.submit(NewTask::new("work")).await;
        (node.unwrap(), task.unwrap().into_id())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    pub(crate) async fn code(&self, id: &TaskId) -> StateKind {
        self.client.get(id).await.unwrap().state.unwrap().code()
    }

    /// Waits until the task is in this state and no node has it.
    pub(crate) async fn rest(&self, id: &TaskId, code: StateKind) {
        self.until(&format!("{id} rests {code}"), || async {
            let record = self.client.get(id).await.unwrap();
            record.state.unwrap().code() == code && record.node.is_none()
        })
        .await;
    }

    /// Waits until a node has the task.
    pub(crate) async fn claimed(&self, id: &TaskId) {
        self.until(&format!("{id} is claimed"), || async {
            self.client.get(id).await.unwrap().node.is_some()
        })
        .await;
    }

    /// Submits a task of this kind and waits until a node has it.
    pub(crate) async fn running(&self, kind: &str) -> TaskId {
        let id = self
            .client
            .submit(NewTask::new(kind))
            .await
            .unwrap()
            .into_id();
        self.claimed(&id).await;
        id
    }

    /// Waits until a node has listed.
    pub(crate) async fn listed(&self, node: &Runner) {
        self.until("listed", || async { node.snapshot().await.unwrap().listed })
            .await;
    }

    /// Waits, in virtual time, for something that no signal reports.
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

    /// Sends a command and waits for its outcome.
    pub(crate) async fn command(&self, id: &TaskId, command: Command) -> Outcome {
        let sent = self.client.command(id, command).await.unwrap();
        self.client.wait_outcome(&sent).await.unwrap()
    }
}

/// The end of one run of a handler: the node dropped it.
#[derive(Debug, Clone)]
pub(crate) struct RunEnd {
    pub(crate) at: Instant,
    /// The stop that the handler could have read at its end.
    pub(crate) stop: Option<Stop>,
}

/// The ends of the runs of a handler that ignores every stop, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunEnds(Arc<Mutex<Vec<RunEnd>>>);

impl RunEnds {
    /// Handles a task: records the end of the run, and never returns.
    pub(crate) async fn hold(self, task: TaskContext) -> Message {
        let _guard = RunGuard { ends: self, task };
        std::future::pending().await
    }

    pub(crate) fn all(&self) -> Vec<RunEnd> {
        self.0.lock().unwrap().clone()
    }
}

/// Lives as long as one run, and records its end.
struct RunGuard {
    ends: RunEnds,
    task: TaskContext,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let end = RunEnd {
            at: Instant::now(),
            stop: self.task.stop_requested().now_or_never(),
        };
        self.ends.0.lock().unwrap().push(end);
    }
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn applied(from: StateKind, to: StateKind) -> Outcome {
    Outcome::Applied { from, to }
}
