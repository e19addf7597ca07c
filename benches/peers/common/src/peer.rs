//! [`Peer`]: what a system has to do to be measured.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

use crate::{Error, Job, Payload};

/// A system under test.
///
/// A fact is a pair of a name and a text, for example the level of `synchronous` that was read back from each
/// connection. The table shows facts beside the figures.
pub trait Peer: Send + Sync + Sized + 'static {
    /// The running workers.
    type Worker: Send;

    /// Opens the store of a job and creates it if it is missing.
    fn open(job: &Job) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Submits one task. Returns when the store has acknowledged it.
    fn submit(&self, task: &Payload) -> impl Future<Output = Result<(), Error>> + Send;

    /// Starts as many handlers at once as the job has slots. Each calls [`Ran::ran`].
    fn work(
        &self,
        job: &Job,
        ran: Arc<Ran>,
    ) -> impl Future<Output = Result<Self::Worker, Error>> + Send;

    /// Waits until the end of each of `count` tasks is stored, and stops the workers.
    fn settle(
        &self,
        worker: Self::Worker,
        count: usize,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Returns what was read back from the store.
    fn facts(&self) -> impl Future<Output = Result<Vec<(String, String)>, Error>> + Send;
}

/// Counts the handlers that have run.
#[derive(Debug, Default)]
pub struct Ran {
    count: AtomicUsize,
    goal: usize,
    reached: Notify,
}

impl Ran {
    /// Expects this many runs.
    pub fn expecting(goal: usize) -> Arc<Self> {
        Arc::new(Self {
            goal,
            ..Self::default()
        })
    }

    /// Counts one run.
    pub fn ran(&self) {
        if self.count.fetch_add(1, Ordering::SeqCst) + 1 == self.goal {
            self.reached.notify_one();
        }
    }

    /// Returns the number of runs.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits for the last expected run.
    pub async fn all(&self) {
        self.reached.notified().await;
    }
}
