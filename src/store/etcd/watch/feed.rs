//! The stream of changes: a watch on the namespace that reads the history of etcd itself.
//!
//! It reaches back to the last compaction of etcd, but not beyond the retention. It needs no writes
//! of its own.
//!
//! The one range of the watch also contains the lines that handlers log (`meta/log/`), because two ranges around them
//! would be two watches of the stream, and a change could be reported only after the other watch has reported that it
//! has sent every earlier event.

use std::{collections::HashSet, time::Duration};

use etcd_client::{GetOptions, WatchOptions, WatchStream};
use futures::stream;
use jiff::Timestamp;
use tokio::time::{sleep, timeout};
use tracing::warn;
use windlass_statemachine::{Backoff, TaskId};

use crate::store::{
    Change, ChangeKind, ChangeStream, Error,
    etcd::{
        client::{Fault, WatchedKey, news},
        read::Access,
        schema::{
            Entry, Envelope, Fences, Keys, Part, Stored, end_of,
            numbers::{PLACES, number, revision_of},
            recent,
        },
    },
};

const OPERATION: &str = "follow the changes";
const SILENCE: Duration = Duration::from_secs(5);

/// The stream of changes of a namespace. Clones share their state.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) access: Access,
}

/// The position of one reader of the feed.
struct Following {
    feed: Feed,
    stream: Option<WatchStream>,
    asked: bool,
    /// The connection that the stream uses.
    turn: usize,
    /// The last revision that was read, and the last change that was reported.
    seen: i64,
    reported: u64,
    /// The revision of the last event that was received. Reports of progress may be ahead of it.
    received: i64,
}

impl Feed {
    /// Returns the position after the newest revision.
    pub(crate) async fn newest(&self) -> Result<u64, Error> {
        let horizon = self.access.keys().horizon();
        let read = self.access.link().get_all(&horizon).await;
        let (_, newest) = read.map_err(|fault| fault.into_error("read the newest change"))?;
        Ok(number(newest, PLACES - 1))
    }

    pub(crate) async fn changes(&self, after: Option<u64>) -> Result<ChangeStream, Error> {
        let failed = |fault: Fault| fault.into_error(OPERATION);
        let (horizon, _) = self.access.reader.horizon().await.map_err(failed)?;
        let (_, newest) = self
            .access
            .link()
            .get_all(&self.access.keys().horizon())
            .await
            .map_err(failed)?;
        let (seen, reported) = match after {
            None => (newest, 0),
            Some(after) => {
                let revision = revision_of(after);
                if revision > newest {
                    let last = number(newest, PLACES - 1);
                    return Err(Error::beyond(after, last));
                }
                // For etcd, a revision of 0 means now.
                let revision = revision.max(1);
                // A compacted revision cannot be read.
                let options = GetOptions::new().with_count_only().with_revision(revision);
                let mut client = self.access.link().kv();
                let read = client.get(self.access.keys().horizon(), Some(options));
                match self.access.link().call(read).await {
                    Err(Fault::Compacted) => return Err(Error::pruned(after)),
                    Err(fault) => return Err(failed(fault)),
                    Ok(_) if revision < horizon.pruned => return Err(Error::pruned(after)),
                    // Starts with the rest of that revision.
                    Ok(_) => (revision - 1, after),
                }
            }
        };
        let mut following = Following {
            feed: self.clone(),
            stream: None,
            asked: false,
            turn: self.access.link().turn(),
            seen,
            reported,
            received: 0,
        };
        // Opened here, so that it misses nothing from now on.
        following.stream = following.open().await.ok();
        let changes: ChangeStream =
            Box::pin(stream::unfold(following, |mut following| async move {
                let changes = following.next().await;
                Some((changes, following))
            }));
        Ok(changes)
    }
}

impl Following {
    async fn open(&self) -> Result<WatchStream, Fault> {
        let root = self.feed.access.keys().root();
        let options = WatchOptions::new()
            .with_range(end_of(root))
            .with_start_revision(self.seen + 1)
            .with_progress_notify();
        let mut client = self.feed.access.link().watcher();
        self.feed
            .access
            .link()
            .call(client.watch(root, Some(options)))
            .await
    }

