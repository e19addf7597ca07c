//! The store is gone for good while claims are under way.

use std::{sync::Arc, time::Duration};

use windlass::{
    Kind, Message, NewTask, Runner, TaskContext, TaskId, async_trait,
    store::{
        Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NodeCommandId,
        NodeRecord, NodeSpec, NodeStatus, Store,
    },
};

use super::support::{World, secs};

fn gone() -> Error {
    let (reason, remedy) = ("the store is gone".to_owned(), None);
    Error::StoreGone { reason, remedy }
}

/// A coordinator that is gone as soon as it is asked for several claims: its first answer says so, and the claims after it
/// were made before.
struct GoneAtAClaim(Arc<dyn Coordinator>);

#[async_trait]
impl Coordinator for GoneAtAClaim {
    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        let mut answers = self.0.claim(lease, tasks).await;
        assert!(
            answers.len() > 1,
            "the test needs a call with several claims"
        );
        answers[0] = Err(gone());
        answers
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        commits.iter().map(|_| Err(gone())).collect()
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        writes.iter().map(|_| Err(gone())).collect()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.0.join(node, ttl).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.0.renew(lease, status).await
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        self.0.describe(lease, node).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        self.0.leave(lease).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        self.0.abandon(lease).await
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.0.peers().await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.0.watch(lease, kinds).await
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.0.acknowledge(lease, command, outcome).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        self.0.maintain(retention).await
    }
}

/// Regression: a claim behind the answer that the store is gone still got a slot, whose release no store took, so that the
/// node never ended.
#[tokio::test(start_paused = true)]
async fn a_node_ends_although_claims_were_answered_after_the_store_was_gone() {
    let world = World::new().await;
    for n in 0..3 {
        let task = NewTask::new("k").id(format!("t{n}"));
        world.client.submit(task).await.unwrap();
    }
    let coordinator = Arc::new(GoneAtAClaim(world.store.coordinator().clone()));
    let registry = world.store.registry().clone();
    let store = Store::from_parts(coordinator, registry, world.store.clock().clone());
    let handler = |task: TaskContext| async move {
        task.stop_requested().await;
        Message::complete()
    };
    let node = Runner::builder(&store).node("n").handler("k", handler);
    let node = node.start().await.unwrap();
    let ended = tokio::time::timeout(secs(60), node.run_until(std::future::pending()));
    let ended = ended.await.expect("the node goes on").unwrap_err();
    let cause = ended.get_ref().and_then(|e| e.downcast_ref::<Error>());
    assert!(matches!(cause, Some(Error::StoreGone { .. })), "{ended:?}");
}
