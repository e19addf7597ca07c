//! [`Renewals`]: the renewals of leases, grouped.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use tokio::{sync::Notify, time::sleep};
use tracing::debug;

use super::{desk::Desk, worker::Worker};
use crate::store::Error;

/// How long a renewal waits for others.
const GROUPED: Duration = Duration::from_millis(200);

/// The renewals that wait to be stored, each with the number of its exchange.
#[derive(Default)]
pub(super) struct Renewals {
    waiting: Mutex<Vec<(Arc<Worker>, u64)>>,
    added: Notify,
}

impl Renewals {
    pub(super) fn add(&self, worker: &Arc<Worker>, seq: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((worker.clone(), seq));
        drop(waiting);
        self.added.notify_one();
    }

    fn take(&self) -> Vec<(Arc<Worker>, u64)> {
        mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores the renewals, until the process stops.
    pub(super) async fn run(desk: Arc<Desk>) {
        loop {
            tokio::select! {
                () = desk.renewals.added.notified() => {}
                () = desk.stop.cancelled() => return,
            }
            sleep(GROUPED).await;
            let desk = &desk;
            let all = desk.renewals.take().into_iter();
            join_all(all.map(|(worker, seq)| renew(desk, worker, seq))).await;
        }
    }
}

async fn renew(desk: &Arc<Desk>, worker: Arc<Worker>, seq: u64) {
    let status = worker.board().status.clone();
    match desk.coordinator.renew(&worker.lease, &status).await {
        Ok(()) => {
            let mut board = worker.board();
            board.renewed = board.renewed.max(seq);
        }
        Err(Error::Fenced(_)) => desk.drop_worker(&worker).await,
        Err(error) => {
            debug!(worker = %worker.lease.node, %error, "could not renew the lease of a worker");
        }
    }
}
