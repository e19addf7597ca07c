//! What a worker holds.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Mutex,
};

use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::Instant,
};
use windlass::{
    Fence, NodeName, TaskId,
    workers::protocol::{Held, Start, What},
};

use super::{Ledger, worker::TTL};
use crate::run::Shared;

pub(super) type Key = (TaskId, Fence);

/// A report that is not answered.
pub(super) struct Out {
    pub(super) what: What,
    /// Its number, once it was sent.
    pub(super) n: Option<u64>,
    /// Who waits for the answer.
    pub(super) to: Option<oneshot::Sender<bool>>,
}

/// A claim of the worker.
pub(super) struct Claim {
    pub(super) held: Held,
    pub(super) start: Start,
    /// The number of the last report that is not refused.
    pub(super) n: u64,
    /// The reports that are not answered.
    pub(super) out: VecDeque<Out>,
    pub(super) stop_at: Option<Instant>,
    /// The orders of the signals that the handler has not answered.
    pub(super) signals: Vec<u64>,
    pub(super) handler: Option<JoinHandle<()>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) name: Option<NodeName>,
    pub(super) seq: u64,
    pub(super) open: BTreeSet<u64>,
    /// When each exchange was sent.
    pub(super) sent: BTreeMap<u64, Instant>,
    pub(super) renewed: Option<Instant>,
    pub(super) claims: BTreeMap<Key, Claim>,
    pub(super) started: BTreeSet<(TaskId, Fence, u64)>,
    pub(super) drain: bool,
}

impl State {
    /// Returns whether the lease was not renewed for too long: handlers have to end, and none starts.
    pub(super) fn is_over(&self) -> bool {
        let until = self.renewed.map(|sent| sent + TTL.mul_f64(0.8));
        until.is_some_and(|until| until <= Instant::now())
    }
}

pub(super) struct Inner {
    pub(super) shared: Shared,
    pub(super) secret: String,
    pub(super) own_name: String,
    pub(super) ledger: Ledger,
    pub(super) state: Mutex<State>,
    /// Notified when there is something to report.
    pub(super) reports: Notify,
}
