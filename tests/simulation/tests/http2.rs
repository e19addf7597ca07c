//! The store on etcd, over HTTP/2 on pipes in memory, to the model of etcd: the model answers through real frames as it does
//! when the simulation hands its messages over. The time is virtual.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use windlass::{
    Effects, Message, StateKind, Task, TaskId, TaskState, async_trait,
    clock::Clock,
    statemachine::{CommitId, machine::Write, transition},
    store::{
        Claimed, Commit, Coordinator, Event, EventStream, IfExists, Lease, NodeSpec, NodeStatus,
        Registry, Store, Submit, Submitted,
        etcd::{EtcdStore, Options},
    },
    testing::{TokioClock, conformance::Harness},
};
use windlass_simulation::{etcd::Servers, network::Network, pipes::Pipes, process::START};

/// How many members there are.
const MEMBERS: usize = 3;
/// How often the members look at their time.
const TURN: Duration = Duration::from_millis(20);
/// How long an event may take.
const SOON: Duration = Duration::from_secs(10);

/// A cluster whose time is that of the test.
fn cluster() -> Pipes {
    let servers = Arc::new(Servers::new(MEMBERS));
    let (started, of_task) = (Instant::now(), servers.clone());
    tokio::spawn(async move {
        loop {
            sleep(TURN).await;
            of_task.advance(started.elapsed());
        }
    });
    Pipes::to(servers)
}

async fn connect(pipes: &Pipes, process: usize, clock: Arc<dyn Clock>) -> EtcdStore {
    let mut options = Options::parse("etcd://member-0:2379/piped").unwrap();
    options.endpoints = (0..MEMBERS).map(Network::endpoint).collect();
    let options = options.with_connector(pipes.connector(process));
    EtcdStore::connect(options, clock).await.unwrap()
}

/// A node on its store.
struct Node {
    store: EtcdStore,
    lease: Lease,
    events: EventStream,
    clock: TokioClock,
}

impl Node {
    async fn join(pipes: &Pipes, process: usize, ttl: Duration) -> Self {
        let clock = TokioClock::new(START);
        let store = connect(pipes, process, Arc::new(clock)).await;
        let spec = NodeSpec::new(format!("node-{process}").parse().unwrap());
        let lease = store.join(&spec, ttl).await.unwrap();
        let events = store.watch(&lease, None).await.unwrap();
        Self {
            store,
            lease,
            events,
            clock,
        }
    }

    async fn submit(&self, id: &str, props: Value) {
        let mut task = Task::new(id.parse().unwrap(), "piped".parse().unwrap());
        task.props = props.into();
        let if_exists = IfExists::Refuse;
        let mut answers = self.store.submit(vec![Submit { task, if_exists }]).await;
        assert_eq!(answers.remove(0).unwrap(), Submitted::New);
    }

    async fn claim(&self, id: &str) -> Claimed {
        let mut answers = self.store.claim(&self.lease, vec![task(id)]).await;
        answers.remove(0).unwrap().unwrap()
    }

    /// Commits what a handler returned, and returns the state.
    async fn commit(&self, claimed: &Claimed, message: &Message) -> TaskState {
        let moved = transition(&claimed.state, message, self.clock.now()).unwrap();
        let state = TaskState {
            version: claimed.state.version + 1,
            commit: Some(CommitId(fastrand::u64(..))),
            ..moved
        };
        let write = Write {
            follows: claimed.state.version,
            drop_claim: state.code() != StateKind::Runnable,
            state: state.clone(),
            steps: Vec::new(),
            outcomes: Vec::new(),
            effects: Effects::default(),
        };
        let commit = Commit::new(claimed.claim.clone(), write);
        self.store.commit(vec![commit]).await.remove(0).unwrap();
        state
    }

    /// Waits for an event that matches.
    async fn until<T>(&mut self, what: &str, mut matches: impl FnMut(&Event) -> Option<T>) -> T {
        let found = async {
            loop {
                let events = self.events.next().await.unwrap();
                if let Some(found) = events.iter().find_map(&mut matches) {
                    return found;
                }
            }
        };
        let found = timeout(SOON, found).await;
        found.unwrap_or_else(|_| panic!("no event in time: {what}"))
    }

