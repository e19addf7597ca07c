//! [`Worker`]: a remote worker for which this process speaks, or has spoken.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use windlass_statemachine::{Fence, Kind, TaskId, task::Labels};

use super::{protocol::Offer, session::Session};
use crate::store::{
    Lease, NodeCommandId, NodeSpec, NodeStatus, QueuedNodeCommand, TaskView, WorkerRecord,
};

/// A remote worker. `session` is locked while a request or an event of its tasks is handled; the shared part is read and
/// changed at any time.
pub(super) struct Worker {
    pub(super) lease: Lease,
    pub(super) secret: String,
    pub(super) session: tokio::sync::Mutex<Session>,
    /// Notified when there may be something to answer to an open exchange.
    pub(super) news: Notify,
    shared: Mutex<Shared>,
    inbox: Mutex<Vec<Notice>>,
}

/// The part of a worker that can be read and changed while one of its requests holds the session.
#[derive(Default)]
pub(super) struct Shared {
    spec: Option<NodeSpec>,
    pub(super) offers: HashMap<Kind, Offer>,
    pub(super) labels: Labels,
    pub(super) status: NodeStatus,
    paused: HashSet<Kind>,
    /// How many tasks of each kind are claimed, and how many are being claimed.
    held: HashMap<Kind, u32>,
    claiming: HashMap<Kind, u32>,
    /// When the last request of the worker came.
    pub(super) seen: Option<Instant>,
    /// The answers to commands of operators that wait until the status is stored.
    pub(super) answers: Vec<(NodeCommandId, String)>,
    /// How many exchanges wait for work.
    pub(super) waiting: usize,
    /// The last exchange whose renewal is stored, and when it came.
    renewed: u64,
    renewed_at: Option<Instant>,
    /// When the exchange came whose renewal was last reported to the worker.
    reported_at: Option<Instant>,
    /// When the next look at its timers is due.
    pub(super) alarm: Option<Instant>,
    /// Whether the store has said that the lease is over.
    pub(super) is_over: bool,
}

/// Something that has happened to a task or to the worker. The next holder of the session looks at it.
#[derive(Debug)]
pub(super) enum Notice {
    /// Commands were sent to a task.
    Commands(TaskId),
    /// A task with this order is gone, with every claim up to this fence.
    Gone(TaskId, u64, Option<Fence>),
    /// An operator has sent a command to the worker.
    Node(QueuedNodeCommand),
    /// The watch may have missed something.
    Refresh,
    /// A timer has fired.
    Time,
}

impl Shared {
    /// Notes that the renewal of an exchange is stored, and when the exchange came.
    pub(super) fn is_renewed(&mut self, seq: u64, came: Instant) {
        if seq > self.renewed {
            (self.renewed, self.renewed_at) = (seq, Some(came));
        }
    }

    /// Notes that the worker is registered: its lease begins when it asked for that.
    pub(super) fn is_registered(&mut self) {
        self.reported_at = Some(Instant::now());
    }

    /// Returns the last exchange whose renewal is stored.
    pub(super) fn renewed(&self) -> u64 {
        self.renewed
    }

    /// Notes that an answer reports the renewal of an exchange to the worker.
    pub(super) fn tells(&mut self, seq: u64) {
        if seq == self.renewed {
            self.reported_at = self.reported_at.max(self.renewed_at);
        }
    }

    /// Returns whether an exchange ends for the news that the lease is renewed: this server has reported no
    /// renewal for longer than exchanges usually wait. After an outage the worker may be about to stop its handlers.
    pub(super) fn has_renewal_to_tell(&self, ttl: Duration) -> bool {
        self.renewed_at > self.reported_at
            && self
                .reported_at
                .is_none_or(|reported| reported.elapsed() > ttl / 3)
    }
}

impl Worker {
    pub(super) fn new(record: WorkerRecord) -> Arc<Self> {
        let worker = Self {
            session: tokio::sync::Mutex::new(Session::new(record.lease.clone())),
            lease: record.lease,
            secret: record.secret,
            news: Notify::new(),
            shared: Mutex::default(),
            inbox: Mutex::default(),
        };
        worker.describe(&record.spec, record.status);
        worker.is_seen();
        Arc::new(worker)
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the worker offers, and its status.
    pub(super) fn describe(&self, spec: &NodeSpec, status: NodeStatus) {
        self.offers(spec);
        self.shared().status = status;
    }

    /// Notes what the worker offers.
    pub(super) fn offers(&self, spec: &NodeSpec) {
        let mut shared = self.shared();
        shared.offers = offers(spec).collect();
        shared.labels.clone_from(&spec.labels);
        shared.spec = Some(spec.clone());
    }

    /// Returns whether this is the description that is known here.
    pub(super) fn is_described(&self, spec: &NodeSpec) -> bool {
        self.shared().spec.as_ref() == Some(spec)
    }

    /// Notes that a request of the worker has come.
    pub(super) fn is_seen(&self) {
        self.shared().seen = Some(Instant::now());
    }

    /// Returns whether its lease must be over, or another server speaks for it: no request has come for two TTLs.
    pub(super) fn is_gone(&self) -> bool {
        let shared = self.shared();
        let seen = shared.seen.map(|seen| seen.elapsed());
        shared.waiting == 0 && seen.is_some_and(|since| since > self.lease.ttl * 2)
    }

    /// Returns the number of the last request that was handled here.
    pub(super) async fn last_seq(&self) -> u64 {
        self.session.lock().await.seq
    }

    /// Leaves a notice for the next holder of the session.
    pub(super) fn tell(&self, notice: Notice) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.push(notice);
    }

