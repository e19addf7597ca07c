//! [`Renewals`]: the renewals of leases, grouped.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::Notify, time::Instant};

use super::worker::Worker;
use crate::store::Lease;

/// A renewal that waits to be stored.
pub(super) struct Renewal {
    pub(super) worker: Arc<Worker>,
    /// The lease, with the server that spoke for the worker when the exchange came.
    pub(super) lease: Lease,
    /// The number of the exchange.
    pub(super) seq: u64,
    /// When the exchange came.
    pub(super) came: Instant,
}

/// The renewals that wait to be stored.
#[derive(Default)]
pub(super) struct Renewals {
    waiting: Mutex<Vec<Renewal>>,
    pub(super) added: Notify,
}

impl Renewals {
    pub(super) fn add(&self, renewal: Renewal) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(renewal);
        drop(waiting);
        self.added.notify_one();
    }

    pub(super) fn take(&self) -> Vec<Renewal> {
        mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
