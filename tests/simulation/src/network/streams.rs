//! The streams of watches and of renewals, and what is looked for in them.

use std::collections::BTreeSet;

use bytes::Bytes;
use etcd_client::proto::PbWatchResponse;
use http_body::Frame;
use http_body_util::BodyExt;
use prost::Message;
use tokio::{sync::oneshot, time::sleep};
use tonic::{Status, body::Body};

use super::{Condition, Ends, Network, body, broken};
use crate::etcd::{
    DELETE,
    service::{self, Answer, Call},
};

/// What the messages of a stream are, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passing {
    /// Renewals of a lease.
    Renewal,
    /// Changes that a watch reports.
    Changes,
    Other,
}

impl Network {
    /// Looks for the deletion of a key in what the watches of a process are sent.
    pub fn look_for(&self, process: usize, key: &str) {
        self.lock().wanted.push((process, key.into()));
    }

    /// Returns the deletions that were found since the last call, each with its process.
    pub fn take_noticed(&self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.lock().noticed)
    }

    /// Returns the processes that have sent a renewal of a lease since the last call.
    pub fn take_renewing(&self) -> BTreeSet<usize> {
        std::mem::take(&mut self.lock().renewing)
    }

    /// Looks at a message of a stream that arrives.
    fn look_at(&self, process: usize, what: Passing, frame: &Frame<Bytes>) {
        let mut state = self.lock();
        if what == Passing::Renewal {
            state.renewing.insert(process);
        }
        if what != Passing::Changes || !state.wanted.iter().any(|(of, _)| *of == process) {
            return;
        }
        // A message of gRPC has five bytes before it.
        let bytes = frame.data_ref().and_then(|bytes| bytes.get(5..));
        let message = bytes.and_then(|bytes| PbWatchResponse::decode(bytes).ok());
        let events = message.into_iter().flat_map(|message| message.events);
        let deleted = events.filter(|event| event.r#type == DELETE);
        for key in deleted.filter_map(|event| Some(event.kv?.key)) {
            let wanted = (process, key);
            if state.wanted.contains(&wanted) {
                state.wanted.retain(|other| *other != wanted);
                state.noticed.push(wanted);
            }
        }
    }

    /// Hands the frames of a stream on, in both directions, until the line breaks.
    pub(super) async fn carry_stream(
        &self,
        ends: Ends,
        since: u64,
        call: Call,
        answer: oneshot::Sender<Answer>,
    ) {
        let (head, from_client) = call.into_parts();
        let is_watch = head.uri.path().contains("Watch");
        let (above, below) = match is_watch {
            true => (Passing::Other, Passing::Changes),
            false => (Passing::Renewal, Passing::Other),
        };
        let (to_member, requests) = body::channel();
        let network = self.clone();
        tokio::spawn(async move {
            let way = (|line: Condition| line.cut_up, above);
            network.pump(ends, since, way, from_client, to_member).await;
        });
        let call = http::Request::from_parts(head, requests);
        let answered = service::answer(&self.0.servers, ends, call).await;
        let (head, from_member) = answered.into_parts();
        let (to_client, answers) = body::channel();
        if self.pass(ends, |line| line.cut_down, since).await {
            let _ = answer.send(http::Response::from_parts(head, answers));
            let way = (|line: Condition| line.cut_down, below);
            self.pump(ends, since, way, from_member, to_client).await;
        } else {
            let _ = answer.send(broken());
        }
    }

    async fn pump(
        &self,
        ends: Ends,
        since: u64,
        (is_cut, what): (impl Fn(Condition) -> bool, Passing),
        mut from: Body,
        to: body::Sender,
    ) {
        let broke = || Err(Status::unavailable("transport error: the line broke"));
        loop {
            let frame = tokio::select! {
                biased;
                () = self.breaks(ends, since) => return drop(to.send(broke())),
                () = to.closed() => return,
                frame = from.frame() => frame,
            };
            let Some(frame) = frame else { return };
            sleep(self.delay(ends)).await;
            if !self.pass(ends, &is_cut, since).await {
                return drop(to.send(broke()));
            }
            if to.is_closed() {
                return;
            }
            if let Ok(frame) = &frame {
                self.look_at(ends.0, what, frame);
            }
            if to.send(frame).is_err() {
                return;
            }
        }
    }
}
