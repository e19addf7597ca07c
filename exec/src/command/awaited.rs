//! [`Awaited`]: the signals of a run, and the requests of its processes for them.
//!
//! A command that waits is ended, and starts from the top when the signal has arrived. So each of its requests must get the
//! same answer in every run: the n-th request for a name gets the n-th signal of that name, which stays in the queue until
//! the task ends. A request whose time has passed without a signal stays expired ([`SignalWaits`], in the data of the task);
//! it takes no signal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use windlass::{AwaitedSignal, Json, Message, Signal, TaskContext};

use crate::socket::{Answer, Asked, Request, WaitSignal};

/// How many waits of a task may expire. The record of each is in its data.
const MOST_EXPIRED: usize = 1_000;

/// For how many requests a command may be ended. The record of each is in the data of the task.
const MOST_BEGUN: usize = 1_000;

/// The outcomes of the earlier waits of a command: its next run gets the same answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalWaits {
    /// The incarnation of the task. A retry waits again.
    incarnation: u32,
    /// When the waits end that have begun: for each name, by the number of the request, from 1. `null` for no time. Processes
    /// that wait at once have one each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    begun: BTreeMap<String, BTreeMap<u32, Option<Timestamp>>>,
    /// The request for which the command was ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<LastWait>,
    /// The requests that have expired: for each name, their numbers, from 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    expired: BTreeMap<String, Vec<u32>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastWait {
    /// The name of the signal.
    signal: String,
    /// Which request for that name, from 1.
    request: u32,
}

/// The data of a task, as far as it is about signals.
#[derive(Deserialize)]
struct Data {
    waits: SignalWaits,
}

impl SignalWaits {
    /// Reads the waits of the earlier runs from the data of the task.
    fn of(task: &TaskContext) -> Option<Self> {
        let data: Json = task.data().ok()??;
        // The output of a command may be large, and few commands wait.
        if !data.as_str().contains("\"waits\":") {
            return None;
        }
        let Data { waits } = data.get("data").ok()?;
        (waits.incarnation == task.incarnation()).then_some(waits)
    }

    fn expired(&self, name: &str) -> &[u32] {
        self.expired.get(name).map_or(&[], Vec::as_slice)
    }
}

/// A wait for which the command ends.
#[derive(Debug)]
pub(super) struct Parked {
    signal: AwaitedSignal,
    until: Option<Timestamp>,
    /// The process must get no answer before it is ended: it would continue.
    _answer: oneshot::Sender<Answer>,
}

impl Parked {
    /// Returns the message that waits.
    pub(super) fn message(self) -> Message {
        let message = Message::wait_for_signal(self.signal);
        match self.until {
            Some(at) => message.deadline(at),
            None => message,
        }
    }
}

/// What follows a request.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing: it is answered.
    Answered,
    /// The waits are stored, and then it is answered.
    Store,
    /// The command ends, and waits.
    Park(Parked),
}

/// The signals and the requests of one run.
#[derive(Debug)]
pub(super) struct Awaited {
    /// The signals that the run has received, by name.
    received: BTreeMap<String, Vec<Signal>>,
    /// The number of requests, by name.
    requests: BTreeMap<String, u32>,
    /// The signals that the command has taken, with their replies.
    taken: Vec<(Signal, Json)>,
    waits: SignalWaits,
    /// The wait before this run.
    before: Option<AwaitedSignal>,
    /// How many bytes the replies may take.
    room: usize,
    /// Expired requests: those that are not stored, and those of the write that runs.
    unstored: Vec<oneshot::Sender<Answer>>,
    storing: Vec<oneshot::Sender<Answer>>,
}

impl Awaited {
    /// Returns the signals of a run whose task has `room` bytes for output and replies.
    pub(super) fn new(task: &TaskContext, room: usize) -> Self {
        let new = || SignalWaits {
            incarnation: task.incarnation(),
            ..SignalWaits::default()
        };
        let waits = SignalWaits::of(task).unwrap_or_else(new);
        Self::after(waits, task.awaited_signal().cloned(), room)
    }

    fn after(waits: SignalWaits, before: Option<AwaitedSignal>, room: usize) -> Self {
        Self {
            received: BTreeMap::new(),
            requests: BTreeMap::new(),
            taken: Vec::new(),
            waits,
            before,
            room: room / 2,
            unstored: Vec::new(),
            storing: Vec::new(),
        }
    }

    /// Takes a signal that the run has received.
    pub(super) fn receive(&mut self, signal: Signal) {
        let name = signal.name().to_owned();
        self.received.entry(name).or_default().push(signal);
    }

