//! Readers of the feed that begin in the past, and clients that wait for tasks.

use std::time::Duration;

use fastrand::Rng;
use futures::StreamExt;
use tokio::time::{Instant, sleep, timeout};
use windlass::{
    Client,
    store::{Change, Error, Store},
};

use crate::{BoxError, feed::Feed, traffic::Traffic};

/// What a reader has read that began after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The number of the change; 0 for all.
    pub after: u64,
    /// The changes, in the order in which they came.
    pub changes: Vec<Change>,
}

/// For how long a wait asks a store again that is unavailable: 50 ms, and then each time twice as long, up to 5 s.
const ASKS_AGAIN: Duration = Duration::from_millis(6350);

impl Traffic {
    /// Reads the feed from the beginning and from changes of the past, until a time.
    ///
    /// # Errors
    ///
    /// None: a reader that gets an error has read less.
    pub async fn read_again(
        &self,
        client: &Client,
        feed: &Feed,
        mut rng: Rng,
        until: Instant,
    ) -> Result<(), BoxError> {
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(200..900))).await;
            let known = feed.changes();
            let after = match rng.u32(0..3) {
                0 => 0,
                _ if known.is_empty() => continue,
                _ => known[rng.usize(0..known.len())].seq,
            };
            let Ok(mut stream) = client.changes(Some(after)).await else {
                // The store does not answer, or does not keep them any more.
                continue;
            };
            let mut changes = Vec::new();
            let mut over = std::pin::pin!(sleep(Duration::from_millis(rng.u64(50..600))));
            loop {
                tokio::select! {
                    biased;
                    () = &mut over => break,
                    next = stream.next() => match next {
                        Some(Ok(next)) => changes.extend(next),
                        Some(Err(_)) | None => break,
                    },
                }
            }
            self.lock().readings.push(Reading { after, changes });
        }
        Ok(())
    }

    /// Waits for tasks until a time, each time for a moment. A wait goes on while the store is unavailable.
    ///
    /// # Errors
    ///
    /// When a wait ends before its task although its store has not been unavailable for some seconds.
    pub async fn wait_for_some(
        &self,
        store: &Store,
        mut rng: Rng,
        until: Instant,
    ) -> Result<(), BoxError> {
        while Instant::now() < until {
            sleep(Duration::from_millis(rng.u64(50..400))).await;
            let recent = {
                let promised = self.lock();
                let recent = promised.tasks.len().saturating_sub(10);
                promised.tasks[recent..].to_vec()
            };
            let Some(id) = rng.choice(&recent) else {
                continue;
            };
            // A program that begins now: it opens a feed of its own.
            let store = Store::from_parts(
                store.coordinator().clone(),
                store.registry().clone(),
                store.clock().clone(),
            );
            let client = Client::new(&store);
            let began = Instant::now();
            let moment = Duration::from_millis(rng.u64(100..8000));
            match timeout(moment, client.wait(id)).await {
                Ok(Err(e)) if e.is_retryable() && began.elapsed() < ASKS_AGAIN => {
                    let after = began.elapsed();
                    return Err(format!("a wait for '{id}' ended after {after:?}: {e}").into());
                }
                // The task was deleted, or it has ended.
                Ok(Err(Error::NotFound { .. }) | Ok(_)) | Err(_) => {}
                Ok(Err(e)) if e.is_retryable() => {}
                Ok(Err(e)) => return Err(e.into()),
            }
        }
        Ok(())
    }
}
