//! How many claims eight idle nodes attempt for each task that becomes free.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use windlass::{
    Client, Kind, Message, NewTask, NodeName, Runner, TaskContext, TaskId, async_trait,
    store::{
        Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NewWorker,
        NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Speaker, Store, WorkerRecord,
    },
};

use super::server::Cluster;
use crate::{
    report::{Goal, Report},
    support::{self, Setting},
};

/// Counts the tasks that claims are asked for.
struct Counting {
    store: Arc<dyn Coordinator>,
    asked: Arc<AtomicU64>,
}

#[async_trait]
impl Coordinator for Counting {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.store.join(node, ttl).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.store.renew(lease, status).await
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        self.store.describe(lease, node).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        self.store.leave(lease).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        self.store.abandon(lease).await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.store.watch(lease, kinds).await
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        self.asked.fetch_add(tasks.len() as u64, Ordering::Relaxed);
        self.store.claim(lease, tasks).await
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        self.store.commit(commits).await
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        self.store.log(writes).await
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.store.peers().await
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.store.acknowledge(lease, command, outcome).await
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        self.store.join_worker(worker).await
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        self.store.worker(name).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.store.speak(lease, speaker).await
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.store.held(lease, tasks).await
    }

    fn detach(&self, lease: &Lease) {
        self.store.detach(lease);
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        self.store.maintain(retention).await
    }
}

pub(crate) fn attempts(setting: &Setting, report: &mut Report) {
    let cluster = Cluster::start(setting, 1);
    let tasks = setting.pick(1000, 50);
    let asked = Arc::new(AtomicU64::new(0));
    support::runtime().block_on(async {
        let url = cluster.url("attempts");
        let mut nodes = Vec::new();
        for n in 0..8 {
            let store = support::open(Path::new(&url)).await;
            let counting = Counting {
                store: store.coordinator().clone(),
                asked: asked.clone(),
            };
            let registry = store.registry().clone();
            let store = Store::from_parts(Arc::new(counting), registry, store.clock().clone());
            let node = Runner::builder(&store).node(format!("n{n}"));
            let node = node.handler("k", |_: TaskContext| async { Message::complete() });
            nodes.push(node.start().await.unwrap());
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let client = Client::new(&support::open(Path::new(&url)).await);
        let mut ids = Vec::new();
        for _ in 0..tasks {
            ids.push(client.submit(NewTask::new("k")).await.unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for id in &ids {
            client.wait(id).await.unwrap();
        }
        for node in nodes {
            node.shutdown().await;
        }
    });
    let each = asked.load(Ordering::Relaxed) as f64 / f64::from(tasks);
    let what = "claims attempted for each free task, 8 idle nodes";
    report.one(what, each, "", Some(Goal::Most(1.2)));
}
