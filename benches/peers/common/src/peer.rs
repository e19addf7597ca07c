//! [`Peer`]: what a system has to do to be measured.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::{Error, Job, Payload};

/// A system under test.
///
/// A fact is a pair of a name and a text, for example the level of `synchronous` that was read back from each
/// connection. The table shows facts next to the figures.
pub trait Peer: Send + Sync + Sized + 'static {
    /// The running workers.
    type Worker: Send;

    /// Opens the store of a job and creates it if it is missing.
    fn open(job: &Job) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Submits one task. Returns when the store has acknowledged it.
    fn submit(&self, task: &Payload) -> impl Future<Output = Result<(), Error>> + Send;

    /// Submits one task that is due after a wait. Returns when the store has acknowledged it. Needed for `sleepers`.
    fn submit_later(
        &self,
        _task: &Payload,
        _wait: Duration,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        async { Err("could not run job 'later': this program submits no task for later".into()) }
    }

    /// Waits until the store has the due time of each of `count` tasks of [`Peer::submit_later`], and returns how many
    /// sleep.
    fn asleep(&self, count: usize) -> impl Future<Output = Result<usize, Error>> + Send {
        async move { Ok(count) }
    }

    /// Starts as many handlers at once as the job has slots. Each calls [`Ran::ran`], and in `kills` and `lateness`
    /// [`Ran::ran_task`].
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

    /// Returns how many of `count` submitted tasks have not succeeded yet, by the store. Needed for `kills`.
    fn left(&self, _count: usize) -> impl Future<Output = Result<usize, Error>> + Send {
        async {
            Err(
                "could not run job 'kills': this program does not count the tasks that are left"
                    .into(),
            )
        }
    }

    /// Returns what was read back from the store.
    fn facts(&self) -> impl Future<Output = Result<Vec<(String, String)>, Error>> + Send;
}

/// Gets the number of each task whose handler runs.
type Listener = Box<dyn Fn(usize) + Send + Sync>;

/// Counts the handlers that have run.
#[derive(Default)]
pub struct Ran {
    count: AtomicUsize,
    goal: usize,
    reached: Notify,
    listener: Option<Listener>,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ran")
            .field("count", &self.count)
            .field("goal", &self.goal)
            .finish_non_exhaustive()
    }
}

impl Ran {
    /// Expects this many runs.
    pub fn expecting(goal: usize) -> Arc<Self> {
        Arc::new(Self {
            goal,
            ..Self::default()
        })
    }

    /// Expects this many runs and passes the number of each task to a listener.
    pub fn listening(goal: usize, listener: impl Fn(usize) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            goal,
            listener: Some(Box::new(listener)),
            ..Self::default()
        })
    }

    /// Counts one run of a task. Reads the text of its payload only for a listener: the no-ops of `drain` read none.
    ///
    /// # Panics
    ///
    /// The payload is not one of [`Payload::new`]: the handler then fails.
    pub fn ran_task<T: AsRef<str>>(&self, text: impl FnOnce() -> Result<T, Error>) {
        if let Some(listener) = &self.listener {
            match text().and_then(|text| Payload::number_of(text.as_ref())) {
                Ok(number) => listener(number),
                Err(e) => panic!("{e}"),
            }
        }
        self.ran();
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
