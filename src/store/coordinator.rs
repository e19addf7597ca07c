//! [`Coordinator`]: the part of a store that runners use.

use std::{pin::Pin, time::Duration};

use async_trait::async_trait;
use futures::Stream;
use windlass_statemachine::{Kind, NodeName, TaskId};

use super::{
    Claimed, Commit, Error, Event, Lease, Limits, LogWrite, NewWorker, NodeCommandId, NodeRecord,
    NodeSpec, NodeStatus, Speaker, WorkerRecord,
};

/// A stream of batches of events. It ends only when the lease has ended. It retries after a fault
/// of the store (with backoff), and then reports [`Event::Reset`] if it may have missed something.
pub type EventStream = Pin<Box<dyn Stream<Item = Vec<Event>> + Send>>;

/// Returns the error of a store that has no workers.
fn no_workers() -> Error {
    Error::unsupported("coordinator", "speak for remote workers")
}

/// Leases, claims, the watch and commits of one namespace.
///
/// # Stability
///
/// Unstable: methods, duties and fields may change in each minor version ([stability](crate#stability)).
/// Pin the version (`windlass = "=X.Y.Z"`) and run the conformance suite at each update.
///
/// # Duties of an implementation
///
#[doc = include_str!("coordinator_duties.md")]
#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// Returns the limits of the store.
    fn limits(&self) -> Limits;

    /// Registers a node and grants it a lease.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] when a live node has that name.
    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error>;

    /// Renews the lease for its TTL from now, and records the node's status. A lease with another speaker than the stored one
    /// is renewed, too, but its status is not recorded: the present speaker may know a newer one.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when the lease has ended: join again.
    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error>;

    /// Replaces the description of the node of this lease: its kinds, data versions, labels and slots. An open
    /// watch keeps the kinds that it was opened with.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (field `node`) for the name of another node, [`Error::Fenced`] when the lease has
    /// ended, [`Error::Unavailable`].
    async fn describe(&self, lease: &Lease, node: &NodeSpec) -> Result<(), Error>;

    /// Ends the lease: its remaining claims are released (not abandoned), and the node is removed.
    /// Leaving a lease that has already ended is not an error.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn leave(&self, lease: &Lease) -> Result<(), Error>;

    /// Ends a lease that its node considers lost: its remaining claims are abandoned, as when the lease ends on
    /// its own, and the name of the node is free. The node calls this when its handlers have ended. Has no
    /// effect on a lease that has already ended.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn abandon(&self, lease: &Lease) -> Result<(), Error>;

    /// Lists every live task of these kinds (`None`: all kinds), then reports changes. Delivers
    /// [`Event::Reset`], then the tasks, then [`Event::Listed`]; also queued node commands. After the
    /// list, a task that this lease has claimed is reported only for its commands and its end: the result
    /// of [`claim`](Self::claim) has the rest. An end that this lease has written need not be reported.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Fenced`] when the lease has ended.
    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error>;

    /// Claims tasks that are live, unclaimed, and due or commanded. Returns `None` for any other
    /// task: the watch reports its present state. A task that this lease has already claimed is
    /// claimed again, with a new fence; that resolves a claim whose outcome is unknown. A claim of a remote worker is
    /// never made again, because its handler may run: [`held`](Self::held) resolves it.
    ///
    /// The claim changes the state by
    /// [`TaskState::claimed`](windlass_statemachine::TaskState::claimed), in the same step.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::Claimed`] for a task that the lease of this worker has claimed, [`Error::OtherSpeaker`],
    /// [`Error::Fenced`] when the lease has ended, [`Error::Corrupt`] for a task that had
    /// to be quarantined, [`Error::Unavailable`].
    async fn claim(&self, lease: &Lease, tasks: Vec<TaskId>)
    -> Vec<Result<Option<Claimed>, Error>>;

    /// Writes transitions, each on behalf of its claim.
    ///
    /// The runner polls this call in the task of its engine, immediately after it has enqueued the
    /// writes. An implementation submits them when it is first polled, and does not block.
    ///
    /// `write.drop_claim` ends the claim (not abandoned). Outcomes are recorded and their commands
    /// leave the queue. `write.effects` are applied in the same step, by the rules of a
    /// [`Transaction`](super::Transaction) and those of [`Effects`](windlass_statemachine::Effects).
    ///
    /// # Errors
    ///
    /// Per commit: [`Error::Fenced`], [`Error::Superseded`], [`Error::Unavailable`]. Errors about the content of the
    /// write, after which the claim still stands: [`Error::TooLarge`], [`Error::Invalid`], and [`Error::Refused`] with
    /// every refused effect ([`Part::Effect`](super::Part::Effect)).
    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>>;

    /// Writes lines that handlers have logged, each write on behalf of its claim. Changes nothing else: there is no
    /// event and no change for them.
    ///
    /// # Errors
    ///
    /// Per write: [`Error::Fenced`], [`Error::Unavailable`].
    async fn log(&self, writes: Vec<LogWrite>) -> Vec<Result<(), Error>>;

    /// Returns the live nodes, from local knowledge if possible (such as a copy that a watch
    /// maintains): runners call this every few seconds. A store that does not know its nodes
    /// returns an empty list; the nodes then do not defer tasks to each other.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn peers(&self) -> Result<Vec<NodeRecord>, Error>;

    /// Answers a node command: it leaves the queue, and the outcome is kept for its sender.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when the lease has ended, [`Error::NotFound`] when this command is not in
    /// the queue of the lease's node, [`Error::Unavailable`].
    async fn acknowledge(
        &self,
        lease: &Lease,
        command: NodeCommandId,
        outcome: &str,
    ) -> Result<(), Error>;

    /// Registers a remote worker, with a lease of its own that belongs to no process: it ends when its TTL has passed
    /// since the last renewal by any process, and with [`leave`](Self::leave). No end of a process ends it, and
    /// a restart of the machine gives it its whole TTL again. A live worker with the same name and secret keeps its
    /// lease, with its TTL, its status and its speaker: it is renewed, and described as `worker` says.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] when a live node, or a live worker with another secret, has that name.
    /// [`Error::Unsupported`] by default.
    async fn join_worker(&self, worker: &NewWorker) -> Result<WorkerRecord, Error> {
        let _ = worker;
        Err(no_workers())
    }

    /// Returns the live worker with this name, read from the store; `None` if no live node of that name is a worker.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`]. [`Error::Unsupported`] by default.
    async fn worker(&self, name: &NodeName) -> Result<Option<WorkerRecord>, Error> {
        let _ = name;
        Err(no_workers())
    }

    /// Makes a server the speaker of a worker, if its `seq` is greater than that of the stored speaker, or the same
    /// server took its place with that `seq` before. Returns the lease with this speaker, for claims of this process.
    /// From then on, claims with the lease of an earlier speaker are refused.
    ///
    /// # Errors
    ///
    /// [`Error::OtherSpeaker`] for a lower `seq`, [`Error::Fenced`] when the lease has ended, [`Error::Unavailable`].
    /// [`Error::Unsupported`] by default.
    async fn speak(&self, lease: &Lease, speaker: &Speaker) -> Result<Lease, Error> {
        let _ = (lease, speaker);
        Err(no_workers())
    }

    /// Reads the claims of a worker's lease, without changing them: all of them (`None`), or those of these tasks. Each
    /// is returned as [`claim`](Self::claim) has returned it, with the present state and the commands that wait now. So
    /// another process continues the claims, and a claim whose answer was lost is found. The read is made after
    /// the call, not from a copy that may lag behind.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when the lease has ended, [`Error::Unavailable`]. [`Error::Unsupported`] by default.
    async fn held(&self, lease: &Lease, tasks: Option<Vec<TaskId>>) -> Result<Vec<Claimed>, Error> {
        let _ = (lease, tasks);
        Err(no_workers())
    }

    /// Drops what this process knows of a worker's lease and its claims, because another server speaks for the worker.
    /// Changes nothing in the store. Does nothing by default.
    fn detach(&self, lease: &Lease) {
        let _ = lease;
    }

    /// Compares the clock with the newest record of the store, and logs a warning when they are
    /// further apart than `retention` (`None`: does not compare). Writes nothing. Every node calls
    /// this before it joins, because from then on the store has records with that node's time. A
    /// store that keeps nothing beyond its process has nothing to compare.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        let _ = retention;
        Ok(())
    }

    /// Prunes finished tasks and history older than `retention` (`None`: prunes nothing), in
    /// bounded steps. Returns how many tasks were pruned. Every node calls this regularly.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error>;
}
