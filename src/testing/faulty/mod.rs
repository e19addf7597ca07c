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
    /// `Coordinator::join`.
    Join,
    /// `Coordinator::renew`.
    Renew,
    /// `Coordinator::leave`.
    Leave,
    /// `Coordinator::watch`.
    Watch,
    /// `Coordinator::claim`.
    Claim,
    /// `Coordinator::commit`.
    Commit,
    /// `Coordinator::acknowledge`.
    Acknowledge,
    /// `Coordinator::maintain`.
    Maintain,
    /// `Registry::apply` of submits, and `Transfer::import`.
    Submit,
    /// `Registry::apply` of commands, and `Registry::send_node`.
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
    /// [`Error::Unavailable`], and nothing was done.
    Before,
    /// [`Error::Unavailable`], and all was done: the answer was lost.
    After,
    /// All was done at once; the answer, whatever it is, takes so long.
    Late(Duration),
    /// All was done at once; the answer is lost, and after so long it is [`Error::Unavailable`].
    LostLate(Duration),
    /// [`Error::TooLarge`]: the store refuses the operation for good, and nothing was done.
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
    /// A store around `inner` that works as long as nothing else is asked for.
    pub fn new(inner: &Store) -> Self {
        Self {
            inner: inner.clone(),
            plan: Arc::default(),
            lost: watch::Sender::new(HashSet::new()),
            broken: watch::Sender::new(0),
        }
    }

    /// This store, for runners and clients.
    pub fn store(&self) -> Store {
        let (coordinator, registry) = (Arc::new(self.clone()), Arc::new(self.clone()));
        Store::from_parts(coordinator, registry, self.inner.clock().clone())
    }

    /// The next `times` calls of this operation fail so, after those that were asked for before.
    pub fn fail(&self, operation: Operation, fault: Fault, times: usize) {
        let mut plan = self.plan();
        let faults = plan.faults.entry(operation).or_default();
        faults.extend(std::iter::repeat_n(fault, times));
    }

    /// Forgets every fault that was asked for and has not happened. Lost leases stay lost.
    pub fn heal(&self) {
        self.plan().faults.clear();
    }

    /// From now on this lease is lost: its renewals do not reach the store, so it ends there with
    /// its time; all that it asks for is answered with [`Error::Fenced`], and its watches end.
    pub fn lose_lease(&self, lease: u64) {
        self.lost.send_modify(|lost| {
            lost.insert(lease);
        });
    }

    /// Ends every watch there is, as a broken connection does; what happens until it is watched
    /// again is in the next list.
    pub fn break_watches(&self) {
        self.broken.send_modify(|times| *times += 1);
    }

    /// How often this operation was called, failed calls included.
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

    /// Counts the call and answers how it is to fail.
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

    /// One call with one answer.
    async fn call<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.next(operation) {
            None => call.await,
            Some(Fault::Before) => Err(fault("nothing was done")),
            Some(Fault::Refused) => Err(refusal()),
            Some(Fault::After) => match call.await {
                Ok(_) => Err(fault("the answer was lost")),
                refused => refused,
            },
            Some(Fault::Late(by)) => {
                let answer = call.await;
                sleep(by).await;
                answer
            }
            Some(Fault::LostLate(by)) => {
                let answer = call.await;
                sleep(by).await;
                answer.and_then(|_| Err(fault("the answer was lost")))
            }
        }
    }

    /// One call with so many answers.
    async fn calls_of<T>(
        &self,
        operation: Operation,
        items: usize,
        call: impl Future<Output = Vec<Result<T, Error>>>,
    ) -> Vec<Result<T, Error>> {
        let why = match self.next(operation) {
            None => return call.await,
            Some(Fault::Refused) => return (0..items).map(|_| Err(refusal())).collect(),
            Some(Fault::Before) => "nothing was done",
            Some(Fault::After) => {
                call.await;
                "the answer was lost"
            }
            Some(Fault::Late(by)) => {
                let answers = call.await;
                sleep(by).await;
                return answers;
            }
            Some(Fault::LostLate(by)) => {
                call.await;
                sleep(by).await;
                "the answer was lost"
            }
        };
        std::iter::repeat_with(|| Err(fault(why)))
            .take(items)
            .collect()
    }
}

fn fault(why: &str) -> Error {
    Error::unavailable("do as it was asked", format!("a fault on demand: {why}"))
}

fn refusal() -> Error {
    Error::TooLarge {
        field: "fault on demand",
        bytes: 1,
        limit: 0,
    }
}
