//! Streams of all changes, for subscribers of the whole namespace.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt, stream};
use tokio::{sync::mpsc, time::sleep};
use tracing::warn;
use windlass_statemachine::Backoff;

use super::{All, Changes, QUEUE, Subscribers};
use crate::store::{Change, ChangeStream, Error};

/// The pauses before a store that is unavailable is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A stream in the list of subscribers.
pub(super) struct Whole {
    number: u64,
    queue: mpsc::Sender<Arc<Vec<Change>>>,
}

/// The position of a stream among the subscribers. Dropping it ends the subscription.
struct Place {
    subscribers: Weak<Subscribers>,
    number: u64,
    queue: mpsc::Receiver<Arc<Vec<Change>>>,
}

/// The source of a stream's changes.
enum Source {
    /// The feed of the process.
    Shared(Place),
    /// A feed of its own, because the stream was slower than the shared feed, or the shared feed
    /// has ended.
    Own(ChangeStream),
    /// It has ended.
    Over,
}

struct Stream {
    changes: Arc<Changes>,
    /// The last change that the stream has delivered.
    last: Option<u64>,
    source: Source,
}

impl Changes {
    /// Returns all changes from now on, in order and without gaps. A stream that is too slow for the shared feed
    /// continues with its own feed, after the last change that it has delivered.
    ///
    /// # Errors
    ///
    /// Those of [`Registry::changes`](crate::store::Registry::changes).
    pub(crate) async fn whole(self: &Arc<Self>) -> Result<ChangeStream, Error> {
        let (place, last) = self.subscribed(Subscribers::add_whole).await?;
        let following = Stream {
            changes: self.clone(),
            last,
            source: Source::Shared(place),
        };
        let next = |mut following: Stream| async {
            let batch = following.next().await?;
            Some((batch, following))
        };
        Ok(Box::pin(stream::unfold(following, next)))
    }
}

impl Subscribers {
    /// Adds a stream, and returns the last change before it; `None` when the feed is not open.
    fn add_whole(self: &Arc<Self>) -> Option<(Place, Option<u64>)> {
        let mut all = self.all();
        if !all.is_open {
            return None;
        }
        let number = all.next;
        all.next += 1;
        let (sender, queue) = mpsc::channel(QUEUE);
        all.whole.push(Whole {
            number,
            queue: sender,
        });
        let place = Place {
            subscribers: Arc::downgrade(self),
            number,
            queue,
        };
        Some((place, all.last))
    }
}

impl All {
    /// Delivers the changes to every stream. A stream whose queue is full ends its subscription, and reads the
    /// missing changes itself.
    pub(super) fn deliver_whole(&mut self, changes: Vec<Change>) {
        let changes = Arc::new(changes);
        self.whole
            .retain(|one| one.queue.try_send(changes.clone()).is_ok());
    }
}

impl Stream {
    async fn next(&mut self) -> Option<Result<Vec<Change>, Error>> {
        loop {
            match &mut self.source {
                Source::Shared(place) => match place.queue.recv().await {
                    Some(batch) => {
                        self.last = batch.last().map(|change| change.seq).or(self.last);
                        return Some(Ok(Arc::unwrap_or_clone(batch)));
                    }
                    None => match own(&self.changes, self.last).await {
                        Ok(stream) => self.source = Source::Own(stream),
                        Err(error) => {
                            self.source = Source::Over;
                            return Some(Err(error));
                        }
                    },
                },
                Source::Own(stream) => return stream.next().await,
                Source::Over => return None,
            }
        }
    }
}

/// Opens a separate feed after the last change. A store that is unavailable is asked again until it answers, as an open feed
/// does.
async fn own(changes: &Changes, last: Option<u64>) -> Result<ChangeStream, Error> {
    if last.is_none() {
        // The stream ended before its first change, so the position to continue from is not known.
        let reason = "the feed ended; follow them again";
        return Err(Error::unavailable("follow the changes", reason));
    }
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        match changes.registry.changes(last).await {
            Err(reason) if reason.is_retryable() => {
                warn!(%reason, "the changes after the last one that was read could not be followed; trying again");
                sleep(backoff.jittered(fastrand::f64())).await;
            }
            opened => return opened,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(subscribers) = self.subscribers.upgrade() {
            let mut all = subscribers.all();
            all.whole.retain(|one| one.number != self.number);
            if all.is_idle() {
                subscribers.idle.notify_one();
            }
        }
    }
}
