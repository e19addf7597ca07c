//! [`Service`]: what the requests of all workers of this process share.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use windlass_statemachine::{Kind, NodeName, machine::Env};

use super::{
    dispatcher::Dispatcher,
    error::WorkerError,
    renewals::Renewals,
    secret,
    worker::{Notice, Worker},
};
use crate::{
    clock::Clock,
    runner::due::Moment,
    store::{
        Coordinator, Error, Lease, NodeCommandId, QueuedNodeCommand, Registry, Store, TaskView,
        WorkerRecord,
    },
    telemetry::RemoteMetrics,
};

/// What the requests of all workers of this process share.
pub(super) struct Service {
    /// The name of the node with which this process watches the tasks.
    pub(super) name: String,
    pub(super) coordinator: Arc<dyn Coordinator>,
    pub(super) registry: Arc<dyn Registry>,
    clock: Arc<dyn Clock>,
    started: Instant,
    dispatcher: Mutex<Dispatcher>,
    /// Notified when there may be tasks for waiting workers.
    pub(super) work: Notify,
    /// The kinds of all workers, for the watch.
    pub(super) kinds: watch::Sender<BTreeSet<Kind>>,
    pub(super) renewals: Renewals,
    pub(super) metrics: RemoteMetrics,
    pub(super) servers: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    pub(super) stop: CancellationToken,
}

