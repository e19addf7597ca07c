//! [`Journal`]: the calls that a store has acknowledged, and a store made by repeating them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use windlass::{
    Author, NodeName, TaskId,
    clock::Clock,
    store::{
        Commit, Coordinator, Delete, Error, Exported, Lease, LogWrite, NewWorker, NodeCommand,
        NodeCommandId, NodeSpec, NodeStatus, Operation, Purge, Registry, SendCommand, SetValue,
        Speaker, Submit, Transaction, Transfer, memory::MemoryStore,
    },
    testing::TokioClock,
};

/// A call that changes a store.
#[derive(Clone)]
pub(crate) enum Call {
    Join(NodeSpec, Duration),
    Renew(Lease, NodeStatus),
    Describe(Lease, NodeSpec),
    JoinWorker(NewWorker),
    Speak(Lease, Speaker),
    Leave(Lease),
    Abandon(Lease),
    Claim(Lease, Vec<TaskId>),
    Commit(Vec<Commit>),
    Log(Vec<LogWrite>),
    Acknowledge(Lease, NodeCommandId, String),
    Submit(Vec<Submit>),
    Send(Vec<SendCommand>),
    Delete(Vec<TaskId>),
    Retry(Vec<TaskId>),
    Purge(Purge),
    SendNode(NodeName, NodeCommand, Option<Author>),
    SetValue(SetValue),
    Import(Vec<Exported>),
    Apply(Vec<Transaction>),
}

/// Deletes tasks, also those that a node has claimed.
pub(crate) async fn force_delete(
    registry: &dyn Registry,
    ids: Vec<TaskId>,
) -> Vec<Result<(), Error>> {
    let forced = |id| Operation::Delete(Delete::new(id).forced()).into();
    let answers = registry.apply(ids.into_iter().map(forced).collect()).await;
    answers.into_iter().map(|answer| answer.map(drop)).collect()
}

impl Call {
    async fn repeat(self, store: &MemoryStore) {
        match self {
            Self::Join(spec, ttl) => drop(store.join(&spec, ttl).await),
            Self::Renew(lease, status) => drop(store.renew(&lease, &status).await),
            Self::Describe(lease, spec) => drop(store.describe(&lease, &spec).await),
            Self::JoinWorker(worker) => drop(store.join_worker(&worker).await),
            Self::Speak(lease, speaker) => drop(store.speak(&lease, &speaker).await),
            Self::Leave(lease) => drop(store.leave(&lease).await),
            Self::Abandon(lease) => drop(store.abandon(&lease).await),
            Self::Claim(lease, ids) => drop(store.claim(&lease, ids).await),
            Self::Commit(commits) => drop(store.commit(commits).await),
            Self::Log(writes) => drop(Coordinator::log(store, writes).await),
            Self::Acknowledge(lease, order, outcome) => {
                drop(store.acknowledge(&lease, order, &outcome).await);
            }
            Self::Submit(tasks) => drop(store.submit(tasks).await),
            Self::Send(commands) => drop(store.send(commands).await),
            Self::Delete(ids) => drop(force_delete(store, ids).await),
            Self::Retry(ids) => drop(store.retry(ids).await),
            Self::Purge(purge) => drop(store.purge(&purge).await),
            Self::SendNode(node, command, by) => {
                drop(store.send_node(&node, command, by.as_ref()).await);
            }
            Self::SetValue(change) => drop(store.set_value(&change).await),
            Self::Import(tasks) => drop(store.import(tasks).await),
            Self::Apply(transactions) => drop(store.apply(transactions).await),
        }
    }
}

/// A clock that shows an earlier time while calls are repeated.
#[derive(Debug)]
pub(crate) struct ReplayClock {
    now: TokioClock,
    shown: Mutex<Option<Timestamp>>,
}

impl ReplayClock {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self {
            now: TokioClock::new(Timestamp::now()),
            shown: Mutex::default(),
        })
    }

    fn show(&self, at: Option<Timestamp>) {
        *self.shown.lock().unwrap() = at;
    }
}

impl Clock for ReplayClock {
    fn now(&self) -> Timestamp {
        let shown = *self.shown.lock().unwrap();
        shown.unwrap_or_else(|| self.now.now())
    }
}

/// The calls of one store, in order, with their times.
#[derive(Default)]
pub(crate) struct Journal(Mutex<Vec<(Timestamp, Call)>>);

impl Journal {
    pub(crate) fn write(&self, at: Timestamp, call: Call) {
        self.0.lock().unwrap().push((at, call));
    }

    /// Makes the store that these calls lead to, without those that `is_lost` selects.
    pub(crate) async fn replay(
        &self,
        clock: &Arc<ReplayClock>,
        is_lost: impl Fn(&Call) -> bool,
    ) -> MemoryStore {
        let store = MemoryStore::new(clock.clone());
        let calls = self.0.lock().unwrap().clone();
        for (at, call) in calls {
            if !is_lost(&call) {
                clock.show(Some(at));
                call.repeat(&store).await;
            }
        }
        clock.show(None);
        store
    }
}
