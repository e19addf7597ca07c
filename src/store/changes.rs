//! [`Changes`]: the one feed of changes of an open store, shared by all waits of this process.
//!
//! However many waits a process has, the store is read once for each change: one task follows the feed and
//! passes each change to those that follow its task. The feed opens with the first subscription and closes a
//! moment after the last one has gone.

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
    sync::{Notify, mpsc},
    time::sleep,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_statemachine::TaskId;

use super::{Change, ChangeStream, Error, Registry};

/// How many changes wait for one subscriber. It learns that it has missed some when there are more.
const QUEUE: usize = 64;
/// How long the feed stays open without a subscription: the next wait often comes at once.
const LINGER: Duration = Duration::from_secs(1);

/// The feed of an open store.
pub(crate) struct Changes {
    registry: Arc<dyn Registry>,
    subscribers: Arc<Subscribers>,
    /// Held while the feed is opened, so that two first subscriptions open one feed.
    opening: tokio::sync::Mutex<()>,
    stop: CancellationToken,
    /// Ends the feed with the store.
    _stops: DropGuard,
}

#[derive(Default)]
struct Subscribers {
    all: Mutex<All>,
    /// Notified when the last subscription has gone.
    idle: Notify,
}

#[derive(Default)]
struct All {
    is_open: bool,
    next: u64,
    by_task: HashMap<TaskId, Vec<Entry>>,
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
    /// More changes came than the subscriber took: read the task.
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
        loop {
            if let Some(subscription) = self.subscribers.add(task) {
                return Ok(subscription);
            }
            let _opening = self.opening.lock().await;
            if !self.subscribers.all().is_open {
                let stream = self.registry.changes(None).await?;
                self.subscribers.all().is_open = true;
                let feed = Feed(self.subscribers.clone());
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
        let all = self.all();
        for change in changes {
            for entry in all.by_task.get(&change.task).into_iter().flatten() {
                if entry.queue.try_send(change.clone()).is_err() {
                    entry.missed.store(true, Ordering::Release);
                }
            }
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
        if all.by_task.is_empty() {
            self.idle.notify_one();
        }
    }

    /// Ends the feed if nobody subscribes to it, and returns whether it has ended.
    fn close_if_idle(&self) -> bool {
        let mut all = self.all();
        all.is_open &= !all.by_task.is_empty();
        !all.is_open
    }
}

/// The open feed. When it ends, for whatever reason, every subscription ends.
struct Feed(Arc<Subscribers>);

impl Feed {
    async fn run(self, mut stream: ChangeStream, stop: CancellationToken) {
        // Goes on while changes come in.
        let mut idle = std::pin::pin!(self.idle());
        loop {
            tokio::select! {
                batch = stream.next() => match batch {
                    Some(Ok(changes)) => self.0.deliver(changes),
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the feed of changes ended; it opens again with the next wait");
                        return;
                    }
                    None => return,
                },
                () = &mut idle => {
                    if self.0.close_if_idle() {
                        return;
                    }
                    idle.set(self.idle());
                }
                () = stop.cancelled() => return,
            }
        }
    }

    /// Returns a moment after the last subscription has gone.
    async fn idle(&self) {
        self.0.idle.notified().await;
        sleep(LINGER).await;
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut all = self.0.all();
        all.is_open = false;
        // The queues of all subscriptions end.
        all.by_task.clear();
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
            // The reader looks at the task: what waits in the queue is older than that.
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
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::{Client, NewTask, store::Store};

    async fn store() -> (Store, Client) {
        let store = Store::open("memory:").await.unwrap();
        let client = Client::new(&store);
        (store, client)
    }

    async fn submit(client: &Client, id: &str) {
        client.submit(NewTask::new("k").id(id)).await.unwrap();
    }

    fn id(text: &str) -> TaskId {
        text.parse().unwrap()
    }

    /// Lets the feed and its subscribers work until nothing is left to do.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_delivers_the_changes_of_its_task_alone() {
        let (store, client) = store().await;
        let mut a = store.changes().of(&id("a")).await.unwrap();
        let mut again = store.changes().of(&id("a")).await.unwrap();
        submit(&client, "b").await;
        submit(&client, "a").await;
        for subscription in [&mut a, &mut again] {
            let Delivered::Change(change) = subscription.next().await else {
                panic!("the change of 'a'");
            };
            assert_eq!(change.task, id("a"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_that_lags_learns_that_it_missed_something_and_the_others_lose_nothing() {
        let (store, client) = store().await;
        let mut slow = store.changes().of(&id("a")).await.unwrap();
        let mut quick = store.changes().of(&id("a")).await.unwrap();
        submit(&client, "a").await;
        let mut taken = 0;
        for n in 0..QUEUE * 2 {
            let command = windlass_statemachine::Command::Pause;
            let command_id: windlass_statemachine::CommandId = format!("c{n}").parse().unwrap();
            client
                .command_with_id(&id("a"), command_id, command)
                .await
                .unwrap();
            settle().await;
            while let Ok(change) = quick.queue.try_recv() {
                assert_eq!(change.task, id("a"));
                taken += 1;
            }
        }
        assert_eq!(taken, 1 + QUEUE * 2);
        assert!(!quick.missed.load(Ordering::Acquire));
        assert_eq!(slow.next().await, Delivered::Missed);
        let command = windlass_statemachine::Command::Kill;
        client.command(&id("a"), command).await.unwrap();
        assert!(
            matches!(slow.next().await, Delivered::Change(_)),
            "it goes on"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_feed_closes_after_the_last_subscription_and_opens_again() {
        let (store, client) = store().await;
        let changes = store.changes();
        let first = changes.of(&id("a")).await.unwrap();
        let second = changes.of(&id("b")).await.unwrap();
        drop(first);
        tokio::time::sleep(LINGER * 3).await;
        assert!(changes.subscribers.all().is_open, "one is left");
        drop(second);
        assert!(
            changes.subscribers.all().is_open,
            "the next may come at once"
        );
        tokio::time::sleep(LINGER * 3).await;
        assert!(!changes.subscribers.all().is_open);
        let mut third = changes.of(&id("c")).await.unwrap();
        submit(&client, "c").await;
        assert!(matches!(third.next().await, Delivered::Change(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_ends_with_the_store() {
        let (store, client) = store().await;
        let mut subscription = store.changes().of(&id("a")).await.unwrap();
        drop((store, client));
        assert_eq!(subscription.next().await, Delivered::Ended);
    }

    #[test]
    fn a_subscription_ends_with_the_runtime_of_the_feed_and_the_next_opens_another() {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
        };
        let first = runtime();
        let (store, mut subscription) = first.block_on(async {
            let (store, _) = store().await;
            let subscription = store.changes().of(&id("a")).await.unwrap();
            (store, subscription)
        });
        drop(first);
        runtime().block_on(async {
            assert_eq!(subscription.next().await, Delivered::Ended);
            let mut again = store.changes().of(&id("a")).await.unwrap();
            submit(&Client::new(&store), "a").await;
            assert!(matches!(again.next().await, Delivered::Change(_)));
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_waits_open_one_feed() {
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let (store, client) = store().await;
        let waits = (0..1000).map(|n| {
            let (client, id) = (client.clone(), id(&format!("t{n}")));
            async move {
                submit(&client, id.as_str()).await;
                let waited = client.wait(&id).await.unwrap();
                OPENED.fetch_add(1, Ordering::Relaxed);
                waited
            }
        });
        let ends = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(
                store.changes().subscribers.all().next,
                1000,
                "each wait subscribed once"
            );
            for n in 0..1000 {
                client
                    .command(&id(&format!("t{n}")), windlass_statemachine::Command::Kill)
                    .await
                    .unwrap();
            }
            let runner = crate::Runner::builder(&store)
                .handler("k", |task: crate::TaskContext| async move {
                    task.stop_requested().await.message()
                })
                .start()
                .await
                .unwrap();
            while OPENED.load(Ordering::Relaxed) < 1000 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            runner.shutdown().await;
        };
        let (done, ()) = tokio::time::timeout(
            Duration::from_secs(60),
            futures::future::join(futures::future::join_all(waits), ends),
        )
        .await
        .expect("a thousand waits end within a minute");
        assert_eq!(done.len(), 1000);
    }
}
