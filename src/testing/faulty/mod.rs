//! [`FaultyStore`]: a store that fails on request.

mod coordinator;
mod registry;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use crate::store::{Coordinator, Error, Lease, Registry, Store};

/// An operation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `Coordinator::join` and `Coordinator::join_worker`.
    Join,
    /// `Coordinator::renew`.
    Renew,
    /// `Coordinator::describe`.
    Describe,
    /// `Coordinator::leave`.
    Leave,
    /// `Coordinator::abandon`.
    Abandon,
    /// `Coordinator::watch`.
    Watch,
    /// `Coordinator::claim`.
    Claim,
    /// `Coordinator::commit` and `Coordinator::log`.
    Commit,
    /// `Coordinator::speak`.
    Speak,
    /// `Coordinator::held` and `Coordinator::worker`.
    Held,
    /// `Coordinator::acknowledge`.
    Acknowledge,
    /// `Coordinator::maintain`.
    Maintain,
    /// `Registry::apply` of submits, and `Transfer::import`. A transaction of several operations counts as
    /// its first one.
    Submit,
    /// `Registry::apply` of commands and reschedules, and `Registry::send_node`.
    Send,
    /// Every operation of the registry and its parts that only reads.
    Read,
    /// `Registry::apply` of deletes, and `Registry::purge`.
    Delete,
    /// `Registry::apply` of retries.
    Retry,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Returns [`Error::Unavailable`] without doing anything.
    Before,
    /// Does everything, loses the answer, and returns [`Error::Unavailable`].
    After,
    /// Does everything at once, and returns the answer after this time.
    Late(Duration),
    /// Does everything at once, loses the answer, and returns [`Error::Unavailable`] after this time.
    LostLate(Duration),
    /// Returns [`Error::TooLarge`] without doing anything: the store refuses the operation for good.
    Refused,
}

/// A store around another that fails chosen operations on demand.
///
/// # Example
///
/// ```
/// use windlass::{store::Store, testing::{Fault, FaultyStore, Operation}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::store::Error> {
/// let faulty = FaultyStore::new(&Store::open("memory:").await?);
/// faulty.fail(Operation::Read, Fault::Before, 1);
/// let store = faulty.store();
/// assert!(store.registry().nodes().await.unwrap_err().is_retryable());
/// assert!(store.registry().nodes().await?.is_empty());
/// assert_eq!(faulty.calls(Operation::Read), 2);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FaultyStore {
    inner: Store,
    plan: Arc<Mutex<Plan>>,
    lost: watch::Sender<HashSet<u64>>,
    broken: watch::Sender<u64>,
}

#[derive(Default)]
struct Plan {
    faults: HashMap<Operation, VecDeque<Fault>>,
    calls: HashMap<Operation, u64>,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").finish_non_exhaustive()
    }
}

impl FaultyStore {
    /// Wraps `inner`. Without a planned fault, every operation works.
    pub fn new(inner: &Store) -> Self {
        Self {
            inner: inner.clone(),
            plan: Arc::default(),
            lost: watch::Sender::new(HashSet::new()),
            broken: watch::Sender::new(0),
        }
    }

    /// Returns the store for runners and clients.
    pub fn store(&self) -> Store {
        let (coordinator, registry) = (Arc::new(self.clone()), Arc::new(self.clone()));
        Store::from_parts(coordinator, registry, self.inner.clock().clone())
    }

    /// Plans a fault for the next `times` calls of this operation, after the faults planned before.
    pub fn fail(&self, operation: Operation, fault: Fault, times: usize) {
        let mut plan = self.plan();
        let faults = plan.faults.entry(operation).or_default();
        faults.extend(std::iter::repeat_n(fault, times));
    }

    /// Removes every planned fault that has not happened. Lost leases stay lost.
    pub fn heal(&self) {
        self.plan().faults.clear();
    }

    /// Loses a lease: its renewals do not reach the store, where it expires. Every call with the lease
    /// returns [`Error::Fenced`], and its watches end.
    pub fn lose_lease(&self, lease: u64) {
        self.lost.send_modify(|lost| {
            lost.insert(lease);
        });
    }

    /// Ends every watch, like a broken connection. The list of the next watch includes the changes
    /// until then.
    pub fn break_watches(&self) {
        self.broken.send_modify(|times| *times += 1);
    }

    /// Returns the number of calls of this operation, including failed ones.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.plan().calls.get(&operation).copied().unwrap_or(0)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn coordinator(&self) -> &dyn Coordinator {
        self.inner.coordinator().as_ref()
    }

    fn registry(&self) -> &dyn Registry {
        self.inner.registry().as_ref()
    }

    /// Counts the call and returns its fault.
    fn next(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.plan();
        *plan.calls.entry(operation).or_default() += 1;
        plan.faults.get_mut(&operation)?.pop_front()
    }

    fn check(&self, lease: u64) -> Result<(), Error> {
        if self.lost.borrow().contains(&lease) {
            return Err(Error::Fenced(format!("lease {lease}")));
        }
        Ok(())
    }

    fn check_lease(&self, lease: &Lease) -> Result<(), Error> {
        self.check(lease.id)
    }

    /// Makes a call with its planned fault. `all` makes the result of a call that is not made, `lost` the
    /// result of a call whose answer is lost.
    async fn with_fault<A>(
        &self,
        operation: Operation,
        call: impl Future<Output = A>,
        all: impl FnOnce(Error) -> A,
        lost: impl FnOnce(A) -> A,
    ) -> A {
        let (by, is_lost) = match self.next(operation) {
            None => return call.await,
            Some(Fault::Before) => return all(fault("nothing was done")),
            Some(Fault::Refused) => return all(Error::too_large("fault on demand", 1, 0)),
            Some(Fault::After) => (Duration::ZERO, true),
            Some(Fault::Late(by)) => (by, false),
            Some(Fault::LostLate(by)) => (by, true),
        };
        let answer = call.await;
        if !by.is_zero() {
            sleep(by).await;
        }
        if is_lost { lost(answer) } else { answer }
    }

    /// Makes a call with one result.
    async fn call<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let lost = |answer: Result<T, Error>| answer.and_then(|_| Err(fault(LOST)));
        self.with_fault(operation, call, Err, lost).await
    }

    /// Makes a call with one result per item.
    async fn calls_of<T>(
        &self,
        operation: Operation,
        items: usize,
        call: impl Future<Output = Vec<Result<T, Error>>>,
    ) -> Vec<Result<T, Error>> {
        let all = |error: Error| (0..items).map(|_| Err(error.clone())).collect();
        let lost = |_| all(fault(LOST));
        self.with_fault(operation, call, all, lost).await
    }
}

const LOST: &str = "the answer was lost";

fn fault(why: &str) -> Error {
    Error::unavailable("do as it was asked", format!("a fault on demand: {why}"))
}
