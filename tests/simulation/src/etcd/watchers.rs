//! The watches of the members.

use std::collections::{BTreeMap, BTreeSet};

use etcd_client::proto::{PbEvent, PbWatchRequestUnion, PbWatchResponse};
use tokio::sync::mpsc::UnboundedSender;
use tonic::Status;

use super::{Events, Model, server::Servers};

/// Where the answers of one stream go.
pub(super) type Answers = UnboundedSender<Result<PbWatchResponse, Status>>;

/// All watches of all streams.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: BTreeMap<u64, Watcher>,
    made: u64,
    /// The processes that are sent no changes.
    late: BTreeSet<usize>,
    /// The members that send no changes.
    behind: BTreeSet<usize>,
}

/// One watch of a stream.
#[derive(Debug)]
struct Watcher {
    /// Its number within the stream.
    id: i64,
    stream: u64,
    /// The process that reads it, and the member.
    ends: (usize, usize),
    key: Vec<u8>,
    end: Vec<u8>,
    /// The first revision that it was opened for.
    from: i64,
    /// The first revision that it was not sent.
    next: i64,
    /// Whether it is sent reports of progress.
    has_progress: bool,
    answers: Answers,
}

impl Watchers {
    /// Sends what has changed, and forgets the watches that nobody reads.
    pub(super) fn report(&mut self, model: &Model) {
        let Self {
            all, late, behind, ..
        } = self;
        all.retain(|_, watcher| {
            let (process, member) = watcher.ends;
            match late.contains(&process) || behind.contains(&member) {
                true => !watcher.answers.is_closed(),
                false => watcher.report(model),
            }
        });
    }

    /// Holds back what the watches of a process are sent, or sends it.
    pub(super) fn set_late(&mut self, process: usize, is_late: bool) {
        match is_late {
            true => self.late.insert(process),
            false => self.late.remove(&process),
        };
    }

    /// Holds back what the watches of a member are sent.
    pub(super) fn set_behind(&mut self, member: usize) {
        self.behind.insert(member);
    }

    /// Sends what a member has held back, and then again everything from the beginning of each watch: the member was restored
    /// from a snapshot.
    pub(super) fn restore(&mut self, model: &Model, member: usize) {
        if !self.behind.remove(&member) {
            return;
        }
        let of_member = |watcher: &Watcher| watcher.ends.1 == member;
        self.all
            .retain(|_, watcher| !of_member(watcher) || watcher.restore(model));
    }

    /// Returns whether a process watches everything from this key on, and is told the progress.
    pub(super) fn has(&self, process: usize, key: &[u8]) -> bool {
        let mut all = self.all.values();
        all.any(|watcher| {
            let is_open = watcher.has_progress && !watcher.answers.is_closed();
            is_open && watcher.ends.0 == process && watcher.key == key
        })
    }

    /// Ends all watches.
    pub(super) fn end_all(&mut self) {
        self.all.clear();
    }

    /// Sends nothing late any more.
    pub(super) fn heal(&mut self, model: &Model) {
        self.late.clear();
        self.behind.clear();
        self.report(model);
    }

    /// Reports the progress of the watches that were sent everything.
    pub(super) fn progress(&self, model: &Model) {
        let is_synced = |watcher: &&Watcher| watcher.next > model.revision();
        let told = self.all.values().filter(is_synced);
        for watcher in told.filter(|watcher| watcher.has_progress) {
            let _ = watcher.answers.send(Ok(watcher.answer(model, Vec::new())));
        }
    }
}

impl Watcher {
    /// Returns whether the watch goes on.
    fn report(&mut self, model: &Model) -> bool {
        if self.next > model.revision() {
            return !self.answers.is_closed();
        }
        match model.events(&self.key, &self.end, self.next) {
            Events::Compacted(at) => self.cancel(model, at),
            Events::Changes(events) => {
                self.next = model.revision() + 1;
                self.send(model, events)
            }
        }
    }

    /// Sends what was held back, and then what it was sent before. Returns whether the watch goes on.
    fn restore(&mut self, model: &Model) -> bool {
        let mut events = match model.events(&self.key, &self.end, self.next) {
            Events::Compacted(at) => return self.cancel(model, at),
            Events::Changes(events) => events,
        };
        self.next = model.revision() + 1;
        match model.events(&self.key, &self.end, self.from) {
            Events::Compacted(at) => self.send(model, events) && self.cancel(model, at),
            Events::Changes(again) => {
                events.extend(again);
                self.send(model, events)
            }
        }
    }

    fn answer(&self, model: &Model, events: Vec<PbEvent>) -> PbWatchResponse {
        PbWatchResponse {
            header: model.header(),
            watch_id: self.id,
            events,
            ..Default::default()
        }
    }

    fn send(&self, model: &Model, events: Vec<PbEvent>) -> bool {
        match events.is_empty() {
            true => !self.answers.is_closed(),
            false => self.answers.send(Ok(self.answer(model, events))).is_ok(),
        }
    }

    /// Tells the reader that its history was compacted.
    fn cancel(&self, model: &Model, at: i64) -> bool {
        let cancelled = PbWatchResponse {
            canceled: true,
            compact_revision: at,
            ..self.answer(model, Vec::new())
        };
        let _ = self.answers.send(Ok(cancelled));
        false
    }
}

