//! What the tests share.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::timeout};
use windlass::{
    BoxError, Client, Message, StateKind, Task, TaskContext, TaskId,
    clock::SystemClock,
    store::{
        IfExists, NodeSpec, Store, Submit,
        etcd::{EtcdStore, Options},
    },
};
use windlass_etcd_cluster::Proxy;

/// Breaks the connections of a proxy all the time, until it is aborted.
pub(crate) fn break_again_and_again(proxy: &Arc<Proxy>) -> JoinHandle<()> {
    let proxy = proxy.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(60)).await;
            proxy.cut();
            tokio::time::sleep(Duration::from_millis(15)).await;
            proxy.mend();
        }
    })
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

/// Waits for work that hangs when something is wrong: a hang becomes a failure that names it.
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

/// A client of etcd itself: for what others write.
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
    Ok(Message::complete_with(&steps))
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
