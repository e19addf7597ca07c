//! Remote workers: programs in any language that run handlers, and speak with a server.
//!
//! A worker is a node of its own. Its record and its lease are in the store, and its claims are attached to that lease.
//! A server speaks for it: it runs the state machines of the worker's tasks, and keeps nothing that cannot be read from
//! the store and from what the worker says that it holds. So any server of the namespace takes the place of another.

mod dispatcher;
mod error;
mod exchange;
mod look;
mod machines;
mod newer;
mod node;
pub mod protocol;
mod register;
mod renewals;
mod report;
mod secret;
mod service;
mod session;
#[cfg(test)]
mod sweep_tests;
mod task;
mod waited;
mod worker;

pub use self::{error::WorkerError, waited::WaitedRecords};

use std::sync::Arc;

use tokio::sync::OnceCell;
use windlass_statemachine::{Kind, NodeName, task::Labels};

use self::{
    protocol::{
        Exchange, Exchanged, Leave, ReadWaited, Register, Registered, ReportItems, Reported,
    },
    service::Service,
};
use crate::store::Store;

/// The remote workers for which this process speaks. Clones share them.
///
/// # Example
///
/// ```
/// use windlass::{Client, NewTask, store::Store, workers::{Workers, protocol::*}};
///
/// # #[tokio::main] async fn main() -> Result<(), windlass::BoxError> {
/// let store = Store::open("memory:").await?;
/// let workers = Workers::new(&store, Vec::new);
/// let id = Client::new(&store).submit(NewTask::new("resize").props(&640)).await?.into_id();
///
/// let secret = "a random text of the worker";
/// let form = serde_json::json!({"name": "py-1", "secret": secret, "kinds": {"resize": {"slots": 2}}});
/// let registered = workers.register(serde_json::from_value(form)?).await?;
///
/// let form = serde_json::json!({"secret": secret, "seq": 1, "wait_ms": 5000});
/// let name = registered.worker;
/// let claims = workers.exchange(&name, serde_json::from_value(form)?).await?.claims;
/// let run = &claims[0];
/// assert_eq!((&run.id, run.props.get::<u32>("props")?), (&id, 640));
///
/// let item = serde_json::json!({"id": run.id, "fence": run.fence, "run": run.run, "n": run.n,
///     "return": {"message": "complete", "result": 320}});
/// let form = serde_json::json!({"secret": secret, "seq": 2, "settled": 1, "items": [item]});
/// let reported = workers.report(&name, serde_json::from_value(form)?).await?;
/// assert_eq!(reported.results[0].result, ResultCode::Applied);
/// assert_eq!(Client::new(&store).wait(&id).await?.result::<u32>()?, 320);
/// workers.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Workers {
    service: Arc<Service>,
    started: Arc<OnceCell<()>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Returns the workers of a store. Nothing is read, and no node joins, before the first request of a worker.
    /// `servers` returns the addresses of the servers of the namespace, for the workers.
    pub fn new(store: &Store, servers: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        Self {
            service: Service::new(store, Box::new(servers)),
            started: Arc::default(),
        }
    }

    /// Joins the namespace, once.
    async fn start(&self) {
        let start = async {
            tokio::spawn(node::run(self.service.clone()));
        };
        self.started.get_or_init(|| start).await;
    }

    /// Registers a worker.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Invalid`]; [`WorkerError::Store`] with
    /// [`Error::AlreadyExists`](crate::store::Error::AlreadyExists) when a live node, or a worker with another secret, has
    /// that name.
    pub async fn register(&self, worker: Register) -> Result<Registered, WorkerError> {
        self.start().await;
        register::register(&self.service, worker).await
    }

    /// Returns the kinds and the labels with which a worker has registered, as far as this process knows; `None` for a worker
    /// that is not live. Reads the store when this process does not know the worker.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Store`].
    pub async fn offer(
        &self,
        worker: &NodeName,
    ) -> Result<Option<(Vec<Kind>, Labels)>, WorkerError> {
        let known = self.service.dispatcher().by_name(worker).cloned();
        if let Some(known) = known {
            let shared = known.shared();
            let kinds = shared.offers.keys().cloned().collect();
            return Ok(Some((kinds, shared.labels.clone())));
        }
        let record = self.service.coordinator.worker(worker).await;
        let record = record.map_err(WorkerError::Store)?;
        Ok(record.map(|record| (record.spec.kinds.unwrap_or_default(), record.spec.labels)))
    }

    /// Renews the lease of a worker, compares what it holds with its claims, and waits for something to answer.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn exchange(
        &self,
        worker: &NodeName,
        request: Exchange,
    ) -> Result<Exchanged, WorkerError> {
        self.start().await;
        exchange::exchange(self.service.clone(), worker.clone(), request).await
    }

    /// Applies reports of a worker.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn report(
        &self,
        worker: &NodeName,
        request: ReportItems,
    ) -> Result<Reported, WorkerError> {
        self.start().await;
        report::report(self.service.clone(), worker.clone(), request).await
    }

    /// Reads the tasks that a run of a worker has waited for: at most 100, and about 1 MiB of results. Changes nothing, and
    /// any server may answer.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Lost`] when the worker does not have that claim, or another run of it;
    /// [`WorkerError::Invalid`] (field `limit`), [`WorkerError::Secret`], [`WorkerError::Over`], [`WorkerError::Store`].
    pub async fn waited(
        &self,
        worker: &NodeName,
        request: &ReadWaited,
    ) -> Result<WaitedRecords, WorkerError> {
        waited::read(&self.service, worker, request).await
    }

    /// Ends the lease of a worker, and releases its claims.
    ///
    /// # Errors
    ///
    /// [`WorkerError`]. A worker that is not live has left already: no error.
    pub async fn leave(&self, worker: &NodeName, request: Leave) -> Result<(), WorkerError> {
        let record = match self
            .service
            .record(worker, &secret::hash(&request.secret))
            .await
        {
            Err(WorkerError::Over(_)) => return Ok(()),
            record => record?,
        };
        let left = self.service.coordinator.leave(&record.lease).await;
        left.map_err(WorkerError::Store)?;
        let known = self.service.dispatcher().worker(record.lease.id).cloned();
        if let Some(worker) = known {
            self.service.drop_worker(&worker).await;
        }
        Ok(())
    }

    /// Stops: open exchanges are answered at once. The workers and their claims stay, and another server goes on.
    pub async fn shutdown(&self) {
        self.service.stop.cancel();
    }
}
