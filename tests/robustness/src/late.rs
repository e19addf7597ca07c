//! [`Late`]: a coordinator whose writes take their time, so that some are always under way: those of
//! a process that is stopped reach the store when it continues, long after its claims are lost.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::sleep;
use windlass::{
    TaskId, async_trait,
    statemachine::{Kind, NodeName},
    store::{
        Claimed, Commit, Coordinator, Error, EventStream, Lease, Limits, LogWrite, NewWorker,
        NodeCommandId, NodeRecord, NodeSpec, NodeStatus, Speaker, Store, WorkerRecord,
    },
};

use crate::{
    witness::{Journal, Said},
    zombie::Holds,
};

/// A coordinator in front of another one.
pub struct Late {
    inner: Arc<dyn Coordinator>,
    journal: Arc<Journal>,
    longest: Duration,
    holds: Holds,
}

/// Between two tries to bring a write that was held to the store.
const AGAIN: Duration = Duration::from_millis(20);

impl std::fmt::Debug for Late {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Late").finish_non_exhaustive()
    }
}

impl Late {
    /// The same store, with writes that take up to `longest` to reach it. The test can hold one
    /// ([`Holds`]) by a file in the folder `witnesses`.
    pub fn store(
        store: &Store,
        journal: &Arc<Journal>,
        witnesses: &Path,
        longest: Duration,
    ) -> Store {
        let late = Self {
            holds: Holds::new(witnesses),
            inner: store.coordinator().clone(),
            journal: journal.clone(),
            longest,
        };
        Store::from_parts(
            Arc::new(late),
            store.registry().clone(),
            store.clock().clone(),
        )
    }
}

#[async_trait]
impl Coordinator for Late {
    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>> {
        sleep(self.longest.mul_f64(fastrand::f64())).await;
        let claims: Vec<_> = commits.iter().map(|c| c.claim.clone()).collect();
        let held = self.holds.take(&self.journal, claims.iter());
        if held {
            self.holds.passed().await;
        }
        let answers = loop {
            let answers = self.inner.commit(commits.clone()).await;
            // The store itself is to refuse a write that was held.
            let mut errors = answers.iter().filter_map(|a| a.as_ref().err());
            if !held || !errors.any(Error::is_retryable) {
                break answers;
            }
            sleep(AGAIN).await;
        };
        for (claim, answer) in claims.into_iter().zip(&answers) {
            if let Err(Error::Fenced(_)) = answer {
                self.journal.say(Said::Fenced {
                    task: claim.task,
                    fence: claim.fence,
                });
            }
        }
        answers
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error> {
        self.inner.join(node, ttl).await
    }

    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error> {
        self.inner.renew(lease, status).await
    }

    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error> {
        self.inner.describe(lease, node).await
    }

    async fn leave(&self, lease: &Lease) -> Result<(), Error> {
        self.inner.leave(lease).await
    }

    async fn abandon(&self, lease: &Lease) -> Result<(), Error> {
        self.inner.abandon(lease).await
    }

    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>> {
        self.inner.log(writes).await
    }

    async fn peers(&self) -> Result<Vec<NodeRecord>, Error> {
        self.inner.peers().await
    }

    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error> {
        self.inner.watch(lease, kinds).await
    }

    async fn claim(
        &self,
        lease: &Lease,
        tasks: Vec<TaskId>,
    ) -> Vec<Result<Option<Claimed>, Error>> {
        let answers = self.inner.claim(lease, tasks).await;
        for claimed in answers.iter().flatten().flatten() {
            let claim = &claimed.claim;
            self.journal.say(Said::Claimed {
                task: claim.task.clone(),
                fence: claim.fence,
                lease: claim.lease,
            });
        }
        answers
    }

    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error> {
        self.inner.acknowledge(lease, command, outcome).await
    }

    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        self.inner.join_worker(worker).await
    }

    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        self.inner.worker(name).await
    }

    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        self.inner.speak(lease, speaker).await
    }

    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        self.inner.held(lease, tasks).await
    }

    fn detach(&self, lease: &Lease) {
        self.inner.detach(lease);
    }

    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        self.inner.check_clock(retention).await
    }

    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error> {
        self.inner.maintain(retention).await
    }
}