    async fn sees(&mut self, id: &str) {
        let matches =
            |event: &Event| matches!(event, Event::Task(view) if view.id == task(id)).then_some(());
        self.until(id, matches).await;
    }
}

fn task(id: &str) -> TaskId {
    id.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_task_lives_over_http2() {
    let pipes = cluster();
    let ttl = Duration::from_secs(3);
    let one = Node::join(&pipes, 1, ttl).await;
    let mut other = Node::join(&pipes, 2, ttl).await;
    // More than one frame, and more than the window of a stream.
    let props = json!({ "text": "x".repeat(300_000) });
    one.submit("large", props.clone()).await;
    other.sees("large").await;

    let mut claimed = one.claim("large").await;
    assert_eq!(claimed.task.props, props.into());
    let checkpoint = Message::checkpoint().with_json(json!({ "step": 1 }).into());
    claimed.state = one.commit(&claimed, &checkpoint).await;

    // Renewals go on for longer than a lease lasts. The second node renews none, and is gone then.
    for _ in 0..6 {
        sleep(Duration::from_secs(1)).await;
        let status = NodeStatus::default();
        one.store.renew(&one.lease, &status).await.unwrap();
    }
    let peers = one.store.peers().await.unwrap();
    let names: Vec<String> = peers
        .iter()
        .map(|peer| peer.spec.name.to_string())
        .collect();
    assert_eq!(names, ["node-1"]);
    let status = NodeStatus::default();
    assert!(other.store.renew(&other.lease, &status).await.is_err());

    let done = one.commit(&claimed, &Message::complete()).await;
    assert_eq!(done.code(), StateKind::Completed);
    let stored = one.store.get(&task("large")).await.unwrap();
    assert_eq!(stored.state.unwrap().code(), StateKind::Completed);
    one.store.leave(&one.lease).await.unwrap();
    assert!(one.store.peers().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_after_its_pipe_was_cut() {
    let pipes = cluster();
    let ttl = Duration::from_secs(30);
    let mut node = Node::join(&pipes, 1, ttl).await;
    let other = Node::join(&pipes, 2, ttl).await;
    other.submit("before", Value::Null).await;
    node.sees("before").await;

    let opened = pipes.connections();
    pipes.cut();
    // The submit may find the broken connection, and is then made again on another one.
    let mut tries = 0;
    while other.store.get(&task("before")).await.is_err() {
        tries += 1;
        assert!(tries < 10, "the store finds no other connection");
        sleep(Duration::from_millis(100)).await;
    }
    other.submit("after", Value::Null).await;
    node.sees("after").await;
    assert!(
        pipes.connections() > opened,
        "no connection was opened again"
    );
}

/// The conformance suite, each case on a cluster of its own.
struct Piped(std::sync::Mutex<Option<Pipes>>);

impl Piped {
    async fn open(&self, clock: Arc<dyn Clock>) -> Store {
        let pipes = cluster();
        *self.0.lock().unwrap() = Some(pipes.clone());
        self.connect(&pipes, clock).await
    }

    async fn connect(&self, pipes: &Pipes, clock: Arc<dyn Clock>) -> Store {
        let store = Arc::new(connect(pipes, 1, clock.clone()).await);
        Store::from_parts(store.clone(), store, clock)
    }
}

#[async_trait]
impl Harness for Piped {
    async fn store(&self) -> Store {
        // The cases have other stores too, on the clock of the machine.
        self.open(Arc::new(TokioClock::new(Timestamp::now()))).await
    }

    async fn store_with_clock(&self, clock: Arc<dyn Clock>) -> Option<Store> {
        Some(self.open(clock).await)
    }

    async fn reopen(&self, old: Store) -> Option<Store> {
        let clock = old.clock().clone();
        drop(old);
        let pipes = self.0.lock().unwrap().clone()?;
        Some(self.connect(&pipes, clock).await)
    }

    /// A server grants no lease below two seconds.
    fn short_lease(&self) -> Duration {
        Duration::from_secs(2)
    }
}

windlass::conformance_tests!(
    piped,
    Piped(std::sync::Mutex::default()),
    paused,
    cannot {
        CorruptState: "the harness damages nothing; tests/etcd does",
        RepairState: "the harness damages nothing; tests/etcd does",
        CorruptEnvelope: "the harness damages nothing; tests/etcd does",
        CorruptLog: "the harness damages nothing; tests/etcd does",
    }
);
