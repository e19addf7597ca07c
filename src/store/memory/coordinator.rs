//! [`Coordinator`] for [`MemoryStore`].

use std::time::Duration;

use async_trait::async_trait;
use windlass_statemachine::{Kind, NodeName, TaskId};

use super::MemoryStore;
use crate::store::{
    Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NewWorker,
    NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Speaker, WorkerRecord,
};

#[async_trait]
impl Coordinator for MemoryStore {
    fn limits(&self) -> Limits {
        self.shared.lock().0.limits
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        let (mut world, now) = self.shared.lock();
        world.join(node, ttl, now)
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        let (mut world, now) = self.shared.lock();
        world.renew(lease, status, now)
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        node.check_name(lease)?;
        let (mut world, _) = self.shared.lock();
        world.describe(lease, node)
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        let (mut world, now) = self.shared.lock();
        world.leave(lease, now);
        Ok(())
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        let (mut world, now) = self.shared.lock();
        world.end_lease(lease.id, true, now);
        Ok(())
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.shared.watch(lease, kinds)
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        let (mut world, now) = self.shared.lock();
        let tasks = tasks.iter();
        tasks.map(|id| world.claim(lease, id, now)).collect()
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        let (mut world, now) = self.shared.lock();
        let commits = commits.into_iter();
        commits.map(|commit| world.commit(commit, now)).collect()
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        let (mut world, _) = self.shared.lock();
        writes.iter().map(|write| world.log(write)).collect()
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        let (world, now) = self.shared.lock();
        Ok(world.nodes(now))
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        let (mut world, _) = self.shared.lock();
        world.acknowledge(lease, command, outcome)
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        let (mut world, now) = self.shared.lock();
        world.join_worker(worker, now)
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        Ok(self.shared.lock().0.worker(name))
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.shared.lock().0.speak(lease, speaker)
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.shared.lock().0.held(lease, tasks)
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        if let Some(retention) = retention {
            self.shared.prune_clock.check(retention);
        }
        Ok(())
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        let clock = &self.shared.prune_clock;
        self.shared.lock().0.forget_transactions(clock.now());
        let Some(before) = retention.and_then(|retention| clock.before(retention)) else {
            return Ok(0);
        };
        let (mut world, now) = self.shared.lock();
        Ok(world.maintain((before, clock.now()), now))
    }
}