    async fn next(&mut self) -> Result<Vec<Change>, Error> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        loop {
            match self.try_next().await {
                Ok(changes) if changes.is_empty() => backoff.restart(),
                Ok(changes) => return Ok(changes),
                Err(Fault::Compacted) => return Err(Error::pruned(self.reported)),
                Err(Fault::Refused(gone @ Error::StoreGone { .. })) => return Err(gone),
                Err(fault) => {
                    self.stream = None;
                    let reason = fault.into_error(OPERATION);
                    warn!(%reason, "the stream of changes broke; resuming after the last reported change");
                    sleep(backoff.jittered(fastrand::f64())).await;
                }
            }
        }
    }

    /// Applies a changed format of the namespace: a copy into it raises the fences of later claims.
    fn follow_format(&self, events: &[WatchedKey]) -> Result<(), Fault> {
        let reader = &self.feed.access.reader;
        let key = reader.keys.fences();
        let format = events.iter().map(|event| &event.kv);
        for kv in format.filter(|kv| kv.key() == key.as_bytes() && !kv.value().is_empty()) {
            reader.set_format(kv)?;
        }
        Ok(())
    }

    async fn try_next(&mut self) -> Result<Vec<Change>, Fault> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                // A call first: it renews an expired token, which a watch cannot do, and detects an etcd that was
                // restored to an earlier state.
                let horizon = self.feed.access.keys().horizon();
                self.feed.access.link().past().saw(self.seen);
                self.feed.access.link().get_all(&horizon).await?;
                (self.turn, self.asked) = (self.feed.access.link().turn(), false);
                self.open().await?
            }
        };
        let Ok(message) = timeout(SILENCE, stream.message()).await else {
            if self.asked {
                self.feed.access.link().leave(self.turn).await;
                return Err(Fault::Unknown("the stream is silent".into()));
            }
            self.feed
                .access
                .link()
                .call(stream.request_progress())
                .await?;
            self.asked = true;
            self.stream = Some(stream);
            return Ok(Vec::new());
        };
        self.asked = false;
        let ended = || Fault::Unknown("the stream has ended".into());
        let response = message?.ok_or_else(ended)?;
        if response.canceled() {
            let compacted = response.compact_revision();
            if compacted > self.seen + 1 {
                // Reported once. The next call resumes with what is left.
                self.seen = compacted - 1;
                return Err(Fault::Compacted);
            }
            // A member that was restored from a snapshot takes the watch back to where it was opened.
            return Err(Fault::Unknown(response.cancel_reason().to_owned()));
        }
        let at = response.header().map_or(0, |header| header.revision());
        if response.events().is_empty() && (1..self.seen).contains(&at) {
            let reason = "the member is behind, or etcd was restored to an earlier state";
            return Err(Fault::Unknown(reason.into()));
        }
        self.stream = Some(stream);
        if response.events().is_empty() && !response.created() && response.watch_id() >= 0 {
            // A progress report for this watch means that all earlier changes have arrived. The
            // answer to a request has the watch id -1, and may arrive before the changes.
            self.seen = self.seen.max(at);
        }
        let events = WatchedKey::all(response.events());
        let mut changes = Vec::new();
        let mut received = self.received;
        for (revision, events) in news(received, &events) {
            self.follow_format(events)?;
            changes.extend(changes_of(
                (self.feed.access.keys(), &self.feed.access.reader.fences),
                revision,
                events,
                self.feed.access.now(),
            ));
            received = revision;
        }
        self.received = received;
        self.seen = self.seen.max(received);
        changes.retain(|change| change.seq > self.reported);
        if let Some(last) = changes.last() {
            self.reported = last.seq;
        }
        Ok(changes)
    }
}