    /// Answers a request, or decides what has to happen first.
    pub(super) fn asked(&mut self, asked: Asked, now: Timestamp) -> Step {
        let Asked { request, answer } = asked;
        let Request::WaitSignal(wait) = request;
        if let Err(refused) = self.has_room(&wait.reply) {
            return answered(answer, refused);
        }
        let ends = match wait.until.map(|until| until.resolve(now)).transpose() {
            Ok(ends) => ends,
            Err(wrong) => return answered(answer, wrong.into()),
        };
        let name = wait.signal.name();
        let requests = self.requests.entry(name.to_owned()).or_default();
        *requests += 1;
        let request = *requests;
        let expired = self.waits.expired(name);
        if expired.contains(&request) {
            return answered(answer, Answer::Expired);
        }
        let earlier = expired.iter().filter(|one| **one < request).count();
        let place = request as usize - 1 - earlier;
        if let Some(signal) = self.received.get(name).and_then(|all| all.get(place)) {
            let payload = signal.payload_json().cloned();
            self.taken.push((signal.clone(), wait.reply));
            return answered(answer, Answer::Payload(payload.unwrap_or_else(Json::null)));
        }
        let until = self.until(&wait, ends, request);
        if until.is_some_and(|until| until <= now) {
            return self.expire(name, request, answer);
        }
        if let Err(refused) = self.begin(name, request, until) {
            return answered(answer, refused);
        }
        Step::Park(Parked {
            signal: wait.signal,
            until,
            _answer: answer,
        })
    }

    fn has_room(&self, reply: &Json) -> Result<(), Answer> {
        let bytes = self.replies() + reply.len();
        if bytes <= self.room {
            return Ok(());
        }
        let reason = format!(
            "the replies of the run have {bytes} bytes; at most {} are allowed",
            self.room
        );
        Err(Answer::Refused(Some("reply".to_owned()), reason))
    }

    fn replies(&self) -> usize {
        self.taken.iter().map(|(_, reply)| reply.len()).sum()
    }

    /// Returns when the wait of a request ends. A wait that an earlier run began keeps its time.
    fn until(
        &self,
        wait: &WaitSignal,
        asked: Option<Timestamp>,
        request: u32,
    ) -> Option<Timestamp> {
        let asked = asked?;
        let name = wait.signal.name();
        let begun = self.waits.begun.get(name).and_then(|all| all.get(&request));
        let Some(begun) = begun else {
            return Some(asked);
        };
        // A `reschedule` has changed the time of the task, but not its data.
        let last = self.waits.last.as_ref();
        let is_last = last.is_some_and(|last| last.signal == name && last.request == request);
        let before = self
            .before
            .as_ref()
            .filter(|before| is_last && before.name() == name);
        let changed = before.and_then(AwaitedSignal::until);
        Some(changed.or(*begun).unwrap_or(asked))
    }

    /// Notes that the command is ended for a request.
    fn begin(&mut self, name: &str, request: u32, until: Option<Timestamp>) -> Result<(), Answer> {
        let all: usize = self.waits.begun.values().map(BTreeMap::len).sum();
        let of = self.waits.begun.entry(name.to_owned()).or_default();
        if all >= MOST_BEGUN && !of.contains_key(&request) {
            let reason = format!(
                "{MOST_BEGUN} waits of the task have begun, and no more can be recorded; end the command, and submit another task"
            );
            return Err(Answer::Refused(None, reason));
        }
        of.insert(request, until);
        self.waits.last = Some(LastWait {
            signal: name.to_owned(),
            request,
        });
        Ok(())
    }

    fn expire(&mut self, name: &str, request: u32, answer: oneshot::Sender<Answer>) -> Step {
        let all: usize = self.waits.expired.values().map(Vec::len).sum();
        if all >= MOST_EXPIRED {
            let reason = format!(
                "{MOST_EXPIRED} waits of the task have expired, and no more can be recorded; end the command, and submit another task"
            );
            return answered(answer, Answer::Refused(None, reason));
        }
        let expired = self.waits.expired.entry(name.to_owned()).or_default();
        expired.push(request);
        self.unstored.push(answer);
        Step::Store
    }

    /// Notes that the data of the task is being written.
    pub(super) fn stores(&mut self) {
        self.storing.append(&mut self.unstored);
    }

    /// Answers the requests whose expiry was written, or was not.
    pub(super) fn stored(&mut self, is_stored: bool) {
        for answer in self.storing.drain(..) {
            let refused = || {
                let reason = "the end of the wait could not be stored";
                Answer::Refused(None, reason.to_owned())
            };
            let value = if is_stored {
                Answer::Expired
            } else {
                refused()
            };
            answered(answer, value);
        }
    }

    /// Returns the waits for the data of the task; `None` for a command that has never waited.
    pub(super) fn waits(&self) -> Option<SignalWaits> {
        let is_used = self.waits.last.is_some() || !self.waits.expired.is_empty();
        is_used.then(|| self.waits.clone())
    }

    /// Returns how many bytes the waits and the replies take.
    pub(super) fn bytes(&self) -> usize {
        let waits = self
            .waits()
            .and_then(|waits| serde_json::to_string(&waits).ok());
        waits.map_or(0, |waits| waits.len()) + self.replies()
    }

    /// Adds the replies to the signals that the command has taken.
    pub(super) fn reply(&self, message: Message) -> Message {
        let taken = self.taken.iter();
        taken.fold(message, |message, (signal, reply)| {
            message.answer(signal, reply)
        })
    }
}

fn answered(to: oneshot::Sender<Answer>, answer: Answer) -> Step {
    // The process may have ended.
    let _ = to.send(answer);
    Step::Answered
}

#[cfg(test)]
mod tests;
