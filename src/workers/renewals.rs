//! [`Renewals`]: the renewals of leases, grouped.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::worker::Worker;

/// The renewals that wait to be stored, each with the number of its exchange.
#[derive(Default)]
pub(super) struct Renewals {
    waiting: Mutex<Vec<(Arc<Worker>, u64)>>,
    pub(super) added: Notify,
}

impl Renewals {
    pub(super) fn add(&self, worker: &Arc<Worker>, seq: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((worker.clone(), seq));
        drop(waiting);
        self.added.notify_one();
    }

    pub(super) fn take(&self) -> Vec<(Arc<Worker>, u64)> {
        mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
