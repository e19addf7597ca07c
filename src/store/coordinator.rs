//! [`Coordinator`]: what a runner asks of a store.

use std::{pin::Pin, time::Duration};

use async_trait::async_trait;
use futures::Stream;
use windlass_statemachine::{Kind, TaskId};

use super::{Claimed, Commit, Error, Event, Lease, Limits, NodeRecord, NodeSpec, NodeStatus};

/// A stream of batches of events. It ends only when the lease is gone; a fault of the store is
/// overcome inside (with backoff), and tells [`Event::Reset`] if something may have been missed.
pub type EventStream = Pin<Box<dyn Stream<Item = Vec<Event>> + Send>>;

/// Leases, claims, the watch and commits of one namespace.
///
/// # Duties of an implementation
///
/// 1. **One owner.** A task has at most one live claim. A fence is greater than that of every
///    earlier claim of the task, also across restarts and retries.
/// 2. **Fenced writes.** [`commit`](Self::commit) compares claim and write in one atomic step: a
///    claim that is not the live one changes nothing and gets [`Error::Fenced`]. When the lease
///    has ended, its claims have too.
/// 3. **Durable.** What is answered with success is durable (SQLite: synced; memory: for as long as
///    the process lives).
/// 4. **Atomic.** State, history, outcomes, effects and the end of the claim of one commit happen
///    together or not at all. Items of one call are independent: one that fails does not touch
///    the others. Answers come in the order of the items.
///    **Once.** A commit whose fence and state version are those that are stored already was
///    applied before and its answer was lost: it succeeds again and changes nothing.
/// 5. **Ends.** A commit whose state is terminal removes the claim, and rejects, in the same step,
///    every command that waits and is not among its outcomes (reason: the task has ended).
/// 6. **Nothing missed.** Whatever changes what [`Event`] tells reaches every watch that has
///    interest in it, after the change is durable; the order of one task's events is that of its
///    changes. A task that is deleted and submitted again under its id is two tasks, told apart by
///    their orders: [`Event::Gone`] of the first reaches its owner also when the second is live by
///    then, or is of a kind that the watch does not list.
/// 7. **Lost leases.** When a lease ends without [`leave`](Self::leave), each of its claims is
///    removed, marked as abandoned for the next claim, and told to the watches, within a second
///    of its end while any node of the namespace lives.
/// 8. **Unreadable records.** A task whose state or envelope cannot be read is set aside (it is
///    told as [`Event::Gone`], [`claim`](Self::claim) answers [`Error::Corrupt`] once and `None`
///    later) and stays listed for operators; nothing else suffers.
#[async_trait]
pub trait Coordinator: Send + Sync + 'static {
    /// What it takes at the most.
    fn limits(&self) -> Limits;

    /// Registers a node and grants it a lease.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] when a live node has that name.
    async fn join(&self, node: &NodeSpec, ttl: Duration) -> Result<Lease, Error>;

    /// Renews the lease for its TTL from now, and records what the node tells.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when the lease has ended: join again.
    async fn renew(&self, lease: &Lease, status: &NodeStatus) -> Result<(), Error>;

    /// Ends the lease: claims that it still has are given back (not abandoned) and the node is
    /// gone. Leaving a lease that has ended is no error.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn leave(&self, lease: &Lease) -> Result<(), Error>;

    /// Lists every live task of these kinds (`None`: of all), then tells what changes. First
    /// [`Event::Reset`], then the tasks, then [`Event::Listed`]. Node commands that wait come too.
    /// Of a task that this lease has claimed only its commands and its end are told after the list:
    /// the answer of [`claim`](Self::claim) has told the rest.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Fenced`] when the lease has ended.
    async fn watch(&self, lease: &Lease, kinds: Option<Vec<Kind>>) -> Result<EventStream, Error>;

    /// Claims tasks: those that are live, unclaimed, and due or commanded. `None` for one that is
    /// not (any more): the watch tells what it is now. A task that this lease has claimed already
    /// is claimed anew, with a new fence: that is how an unknown outcome is resolved.
    ///
    /// The state is changed by [`State::claimed`](windlass_statemachine::State::claimed) in the
    /// same step.
    ///
    /// # Errors
    ///
    /// Per task: [`Error::Fenced`] when the lease has ended, [`Error::Corrupt`] for one that had to
    /// be set aside, [`Error::Unavailable`].
    async fn claim(&self, lease: &Lease, tasks: Vec<TaskId>)
    -> Vec<Result<Option<Claimed>, Error>>;

    /// Writes transitions, each on behalf of its claim.
    ///
    /// `write.drop_claim` ends the claim (not abandoned). Outcomes are recorded and their commands
    /// leave the queue. `write.effects` are submitted with
    /// [`IfExists::Refuse`](super::IfExists::Refuse) and sent, in the same step.
    ///
    /// # Errors
    ///
    /// Per commit: [`Error::Fenced`]; [`Error::Unavailable`]; and for what the write itself says,
    /// after which the claim still stands: [`Error::TooLarge`], [`Error::Invalid`],
    /// [`Error::AlreadyExists`], [`Error::AlreadyFinished`], [`Error::NotFound`] (effects).
    async fn commit(&self, commits: Vec<Commit>) -> Vec<Result<(), Error>>;

    /// The nodes that live, as far as this process knows them without asking anybody if it can (a
    /// copy that a watch keeps, say): runners look every few seconds. A store that has nothing to
    /// tell answers with none; the nodes then claim without leaving tasks to each other.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn peers(&self) -> Result<Vec<NodeRecord>, Error>;

    /// Answers a node command: it leaves the queue and the outcome is kept for its sender.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn acknowledge(&self, lease: &Lease, order: u64, outcome: &str) -> Result<(), Error>;

    /// Compares the clock with the newest record of the store, and logs a warning when they are
    /// further apart than `retention` (`None`: compares nothing). Writes nothing. Every node calls it
    /// before it joins: from then on, the store has records with the time of that node. A store that
    /// keeps nothing beyond its process has nothing to compare.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn check_clock(&self, retention: Option<Duration>) -> Result<(), Error> {
        let _ = retention;
        Ok(())
    }

    /// Prunes finished tasks and history older than `retention` (`None`: nothing), in bounded
    /// steps; answers how many tasks went. Every node calls it now and then.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`].
    async fn maintain(&self, retention: Option<Duration>) -> Result<u64, Error>;
}
