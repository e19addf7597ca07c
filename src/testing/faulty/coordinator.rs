//! [`Coordinator`] for [`FaultyStore`].

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use windlass_statemachine::{Kind, NodeName, TaskId};

use super::{FaultyStore, Operation};
use crate::store::{
    Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NewWorker,
    NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Speaker, WorkerRecord,
};

#[async_trait]
impl Coordinator for FaultyStore {
    fn limits(&self) -> Limits {
        self.coordinator().limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        let call = self.coordinator().join(node, ttl);
        self.call(Operation::Join, call).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.check_lease(lease)?;
        let call = self.coordinator().renew(lease, status);
        self.call(Operation::Renew, call).await
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        self.check_lease(lease)?;
        let call = self.coordinator().describe(lease, node);
        self.call(Operation::Describe, call).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        if self.check_lease(lease).is_err() {
            // The node has lost the lease. In the store the lease will expire.
            return Ok(());
        }
        let call = self.coordinator().leave(lease);
        self.call(Operation::Leave, call).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        if self.check_lease(lease).is_err() {
            // Like `leave`.
            return Ok(());
        }
        let call = self.coordinator().abandon(lease);
        self.call(Operation::Abandon, call).await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.check_lease(lease)?;
        let call = self.coordinator().watch(lease, kinds);
        let events = self.call(Operation::Watch, call).await?;
        let (mut lost, lease) = (self.lost.subscribe(), lease.id);
        let is_lost = async move {
            // Without the store, no further lease can be lost.
            if lost.wait_for(|lost| lost.contains(&lease)).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let mut broken = self.broken.subscribe();
        let is_broken = async move {
            if broken.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let events = events
            .take_until(Box::pin(is_lost))
            .take_until(Box::pin(is_broken));
        Ok(events.boxed())
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        if let Err(error) = self.check_lease(lease) {
            return tasks.iter().map(|_| Err(error.clone())).collect();
        }
        let items = tasks.len();
        let call = self.coordinator().claim(lease, tasks);
        self.calls_of(Operation::Claim, items, call).await
    }

    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        let checks = commits.iter().map(|c| self.check(c.claim.lease));
        let checks: Vec<_> = checks.collect();
        let allowed = commits.into_iter().zip(&checks);
        let allowed: Vec<Commit> = allowed
            .filter_map(|(c, ok)| ok.is_ok().then_some(c))
            .collect();
        let items = allowed.len();
        let call = self.coordinator().commit(allowed);
        let answers = self.calls_of(Operation::Commit, items, call).await;
        let mut answers = answers.into_iter();
        let merged = checks.into_iter().map(|check| match check {
            Ok(()) => answers.next().unwrap_or(Ok(())),
            lost => lost,
        });
        merged.collect()
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        let checks = writes.iter().map(|one| self.check(one.claim.lease));
        let checks: Vec<_> = checks.collect();
        let allowed = writes.into_iter().zip(&checks);
        let allowed: Vec<LogWrite> = allowed
            .filter_map(|(one, ok)| ok.is_ok().then_some(one))
            .collect();
        let items = allowed.len();
        let call = self.coordinator().log(allowed);
        let answers = self.calls_of(Operation::Commit, items, call).await;
        let mut answers = answers.into_iter();
        let merged = checks.into_iter().map(|check| match check {
            Ok(()) => answers.next().unwrap_or(Ok(())),
            lost => lost,
        });
        merged.collect()
    }

    /// Never fails and is not counted, because runners call it in the background at any time.
    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.coordinator().peers().await
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.check_lease(lease)?;
        let call = self.coordinator().acknowledge(lease, command, outcome);
        self.call(Operation::Acknowledge, call).await
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        let call = self.coordinator().join_worker(worker);
        self.call(Operation::Join, call).await
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        let call = self.coordinator().worker(name);
        self.call(Operation::Held, call).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.check_lease(lease)?;
        let call = self.coordinator().speak(lease, speaker);
        self.call(Operation::Speak, call).await
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.check_lease(lease)?;
        let call = self.coordinator().held(lease, tasks);
        self.call(Operation::Held, call).await
    }

    fn detach(&self, lease: &Lease) {
        self.coordinator().detach(lease);
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        self.coordinator().check_clock(retention).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        let call = self.coordinator().maintain(retention);
        self.call(Operation::Maintain, call).await
    }
}
