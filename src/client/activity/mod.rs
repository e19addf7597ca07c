//! [`Activity`]: how many tasks start, complete and fail, how late they start, and which kinds fail, now and in the last hour.

mod accumulator;
mod histogram;
mod ring;
mod summary;
mod tasks;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_statemachine::{StateKind, TaskId};

pub use summary::{KindActivity, Lateness, PerSecond, Summary, Window};

use self::accumulator::Accumulator;
use super::Client;
use crate::store::{ChangeStream, Error, Filter, Query, TaskRecord};

/// How many tasks one read reads.
const READ_AT_ONCE: usize = 256;
/// How many of the oldest live tasks are read: most of them are claimed next.
const BACKLOG: u32 = 2_000;
/// The time from one read of these tasks to the next.
const BACKLOG_EVERY: Duration = Duration::from_secs(10);
/// The time from one read to the next.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How long the follower waits before it follows the changes again after a failure of the store.
const AGAIN: Duration = Duration::from_millis(500);

/// Counts what the tasks of a namespace do, from [`Client::activity`] on. Dropping it ends that.
///
/// # Guarantees
///
/// Each change is counted once. If changes are lost because the store has pruned them before they were read, the counts begin
/// again, and [`Summary::since`] says when.
///
/// # Cost
///
/// The changes come from the one feed of the process ([`Client::changes`]). A change has neither the kind of its task nor the
/// time until which the task sleeps. So one read at the start, and at most one in ten seconds, has the 2,000 oldest live tasks, on a
/// store that keeps counts (not on etcd without `memory-index=true`). At most once a second one read has up to 256 tasks that have
/// changed and are not known, those that failed
/// first, and 20,000 tasks are remembered. While more tasks change than that, the counts by kind and the lateness of sleeping
/// tasks are those of a part: [`KindActivity::kind`] is `None` for the rest, and [`Lateness::measured`] says how many claims were
/// measured. The other counts, and the lateness of tasks that were runnable, need no read. The memory is bounded by about 10 MB.
///
/// # Caveats
///
/// The lateness of a task that slept, or that has not changed since the counts began, is known if the task was read before its
/// first transition after the claim. That of a task
/// that has waited for other tasks is not.
#[derive(Debug)]
pub struct Activity {
    counted: Arc<Counted>,
    _stops: DropGuard,
}

#[derive(Debug)]
struct Counted {
    client: Client,
    now: Mutex<(Accumulator, Instant)>,
}

impl Client {
    /// Begins to count what the tasks of the namespace do.
    ///
    /// # Errors
    ///
    /// Those of [`changes`](Self::changes).
    ///
    /// # Example
    ///
    /// ```
    /// use windlass::{Client, NewTask, store::Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), windlass::BoxError> {
    /// let client = Client::new(&Store::open("memory:").await?);
    /// let activity = client.activity().await?;
    /// let summary = activity.summary();
    /// assert_eq!(summary.windows[0].name, "10s");
    /// assert_eq!(summary.windows[0].completed, 0);
    /// # Ok(()) }
    /// ```
    pub async fn activity(&self) -> Result<Activity, Error> {
        // The position from which to go on if the stream ends before its first change.
        let newest = self.newest_change().await?;
        let changes = self.changes(None).await?;
        let counted = Arc::new(Counted {
            client: self.clone(),
            now: Mutex::new((Accumulator::new(self.now()), Instant::now())),
        });
        let stop = CancellationToken::new();
        let following = Following {
            counted: counted.clone(),
            last: newest,
            next_read: Instant::now(),
            next_backlog: Instant::now(),
        };
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = following.run(changes) => {}
            }
        });
        Ok(Activity {
            counted,
            _stops: stop.drop_guard(),
        })
    }
}

impl Activity {
    /// Returns the counts at this moment.
    pub fn summary(&self) -> Summary {
        let now = self.counted.client.now();
        let mut counted = self.counted.lock();
        let (accumulator, start) = &mut *counted;
        accumulator.settle(start.elapsed());
        accumulator.summary(start.elapsed(), now)
    }
}

impl Counted {
    fn lock(&self) -> MutexGuard<'_, (Accumulator, Instant)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to count again.
    fn restart(&self) {
        *self.lock() = (Accumulator::new(self.client.now()), Instant::now());
    }
}

/// Follows the changes.
struct Following {
    counted: Arc<Counted>,
    /// The last change that was counted.
    last: u64,
    next_read: Instant,
    next_backlog: Instant,
}

impl Following {
    async fn run(mut self, mut changes: ChangeStream) {
        self.read_backlog().await;
        loop {
            let wants = self.counted.lock().0.wants();
            tokio::select! {
                biased;
                () = sleep_until(self.next_read), if wants => self.read().await,
                batch = changes.next() => match batch {
                    Some(Ok(batch)) => {
                        self.last = batch.last().map_or(self.last, |change| change.seq);
                        let mut counted = self.counted.lock();
                        let (accumulator, start) = &mut *counted;
                        accumulator.take(start.elapsed(), &batch);
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the activity is counted again after a failure of the store");
                        changes = self.follow_again().await;
                    }
                    None => changes = self.follow_again().await,
                },
            }
        }
    }

    /// Follows the changes after the last one that was counted.
    async fn follow_again(&mut self) -> ChangeStream {
        loop {
            sleep(AGAIN).await;
            let client = &self.counted.client;
            match client.changes(Some(self.last)).await {
                Ok(changes) => return changes,
                Err(Error::Invalid(_)) => {
                    // The changes in between are no longer kept.
                    let newest = client.newest_change().await;
                    if let Ok(newest) = newest {
                        self.last = newest;
                        self.counted.restart();
                    }
                }
                Err(_) => {}
            }
        }
    }

    async fn read(&mut self) {
        let ids = self.counted.lock().0.wanted(READ_AT_ONCE);
        match self.records(ids).await {
            Ok(records) => self.counted.lock().0.learn(&records),
            Err(error) => {
                tracing::debug!(%error, "the kinds of some tasks were not read");
            }
        }
        self.read_backlog().await;
        self.next_read = Instant::now() + READ_EVERY;
    }

    /// Reads the oldest live tasks, if that is due and cheap.
    async fn read_backlog(&mut self) {
        let client = &self.counted.client;
        let is_cheap = client.store().registry().keeps_counts();
        if !is_cheap || Instant::now() < self.next_backlog || !self.counted.lock().0.takes_backlog()
        {
            return;
        }
        self.next_backlog = Instant::now() + BACKLOG_EVERY;
        // All live tasks but the paused ones: a list of runnable tasks would also read the others.
        let filter = Filter {
            states: vec![StateKind::Runnable, StateKind::Sleeping, StateKind::Fault],
            ..Filter::default()
        };
        let query = Query::new(filter).reversed().limit(BACKLOG);
        match client.page(&query.without_props(), None).await {
            Ok(page) => self.counted.lock().0.backlog(&page.tasks),
            Err(error) => tracing::debug!(%error, "the oldest live tasks were not read"),
        }
    }

    async fn records(&self, ids: Vec<TaskId>) -> Result<Vec<TaskRecord>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let filter = Filter {
            ids,
            ..Filter::default()
        };
        let query = Query::new(filter)
            .limit(READ_AT_ONCE as u32)
            .without_props();
        let page = self.counted.client.page(&query, None).await?;
        Ok(page.tasks)
    }
}

#[cfg(test)]
mod tests;
