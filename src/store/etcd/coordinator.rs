//! [`Coordinator`] for [`EtcdStore`].

use std::time::Duration;

use async_trait::async_trait;
use windlass_statemachine::{Kind, NodeName, TaskId};

use super::{order::in_order, store::EtcdStore};
use crate::store::{
    Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NewWorker,
    NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Speaker, WorkerRecord,
};

#[async_trait]
impl Coordinator for EtcdStore {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.0.leases.join(node, ttl).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.0.upkeep.look_after_servers();
        self.0.leases.renew(lease, status).await
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        node.check_name(lease)?;
        self.0.leases.describe(lease, node).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        self.0.leases.leave(lease).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        self.0.leases.abandon(lease).await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.0.watcher.watch(lease, kinds).await
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        self.0.claimer.claim(lease, tasks).await
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        let run = |commit| self.0.committer.commit(commit);
        in_order(commits, |commit| [commit.claim.task.clone()], run).await
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        let run = |write| self.0.committer.log.log(write);
        in_order(writes, |write| [write.claim.task.clone()], run).await
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.0.peers.peers().await
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.0
            .node_commands
            .acknowledge(lease, command, outcome)
            .await
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        self.0.leases.join_worker(worker).await
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        self.0.leases.worker(name).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.0.leases.speak(lease, speaker).await
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.0.leases.held(lease, tasks).await
    }

    fn detach(&self, lease: &Lease) {
        self.0.leases.claims.lost(lease.id);
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        self.0.purges.check_clock(retention).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        self.0.purges.maintain(retention).await
    }
}
