//! [`Updater`] lists the namespace, follows its changes, and keeps the index up to date.

use std::{
    convert::Infallible,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use etcd_client::{WatchOptions, WatchResponse, WatchStream};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tracing::{info, warn};
use windlass_statemachine::TaskId;

use super::{entry::IndexKey, rows::Rows};
use crate::store::etcd::{
    client::{Fault, WatchedKey, news},
    read::Reader,
    schema::{Fences, KeyValue, Keys, end_of, keys::PROPS_APART},
};

/// After this time without a message, a stream is asked for its progress to see whether it still
/// works.
const SILENCE: Duration = Duration::from_secs(5);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The folders that a list reads.
const FOLDERS: [&str; 5] = ["tasks/", "finished/", "state/", "parked/", PROPS_APART];

pub(super) struct Updater {
    reader: Reader,
    rows: Arc<RwLock<Rows>>,
    /// The revision for which readers of the index wait.
    seen: watch::Sender<i64>,
    /// The revision of the last event.
    last: i64,
}

/// Returns the task of a key, and the part of the task; `None` for a key that the index does not need.
fn of_key<'k>(keys: &Keys, key: &'k [u8]) -> Option<(TaskId, IndexKey<'k>)> {
    if let Some((id, part)) = keys.split(key) {
        return Some((TaskId::new(id).ok()?, IndexKey::Part(part)));
    }
    let mut folders = [
        ("finished/", IndexKey::Finished),
        ("state/", IndexKey::State),
        ("parked/", IndexKey::Parked),
        (PROPS_APART, IndexKey::PropsApart),
    ]
    .into_iter();
    folders.find_map(|(folder, of)| Some((TaskId::new(keys.strip(key, folder)?).ok()?, of)))
}

/// Applies the events after the last one that was received.
fn take_news(
    rows: &mut Rows,
    (keys, fences): (&Keys, &Fences),
    received: i64,
    events: &[WatchedKey],
) {
    for event in news(received, events).flat_map(|(_, events)| events) {
        if let Some((id, of)) = of_key(keys, event.kv.key()) {
            rows.take(id, &of, event.put.then_some(&event.kv), fences);
        }
    }
}

impl Updater {
    pub(super) fn new(reader: Reader, rows: Arc<RwLock<Rows>>, seen: watch::Sender<i64>) -> Self {
        Self {
            reader,
            rows,
            seen,
            last: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let before = self.last;
            let fault = match self.follow().await {
                Ok(never) => match never {},
                Err(fault) => fault,
            };
            if matches!(fault, Fault::Compacted) {
                info!(
                    "the history after the last revision of the index was compacted; listing again"
                );
                self.last = 0;
            } else {
                let reason = fault.into_error("keep the index of tasks");
                warn!(%reason, "the index of tasks is not current; lists read all tasks until it is");
            }
            if self.last != before {
                pause = SHORTEST_PAUSE;
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Lists if necessary, then follows until the stream ends.
    async fn follow(&mut self) -> Result<Infallible, Fault> {
        if self.last == 0 {
            self.list().await?;
        }
        let turn = self.reader.link.turn();
        let mut stream = self.open().await?;
        let (mut asked, mut silent_at) = (false, Instant::now() + SILENCE);
        loop {
            tokio::select! {
                biased;
                message = stream.message() => {
                    let ended = || Fault::Unknown("the stream has ended".into());
                    self.take(&message?.ok_or_else(ended)?)?;
                    (asked, silent_at) = (false, Instant::now() + SILENCE);
                }
                () = sleep_until(silent_at) => {
                    if asked {
                        self.reader.link.leave(turn).await;
                        return Err(Fault::Unknown("the stream is silent".into()));
                    }
                    (asked, silent_at) = (true, Instant::now() + SILENCE);
                    self.reader.link.call(stream.request_progress()).await?;
                }
            }
        }
    }

    async fn list(&mut self) -> Result<(), Fault> {
        let (mut rows, mut at) = (Rows::default(), 0);
        let (keys, fences) = (&self.reader.keys, &self.reader.fences);
        for folder in FOLDERS {
            let from = format!("{}{folder}", keys.root());
            let mut take = |kv: KeyValue| {
                if let Some((id, of)) = of_key(keys, kv.key()) {
                    rows.take(id, &of, Some(&kv), fences);
                }
            };
            at = (self.reader.link)
                .scan(at, &from, &end_of(&from), &mut take)
                .await?;
        }
        rows.at = at;
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = rows;
        self.last = at;
        self.seen.send_replace(at);
        Ok(())
    }

    async fn open(&self) -> Result<WatchStream, Fault> {
        let root = self.reader.keys.root();
        let options = WatchOptions::new()
            .with_range(end_of(root))
            .with_start_revision(self.last + 1)
            .with_progress_notify();
        let mut client = self.reader.link.watcher();
        let opened = client.watch(root, Some(options));
        self.reader.link.call(opened).await
    }

    /// Applies one message of the stream.
    fn take(&mut self, response: &WatchResponse) -> Result<(), Fault> {
        if response.canceled() {
            return Err(match response.compact_revision() {
                0 => Fault::Unknown(response.cancel_reason().to_owned()),
                _ => Fault::Compacted,
            });
        }
        if response.created() {
            return Ok(());
        }
        let Some(last) = response.events().last().and_then(|event| event.kv()) else {
            // The answer to a request for progress: the stream works.
            return Ok(());
        };
        let last = last.mod_revision();
        let of = (&self.reader.keys, &self.reader.fences);
        let events = WatchedKey::all(response.events());
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        take_news(&mut rows, of, self.last, &events);
        self.last = self.last.max(last);
        rows.at = self.last;
        drop(rows);
        self.reader.link.past().saw(last);
        self.seen.send_replace(self.last);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(put: bool, key: &str, revision: i64) -> WatchedKey {
        WatchedKey {
            put,
            kv: KeyValue::new(key, r#"{"kind":"k"}"#, revision),
        }
    }

    fn tasks(rows: &Rows) -> u64 {
        rows.states().iter().map(|count| count.tasks).sum()
    }

    /// A member that was restored from a snapshot sends again that a task was submitted, which was deleted since.
    #[test]
    fn a_deleted_task_does_not_come_back_when_events_are_sent_again() {
        let (mut rows, keys, fences) = (Rows::default(), Keys::new("n"), Fences::default());
        let of = (&keys, &fences);
        let submitted = || key(true, "/n/tasks/a", 3);
        let deleted = || key(false, "/n/tasks/a", 5);
        take_news(&mut rows, of, 2, &[submitted()]);
        assert_eq!(tasks(&rows), 1);
        take_news(&mut rows, of, 3, &[deleted()]);
        assert_eq!(tasks(&rows), 0);
        take_news(&mut rows, of, 5, &[submitted()]);
        assert_eq!(tasks(&rows), 0, "in a message of its own");
        take_news(&mut rows, of, 2, &[submitted(), deleted(), submitted()]);
        assert_eq!(tasks(&rows), 0, "within one message");
        take_news(&mut rows, of, 5, &[submitted(), key(true, "/n/tasks/b", 6)]);
        assert_eq!(tasks(&rows), 1, "what follows is taken");
    }
}
