//! [`Changes`]: the one feed of changes of an open store, shared by all waits and streams of this process.
//!
//! The store is read once for each change, however many waits and streams a process has: one task follows the feed,
//! and passes each change to the subscribers of its task and to the subscribers of all tasks. The feed opens with the
//! first subscription, and closes a moment after the last one has ended.

mod whole;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, mpsc},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_statemachine::TaskId;

use self::whole::Whole;
use super::{Change, ChangeStream, Error, Registry};

/// How many changes are queued for one subscriber. With more, the subscriber is notified that it
/// has missed some.
const QUEUE: usize = 64;
/// How many waits may read their tasks at once. Ten thousand reads at once on one connection would exceed its
/// time limit.
const READS_AT_ONCE: usize = 32;
/// How long the feed stays open without a subscription: the next wait often follows at once.
const LINGER: Duration = Duration::from_secs(1);

/// The feed of an open store.
pub(crate) struct Changes {
    registry: Arc<dyn Registry>,
    subscribers: Arc<Subscribers>,
    /// Held while the feed is opened, so that two first subscriptions open one feed.
    opening: tokio::sync::Mutex<()>,
    /// Limits the concurrent reads of waits.
    reads: Semaphore,
    stop: CancellationToken,
    /// Ends the feed when the store is dropped.
    _stops: DropGuard,
}

#[derive(Default)]
struct Subscribers {
    all: Mutex<All>,
    /// Notified when the last subscription has ended.
    idle: Notify,
}

#[derive(Default)]
struct All {
    is_open: bool,
    /// The number of feeds that were opened, which is the number of the present one.
    feeds: u64,
    next: u64,
    by_task: HashMap<TaskId, Vec<Entry>>,
    whole: Vec<Whole>,
    /// The last change that the open feed has delivered.
    last: Option<u64>,
}

impl All {
    fn is_idle(&self) -> bool {
        self.by_task.is_empty() && self.whole.is_empty()
    }

