//! What the tests share.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use windlass::{
    BoxError, Client, Effects, Message, StateKind, Task, TaskContext, TaskId,
    clock::{Clock, SystemClock},
    statemachine::{CommitId, machine::Write, transition},
    store::{
        Claimed, Commit, IfExists, NodeSpec, Registry, Store, Submit,
        etcd::{EtcdStore, Options},
    },
};

/// The keys with this prefix, with their values.
pub(crate) async fn keys_below(
    etcd: &mut etcd_client::Client,
    prefix: &str,
) -> Vec<(String, String)> {
    let all = etcd_client::GetOptions::new().with_prefix();
    let found = etcd.get(prefix, Some(all)).await.unwrap();
    let text = |kv: &etcd_client::KeyValue| {
        let (key, value) = (kv.key_str().unwrap(), kv.value_str().unwrap());
        (key.to_owned(), value.to_owned())
    };
    found.kvs().iter().map(text).collect()
}

/// Deletes a task, also one that a node has claimed.
pub(crate) async fn force_delete(store: &windlass::store::etcd::EtcdStore, id: &TaskId) {
    let forced = windlass::store::Delete::new(id.clone()).forced();
    let deletion = windlass::store::Operation::Delete(forced).into();
    store.apply(vec![deletion]).await.remove(0).unwrap();
}

/// How long a test waits for what must come.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is().await {
        assert!(
            started.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for work with a time limit, so that a hang becomes a failure with a name.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match timeout(DEADLINE, work).await {
        Ok(answer) => answer,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

pub(crate) async fn open(url: &str) -> (Store, Client) {
    let store = Store::open(url).await.unwrap();
    let client = Client::new(&store);
    (store, client)
}

/// Returns the commit that a handler's message makes, which keeps the claim.
pub(crate) fn write(claimed: &Claimed, message: &Message) -> Commit {
    let state = transition(&claimed.state, message, SystemClock.now()).unwrap();
    let write = Write {
        follows: claimed.state.version,
        state: windlass::TaskState {
            version: claimed.state.version + 1,
            commit: Some(CommitId(fastrand::u64(..))),
            ..state
        },
        steps: Vec::new(),
        outcomes: Vec::new(),
        drop_claim: false,
        effects: Effects::default(),
    };
    let claim = claimed.claim.clone();
    Commit::new(claim, write)
}

/// Returns a plain client of etcd, for the writes of other programs.
pub(crate) async fn raw(endpoint: &str) -> etcd_client::Client {
    let endpoints = [format!("http://{endpoint}")];
    etcd_client::Client::connect(endpoints, None).await.unwrap()
}

pub(crate) async fn code(client: &Client, id: &TaskId) -> Option<StateKind> {
    let record = client.get(id).await.ok()?;
    record.state.ok().map(|state| state.code())
}

/// Runs until it is stopped.
pub(crate) async fn obeys(task: TaskContext) -> Message {
    task.stop_requested().await.message()
}

/// Counts its steps in durable data; each has to see the one before.
pub(crate) async fn steps(task: TaskContext) -> Result<Message, BoxError> {
    let steps: u32 = task.props()?;
    let done: u32 = task.data()?.unwrap_or(0);
    for step in done..steps {
        tokio::time::sleep(Duration::from_millis(50)).await;
        task.checkpoint(&(step + 1)).await?;
    }
    Ok(Message::complete_with(steps))
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) async fn connect(url: &str) -> EtcdStore {
    let options = Options::parse(url).unwrap();
    EtcdStore::connect(options, SystemClock::shared())
        .await
        .unwrap()
}

pub(crate) fn spec(name: &str) -> NodeSpec {
    let mut spec = NodeSpec::new(name.parse().unwrap());
    spec.slots = 10;
    spec.version = "1".into();
    spec
}

pub(crate) fn task(id: &str) -> Submit {
    Submit {
        task: Task::new(id.parse().unwrap(), "k".parse().unwrap()),
        if_exists: IfExists::Refuse,
    }
}