impl Service {
    pub(super) fn new(
        store: &Store,
        servers: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: format!("server-{}", crate::unique_id::new().simple()),
            coordinator: store.coordinator().clone(),
            registry: store.registry().clone(),
            clock: store.clock().clone(),
            started: Instant::now(),
            dispatcher: Mutex::default(),
            work: Notify::new(),
            kinds: watch::channel(BTreeSet::new()).0,
            renewals: Renewals::default(),
            metrics: RemoteMetrics::new(),
            servers,
            stop: CancellationToken::new(),
        })
    }

    pub(super) fn dispatcher(&self) -> MutexGuard<'_, Dispatcher> {
        self.dispatcher
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn env(&self) -> Env {
        Env {
            now: self.clock.now(),
            elapsed: self.started.elapsed(),
            jitter: fastrand::f64(),
        }
    }

    pub(super) fn moment(&self) -> Moment {
        Moment {
            clock: self.clock.now(),
            at: Instant::now(),
        }
    }

    /// Reads the record of a worker, and compares the secret.
    pub(super) async fn record(
        &self,
        name: &NodeName,
        secret: &str,
    ) -> Result<WorkerRecord, WorkerError> {
        let found = self.coordinator.worker(name).await;
        let record = found.map_err(WorkerError::Store)?;
        let record = record.ok_or_else(|| WorkerError::Over(name.clone()))?;
        if !secret::is_same(&record.secret, secret) {
            return Err(WorkerError::Secret(name.clone()));
        }
        Ok(record)
    }

    /// Returns the worker of a record, which is new to this process unless it has served that lease before.
    pub(super) fn worker(self: &Arc<Self>, record: &WorkerRecord) -> Arc<Worker> {
        let mut dispatcher = self.dispatcher();
        if let Some(worker) = dispatcher.worker(record.lease.id) {
            return worker.clone();
        }
        let worker = Worker::new(record.clone());
        let kinds = dispatcher.add(&worker);
        drop(dispatcher);
        self.metrics.begin(worker.shared().offers.keys());
        self.covers(kinds);
        worker
    }

    /// Takes note of what a worker offers now.
    pub(super) fn offers(&self, worker: &Arc<Worker>) {
        self.metrics.begin(worker.shared().offers.keys());
        let kinds = self.dispatcher().add(worker);
        self.covers(kinds);
    }

    /// Watches these kinds, and lists their tasks again.
    pub(super) fn covers(&self, kinds: Option<BTreeSet<Kind>>) {
        if let Some(kinds) = kinds {
            self.kinds.send_replace(kinds);
        }
    }

    /// Forgets a worker whose lease is over.
    pub(super) async fn drop_worker(self: &Arc<Self>, worker: &Worker) {
        worker.shared().is_over = true;
        worker.session.lock().await.forget(self);
        self.dispatcher().remove(worker.lease.id);
        worker.news.notify_waiters();
    }

    /// Lets the worker look at its notices.
    pub(super) fn wake(self: &Arc<Self>, worker: Arc<Worker>) {
        let service = self.clone();
        tokio::spawn(async move {
            let mut session = worker.session.lock().await;
            session.look(&service, &worker).await;
            drop(session);
            worker.news.notify_waiters();
        });
    }

    /// Lets the worker look at its timers after this time.
    pub(super) fn arm(self: &Arc<Self>, worker: &Arc<Worker>, wait: Duration) {
        // The wall clock may be set, so no wait is longer than a minute.
        let wait = wait.clamp(Duration::from_millis(1), Duration::from_secs(60));
        let at = Instant::now() + wait;
        {
            let mut shared = worker.shared();
            if shared.alarm.is_some_and(|alarm| alarm <= at) {
                return;
            }
            shared.alarm = Some(at);
        }
        let (service, worker) = (self.clone(), worker.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = sleep(wait) => {}
                () = service.stop.cancelled() => return,
            }
            worker.shared().alarm.take_if(|alarm| *alarm <= at);
            worker.tell(Notice::Time);
            service.wake(worker);
        });
    }

    /// Returns the commands of operators to a worker that no server has answered, and forgets the others: the server that
    /// spoke for the worker before may have carried them out.
    pub(super) async fn pending_orders(&self, lease: u64) -> Result<Vec<QueuedNodeCommand>, Error> {
        let mut pending = Vec::new();
        let orders = self.dispatcher().orders(lease);
        for order in orders {
            match self.registry.node_outcome(order.id).await {
                Ok(None) => pending.push(order),
                // It was answered, or its worker has left.
                Ok(Some(_)) | Err(Error::NotFound { .. }) => {
                    self.dispatcher().answered(lease, order.id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pending)
    }

    /// Answers a command of an operator.
    pub(super) fn acknowledge(
        self: &Arc<Self>,
        lease: &Lease,
        command: NodeCommandId,
        outcome: impl Into<String>,
    ) {
        let (service, lease, outcome) = (self.clone(), lease.clone(), outcome.into());
        tokio::spawn(async move {
            for _ in 0..10 {
                let done = service
                    .coordinator
                    .acknowledge(&lease, command, &outcome)
                    .await;
                match done {
                    Err(error) if error.is_retryable() => sleep(Duration::from_millis(500)).await,
                    Err(error @ Error::NotFound { .. }) | Err(error) => {
                        debug!(worker = %lease.node, %error, "could not answer a command to a worker");
                        break;
                    }
                    Ok(()) => break,
                }
            }
            service.dispatcher().answered(lease.id, command);
        });
    }

    /// Forgets the workers that have gone elsewhere, or for good, and the commands of operators that other servers have
    /// answered.
    pub(super) fn sweep(self: &Arc<Self>) {
        let others = self.dispatcher().orders_of_others();
        if !others.is_empty() {
            let service = self.clone();
            tokio::spawn(async move {
                for lease in others {
                    if let Err(error) = service.pending_orders(lease).await {
                        debug!(lease, %error, "could not read the outcome of a command to a worker");
                    }
                }
            });
        }
        let workers = self.dispatcher().workers();
        for worker in workers.into_iter().filter(|worker| worker.is_gone()) {
            let service = self.clone();
            tokio::spawn(async move { service.drop_worker(&worker).await });
        }
    }

    /// Claims tasks for the workers that wait.
    pub(super) fn dispatch(self: &Arc<Self>) {
        let taken = self.dispatcher().take(self.moment());
        for (worker, views) in taken {
            let service = self.clone();
            tokio::spawn(async move { service.claim(&worker, views).await });
        }
    }

    async fn claim(self: Arc<Self>, worker: &Arc<Worker>, views: Vec<TaskView>) {
        let mut session = worker.session.lock().await;
        session.claim(&self, worker, views).await;
        drop(session);
        worker.news.notify_waiters();
    }
}