    /// Delivers each change to the subscribers of its task.
    fn deliver_each(&self, changes: &[Change]) {
        for change in changes {
            for entry in self.by_task.get(&change.task).into_iter().flatten() {
                if entry.queue.try_send(change.clone()).is_err() {
                    entry.missed.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Ends the feed and every subscription.
    fn close(&mut self) {
        *self = Self {
            next: self.next,
            feeds: self.feeds,
            ..Self::default()
        };
    }
}

struct Entry {
    number: u64,
    queue: mpsc::Sender<Change>,
    missed: Arc<AtomicBool>,
}

/// What a subscription delivers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The task has changed.
    Change(Change),
    /// The queue was full, and changes were dropped: read the task.
    Missed,
    /// The feed has ended: subscribe again, and read the task.
    Ended,
}

/// The changes of one task, from the subscription on. Dropping it ends the subscription.
pub(crate) struct Subscription {
    subscribers: Weak<Subscribers>,
    number: u64,
    task: TaskId,
    queue: mpsc::Receiver<Change>,
    missed: Arc<AtomicBool>,
}

impl Changes {
    pub(super) fn new(registry: Arc<dyn Registry>) -> Self {
        let stop = CancellationToken::new();
        Self {
            registry,
            subscribers: Arc::default(),
            opening: tokio::sync::Mutex::default(),
            reads: Semaphore::new(READS_AT_ONCE),
            _stops: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Subscribes to the changes of a task. Read the task after this: every later change is delivered.
    ///
    /// # Errors
    ///
    /// Those of [`Registry::changes`], when no feed is open.
    pub(crate) async fn of(&self, task: &TaskId) -> Result<Subscription, Error> {
        self.subscribed(|subscribers| subscribers.add(task)).await
    }

    /// Waits for a permit to read. Dropping it releases the permit.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.reads.acquire().await.ok()
    }

    /// Subscribes. Opens the feed first if it is not open.
    async fn subscribed<T>(
        &self,
        add: impl Fn(&Arc<Subscribers>) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            if let Some(subscription) = add(&self.subscribers) {
                return Ok(subscription);
            }
            let _opening = self.opening.lock().await;
            if !self.subscribers.all().is_open {
                let stream = self.registry.changes(None).await?;
                let feed = Feed::open(self.subscribers.clone());
                tokio::spawn(feed.run(stream, self.stop.clone()));
            }
        }
    }
}

impl Subscribers {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscription; `None` when no feed is open.
    fn add(self: &Arc<Self>, task: &TaskId) -> Option<Subscription> {
        let mut all = self.all();
        if !all.is_open {
            return None;
        }
        let number = all.next;
        all.next += 1;
        let (sender, queue) = mpsc::channel(QUEUE);
        let missed = Arc::new(AtomicBool::new(false));
        let entry = Entry {
            number,
            queue: sender,
            missed: missed.clone(),
        };
        all.by_task.entry(task.clone()).or_default().push(entry);
        Some(Subscription {
            subscribers: Arc::downgrade(self),
            number,
            task: task.clone(),
            queue,
            missed,
        })
    }

    fn deliver(&self, changes: Vec<Change>) {
        let mut all = self.all();
        all.last = changes.last().map(|change| change.seq).or(all.last);
        if !all.by_task.is_empty() {
            all.deliver_each(&changes);
        }
        if !all.whole.is_empty() {
            all.deliver_whole(changes);
        }
    }

    fn remove(&self, task: &TaskId, number: u64) {
        let mut all = self.all();
        if let Some(entries) = all.by_task.get_mut(task) {
            entries.retain(|entry| entry.number != number);
            if entries.is_empty() {
                all.by_task.remove(task);
            }
        }
        if all.is_idle() {
            self.idle.notify_one();
        }
    }

    /// Ends the feed if it has no subscribers. Returns whether it has ended.
    fn close_if_idle(&self) -> bool {
        let mut all = self.all();
        if all.is_idle() {
            all.close();
        }
        !all.is_open
    }
}

/// The open feed. When it ends, for any reason, every subscription ends.
struct Feed {
    subscribers: Arc<Subscribers>,
    number: u64,
}

impl Feed {
    fn open(subscribers: Arc<Subscribers>) -> Self {
        let mut all = subscribers.all();
        all.is_open = true;
        all.feeds += 1;
        let number = all.feeds;
        drop(all);
        Self {
            subscribers,
            number,
        }
    }

    async fn run(self, mut stream: ChangeStream, stop: CancellationToken) {
        // The idle time starts again with each subscription.
        let mut idle = std::pin::pin!(self.idle());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = &mut idle => {
                    if self.subscribers.close_if_idle() {
                        return;
                    }
                    idle.set(self.idle());
                }
                batch = stream.next() => match batch {
                    Some(Ok(changes)) => self.subscribers.deliver(changes),
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the feed of changes ended; it opens again with the next wait");
                        return;
                    }
                    None => return,
                },
            }
        }
    }

    /// Returns a moment after the last subscription has ended.
    async fn idle(&self) {
        self.subscribers.idle.notified().await;
        sleep(LINGER).await;
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut all = self.subscribers.all();
        // A new feed may have been opened after this one lost its last subscription.
        if all.feeds == self.number {
            all.close();
        }
    }
}

impl Subscription {
    /// Returns the task.
    pub(crate) fn task(&self) -> &TaskId {
        &self.task
    }

    /// Returns the next change of the task.
    pub(crate) async fn next(&mut self) -> Delivered {
        if self.missed.swap(false, Ordering::AcqRel) {
            // The reader reads the task now, so queued changes are out of date.
            while self.queue.try_recv().is_ok() {}
            return Delivered::Missed;
        }
        match self.queue.recv().await {
            Some(change) => Delivered::Change(change),
            None => Delivered::Ended,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(subscribers) = self.subscribers.upgrade() {
            subscribers.remove(&self.task, self.number);
        }
    }
}

#[cfg(test)]
mod tests;
