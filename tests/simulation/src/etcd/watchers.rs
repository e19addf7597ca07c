//! The watches of the members.

use std::collections::BTreeMap;

use etcd_client::proto::{PbWatchRequestUnion, PbWatchResponse};
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
}

/// One watch of a stream.
#[derive(Debug)]
struct Watcher {
    /// Its number within the stream.
    id: i64,
    stream: u64,
    key: Vec<u8>,
    end: Vec<u8>,
    /// The first revision that it was not sent.
    next: i64,
    answers: Answers,
}

impl Watchers {
    /// Sends what has changed, and forgets the watches that nobody reads.
    pub(super) fn report(&mut self, model: &Model) {
        self.all.retain(|_, watcher| watcher.report(model));
    }
}

impl Watcher {
    /// Returns whether the watch goes on.
    fn report(&mut self, model: &Model) -> bool {
        if self.next > model.revision() {
            return !self.answers.is_closed();
        }
        let answer = |events| PbWatchResponse {
            header: model.header(),
            watch_id: self.id,
            events,
            ..Default::default()
        };
        match model.events(&self.key, &self.end, self.next) {
            Events::Compacted(at) => {
                let cancelled = PbWatchResponse {
                    canceled: true,
                    compact_revision: at,
                    ..answer(Vec::new())
                };
                let _ = self.answers.send(Ok(cancelled));
                false
            }
            Events::Changes(events) => {
                self.next = model.revision() + 1;
                match events.is_empty() {
                    true => !self.answers.is_closed(),
                    false => self.answers.send(Ok(answer(events))).is_ok(),
                }
            }
        }
    }
}

/// One stream of watches, as a member sees it.
#[derive(Debug)]
pub(super) struct Stream {
    number: u64,
    next_id: i64,
    answers: Answers,
}

impl Stream {
    pub(super) fn open(servers: &Servers, answers: Answers) -> Self {
        let mut state = servers.lock();
        state.watchers.made += 1;
        Self {
            number: state.watchers.made,
            next_id: 0,
            answers,
        }
    }

    /// Carries out a request of the client.
    pub(super) fn request(&mut self, servers: &Servers, request: PbWatchRequestUnion) {
        let mut state = servers.lock();
        let header = state.model.header();
        match request {
            PbWatchRequestUnion::CreateRequest(create) => {
                let id = match create.watch_id {
                    0 => self.next_id,
                    given => given,
                };
                self.next_id = self.next_id.max(id) + 1;
                let created = PbWatchResponse {
                    header,
                    watch_id: id,
                    created: true,
                    ..Default::default()
                };
                let _ = self.answers.send(Ok(created));
                let next = match create.start_revision {
                    ..=0 => state.model.revision() + 1,
                    from => from,
                };
                state.watchers.made += 1;
                let number = state.watchers.made;
                let watcher = Watcher {
                    id,
                    stream: self.number,
                    key: create.key,
                    end: create.range_end,
                    next,
                    answers: self.answers.clone(),
                };
                state.watchers.all.insert(number, watcher);
                state.report();
            }
            PbWatchRequestUnion::CancelRequest(cancel) => {
                let of = self.number;
                let is_it = |w: &Watcher| w.stream == of && w.id == cancel.watch_id;
                state.watchers.all.retain(|_, watcher| !is_it(watcher));
                let cancelled = PbWatchResponse {
                    header,
                    watch_id: cancel.watch_id,
                    canceled: true,
                    ..Default::default()
                };
                let _ = self.answers.send(Ok(cancelled));
            }
            PbWatchRequestUnion::ProgressRequest(_) => {
                let progress = PbWatchResponse {
                    header,
                    watch_id: -1,
                    ..Default::default()
                };
                let _ = self.answers.send(Ok(progress));
            }
        }
    }

    pub(super) fn close(&self, servers: &Servers) {
        let mut state = servers.lock();
        let of = self.number;
        state.watchers.all.retain(|_, watcher| watcher.stream != of);
    }
}