/// One stream of watches, as a member sees it.
#[derive(Debug)]
pub(super) struct Stream {
    number: u64,
    ends: (usize, usize),
    next_id: i64,
    answers: Answers,
}

impl Stream {
    pub(super) fn open(servers: &Servers, ends: (usize, usize), answers: Answers) -> Self {
        let mut state = servers.lock();
        state.watchers.made += 1;
        Self {
            number: state.watchers.made,
            ends,
            next_id: 0,
            answers,
        }
    }

    /// Carries out a request of the client.
    pub(super) fn request(&mut self, servers: &Servers, request: PbWatchRequestUnion) {
        let mut state = servers.lock();
        let header = state.model.header();
        let of = |watch_id| PbWatchResponse {
            header,
            watch_id,
            ..Default::default()
        };
        match request {
            PbWatchRequestUnion::CreateRequest(create) => {
                let id = match create.watch_id {
                    0 => self.next_id,
                    given => given,
                };
                self.next_id = self.next_id.max(id) + 1;
                let created = true;
                self.say(PbWatchResponse { created, ..of(id) });
                let next = match create.start_revision {
                    ..=0 => state.model.revision() + 1,
                    from => from,
                };
                state.watchers.made += 1;
                let number = state.watchers.made;
                let watcher = Watcher {
                    id,
                    stream: self.number,
                    ends: self.ends,
                    key: create.key,
                    end: create.range_end,
                    from: next,
                    next,
                    has_progress: create.progress_notify,
                    answers: self.answers.clone(),
                };
                state.watchers.all.insert(number, watcher);
                state.report();
            }
            PbWatchRequestUnion::CancelRequest(cancel) => {
                let (stream, id, canceled) = (self.number, cancel.watch_id, true);
                let is_it = |w: &Watcher| w.stream == stream && w.id == id;
                state.watchers.all.retain(|_, watcher| !is_it(watcher));
                self.say(PbWatchResponse { canceled, ..of(id) });
            }
            PbWatchRequestUnion::ProgressRequest(_) => self.say(of(-1)),
        }
    }

    fn say(&self, answer: PbWatchResponse) {
        // The client may have gone.
        let _ = self.answers.send(Ok(answer));
    }

    pub(super) fn close(&self, servers: &Servers) {
        let mut state = servers.lock();
        let of = self.number;
        state.watchers.all.retain(|_, watcher| watcher.stream != of);
    }
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::PbPutRequest;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::etcd::watch::revision;

    type Sent = UnboundedReceiver<Result<PbWatchResponse, Status>>;

    /// Three members, and a watch of a key by process 1 at member 0.
    fn watching() -> (Servers, Sent) {
        let (servers, (answers, mut sent)) = (Servers::new(3), unbounded_channel());
        // The type of the request has no public name.
        let mut create = PbWatchRequestUnion::CreateRequest(Default::default());
        if let PbWatchRequestUnion::CreateRequest(create) = &mut create {
            (create.key, create.progress_notify) = (b"k".to_vec(), true);
        }
        let mut stream = Stream::open(&servers, (1, 0), answers);
        stream.request(&servers, create);
        assert!(sent.try_recv().unwrap().unwrap().created);
        (servers, sent)
    }

    fn put(servers: &Servers) {
        let mut state = servers.lock();
        let key = b"k".to_vec();
        let put = PbPutRequest {
            key,
            ..Default::default()
        };
        state.model.put(put).unwrap();
        state.report();
    }

    /// The revisions of the events of the next message.
    fn next(sent: &mut Sent) -> Option<Vec<i64>> {
        let message = sent.try_recv().ok()?.unwrap();
        Some(message.events.iter().map(revision).collect())
    }

    #[test]
    fn a_member_that_is_restored_sends_again_what_a_watch_has_received() {
        let (servers, mut sent) = watching();
        put(&servers);
        assert_eq!(next(&mut sent), Some(vec![2]));
        servers.set_behind(0);
        put(&servers);
        assert_eq!(next(&mut sent), None);
        servers.restore_member(0);
        assert_eq!(next(&mut sent), Some(vec![3, 2, 3]));
        put(&servers);
        assert_eq!(next(&mut sent), Some(vec![4]));
    }

    #[test]
    fn a_member_that_is_restored_ends_a_watch_whose_begin_was_compacted() {
        let (servers, mut sent) = watching();
        put(&servers);
        put(&servers);
        servers.compact_before(3);
        servers.set_behind(0);
        servers.restore_member(0);
        let cancelled = std::iter::from_fn(|| sent.try_recv().ok()).last();
        assert_eq!(cancelled.unwrap().unwrap().compact_revision, 3);
    }

    #[test]
    fn late_changes_come_when_it_is_over_and_progress_is_that_of_what_was_sent() {
        let (servers, mut sent) = watching();
        servers.set_late(1, true);
        put(&servers);
        assert_eq!(servers.write_beside(2), 4);
        assert_eq!(next(&mut sent), None, "it has not received everything");
        servers.heal_watches();
        assert_eq!(next(&mut sent), Some(vec![2]));
        assert_eq!(servers.write_beside(1), 5);
        let progress = sent.try_recv().unwrap().unwrap();
        assert_eq!(
            (progress.header.unwrap().revision, progress.watch_id),
            (5, 0)
        );
    }
}