/// Returns the changes of one revision.
fn changes_of(
    (keys, fences): (&Keys, &Fences),
    revision: i64,
    events: &[WatchedKey],
    now: Timestamp,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut deleted: Vec<TaskId> = Vec::new();
    // The end of a task and its retry move its envelope, which is not a deletion.
    let mut moved: HashSet<TaskId> = HashSet::new();
    for WatchedKey { put, kv } in events {
        let put = *put;
        let mut add = |task: &TaskId, (seq, at), by, what| {
            changes.push(Change::new(seq, at, task.clone(), what).by(by));
        };
        if let Some((id, part)) = keys.split(kv.key()) {
            let Ok(id) = TaskId::new(id) else { continue };
            match part {
                Part::Task if put => {
                    moved.insert(id.clone());
                    let is_new = kv.create_revision() == revision;
                    let envelope = Envelope::read(kv).or_else(|_| Envelope::foreign());
                    if let (Ok(envelope), true) = (envelope, is_new)
                        && envelope.order.is_none()
                    {
                        let state = envelope.first_state().code();
                        let what = ChangeKind::Submitted { state };
                        let place = (envelope.order(kv), envelope.submitted_at());
                        add(&id, place, envelope.by, what);
                    }
                }
                Part::Task => deleted.push(id),
                Part::Slot | Part::Command(_) if put => {
                    let name = match part {
                        Part::Command(name) => Some(name),
                        _ => None,
                    };
                    let sent = Stored::read(name, kv);
                    let (place, what) = ((sent.order, sent.sent_at), sent.change());
                    add(&id, place, sent.by, what);
                }
                _ => {}
            }
        } else if let Some(id) = keys.strip(kv.key(), "finished/") {
            let Ok(id) = TaskId::new(id) else { continue };
            if put {
                moved.insert(id);
            } else {
                deleted.push(id);
            }
        } else if let Some(rest) = keys.strip(kv.key(), "history/")
            && put
            && let Some((id, _)) = rest.split_once('/')
            && let Ok(id) = TaskId::new(id)
        {
            changes.extend(Entry::read_new(&id, kv, fences));
        } else if put
            && let Some(id) = keys.strip(kv.key(), "state/")
            && let Ok(id) = TaskId::new(id)
        {
            changes.extend(recent::new_changes_of(&id, kv, fences));
        }
    }
    deleted.retain(|id| !moved.contains(id));
    deleted.sort();
    deleted.dedup();
    // A write reserves the places of its changes, up to the last one. A deleted key has no place: it takes one that no
    // change of the revision has.
    let taken: HashSet<u64> = changes.iter().map(|change| change.seq).collect();
    let places = (0..PLACES).rev().map(|place| number(revision, place));
    let free = places.filter(|seq| !taken.contains(seq));
    for (id, seq) in deleted.into_iter().zip(free) {
        // A deleted key has no time. The history of the namespace names the author.
        changes.push(Change::new(seq, now, id, ChangeKind::Deleted));
    }
    changes.sort_by_key(|change| change.seq);
    changes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::etcd::schema::{KeyValue, numbers::place_of};

    const REVISION: i64 = 9;

    /// Returns the changes of a revision that submits tasks with these places and deletes as many tasks.
    fn changes(submitted: &HashSet<u32>, deleted: usize) -> Vec<Change> {
        let submits = submitted.iter().map(|place| {
            let value = format!(r#"{{"kind":"k","place":{place}}}"#);
            let key = format!("/n/tasks/new-{place}");
            (true, KeyValue::new(&key, &value, REVISION))
        });
        let deletes = (0..deleted).map(|n| {
            let key = format!("/n/tasks/old-{n}");
            (false, KeyValue::new(&key, "", REVISION))
        });
        let events = submits.chain(deletes);
        let events: Vec<WatchedKey> = events.map(|(put, kv)| WatchedKey { put, kv }).collect();
        let (keys, fences) = (Keys::new("n"), Fences::default());
        changes_of((&keys, &fences), REVISION, &events, Timestamp::UNIX_EPOCH)
    }

    proptest! {
        /// A transaction that deleted a task and submitted one with the last place of the revision made two changes
        /// with one number: who resumed after the first never saw the second.
        #[test]
        fn each_change_of_a_revision_has_its_own_number(
            submitted in prop::collection::hash_set(PLACES - 40..PLACES, 0..40),
            deleted in 0_usize..40,
        ) {
            let changes = changes(&submitted, deleted);
            prop_assert_eq!(changes.len(), submitted.len() + deleted);
            prop_assert!(changes.is_sorted_by(|a, b| a.seq < b.seq));
            prop_assert!(changes.iter().all(|change| revision_of(change.seq) == REVISION));
            let places: HashSet<u32> = changes
                .iter()
                .filter(|change| change.what != ChangeKind::Deleted)
                .map(|change| place_of(change.seq))
                .collect();
            prop_assert_eq!(places, submitted);
        }
    }
}