    pub(super) fn take_notices(&self) -> Vec<Notice> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *inbox)
    }
}

/// Returns what a worker offers, by its description.
pub(super) fn offers(spec: &NodeSpec) -> impl Iterator<Item = (Kind, Offer)> {
    let own = spec.worker.as_ref();
    spec.kinds.iter().flatten().map(move |kind| {
        let mut offer = Offer::new(spec.slots_of.get(kind).copied().unwrap_or(0));
        offer.reads = spec.data_versions.newest(kind);
        if let Some(handler) = own.and_then(|own| own.handlers.get(kind)) {
            offer.grace_ms = handler.grace_ms;
            offer.signals = handler.signals;
        }
        (kind.clone(), offer)
    })
}

/// Which tasks of a kind a worker may have: the newest data version, and the labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Coverage {
    reads: u32,
    labels: Labels,
}

impl Coverage {
    /// Returns whether a task of the kind is among them.
    pub(super) fn fits(&self, view: &TaskView) -> bool {
        fits(self.reads, &self.labels, view)
    }
}

fn fits(reads: u32, labels: &Labels, view: &TaskView) -> bool {
    let has = |(name, value): (&String, &String)| {
        let own = view.labels.as_ref();
        own.and_then(|own| own.get(name)) == Some(value)
    };
    reads >= view.data_version && labels.iter().all(has)
}

impl Shared {
    /// Returns how many more tasks of the kind the worker takes.
    pub(super) fn free(&self, kind: &Kind) -> u32 {
        let Some(offer) = self.offers.get(kind) else {
            return 0;
        };
        if self.is_closed() || self.paused.contains(kind) {
            return 0;
        }
        let count = |of: &HashMap<Kind, u32>| of.get(kind).copied().unwrap_or(0);
        let used = count(&self.held).saturating_add(count(&self.claiming));
        offer.slots.saturating_sub(used)
    }

    /// Returns whether the worker gets no further tasks.
    pub(super) fn is_closed(&self) -> bool {
        self.status.frozen || self.status.draining || self.is_over
    }

    /// Returns which tasks of each kind the worker may have.
    pub(super) fn coverage(&self) -> Vec<(Kind, Coverage)> {
        let of = |(kind, offer): (&Kind, &Offer)| {
            let labels = self.labels.clone();
            let reads = offer.reads;
            (kind.clone(), Coverage { reads, labels })
        };
        self.offers.iter().map(of).collect()
    }

    /// Returns whether the worker may have the task: its kind, its labels and the version of its data.
    pub(super) fn fits(&self, view: &TaskView) -> bool {
        let offer = self.offers.get(&view.kind);
        offer.is_some_and(|offer| fits(offer.reads, &self.labels, view))
    }

    /// Notes which kinds are not wanted now.
    pub(super) fn pause(&mut self, kinds: Vec<Kind>) {
        self.paused = kinds.into_iter().collect();
    }

    /// Notes that a task of this kind is being claimed.
    pub(super) fn claims(&mut self, kind: &Kind) {
        *self.claiming.entry(kind.clone()).or_default() += 1;
    }

    /// Notes that the claims of these tasks are answered.
    pub(super) fn claimed<'a>(&mut self, kinds: impl Iterator<Item = &'a Kind>) {
        for kind in kinds {
            if let Some(count) = self.claiming.get_mut(kind) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Notes how many tasks of each kind the worker has.
    pub(super) fn holds(&mut self, held: HashMap<Kind, u32>) {
        self.status.running = held.values().sum();
        let used = |kind: &Kind| held.get(kind).copied().unwrap_or(0);
        let full = self.offers.iter();
        let full = full.filter(|(kind, offer)| used(kind) >= offer.slots);
        self.status.full = full.map(|(kind, _)| kind.clone()).collect();
        self.status.full.sort();
        self.held = held;
    }
}
