//! The machines of the claims of a worker: a server takes the place of another, machines are fed, and their writes are stored.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use tracing::{debug, warn};
use windlass_statemachine::{
    Backoff, Kind, StateKind, StopReason, TaskId,
    machine::{Input, Write},
};

use super::{
    dispatcher::Ended,
    error::WorkerError,
    protocol::{Held, Offer},
    service::Service,
    session::{Entry, Session},
    task::RemoteTask,
    worker::{Notice, Worker},
};
use crate::{
    runner::input_of,
    store::{Claimed, Commit, Error, Speaker, WorkerRecord},
};

/// How long a write is tried again while the store does not respond.
const TRIED_FOR: Duration = Duration::from_secs(5);

impl Session {
    /// Admits a request: compares its number, and takes the place of another server. `record` is what the store says
    /// now; without it, this process goes on if it has spoken last as far as it knows.
    pub(super) async fn enter(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        seq: u64,
        record: Option<WorkerRecord>,
    ) -> Result<(), WorkerError> {
        let name = &worker.lease.node;
        let stale = |last| WorkerError::Stale {
            worker: name.clone(),
            seq,
            last,
        };
        if seq <= self.seq {
            return Err(stale(self.seq));
        }
        let speaker = self.lease.speaker.clone();
        if self.speaks && (record.as_ref()).is_none_or(|now| Some(&now.speaker) == speaker.as_ref())
        {
            self.seq = seq;
            if let Some(record) = record.filter(|record| !worker.is_described(&record.spec)) {
                // It has registered again through another server.
                worker.offers(&record.spec);
                service.offers(worker);
            }
            return Ok(());
        }
        let record = match record {
            Some(record) => record,
            None => service.record(name, &worker.secret).await?,
        };
        if record.lease.id != worker.lease.id {
            return Err(WorkerError::Over(name.clone()));
        }
        if seq <= record.speaker.seq {
            return Err(stale(record.speaker.seq));
        }
        self.forget(service);
        let speaker = Speaker::new(&service.name, seq);
        let spoken = service.coordinator.speak(&record.lease, &speaker).await;
        self.lease = spoken.map_err(|error| self.failed(service, worker, seq, error))?;
        let all = service.coordinator.held(&self.lease, None).await;
        for claimed in all.map_err(|error| self.failed(service, worker, seq, error))? {
            self.hold(service, worker, claimed);
        }
        let orders = service.pending_orders(worker.lease.id).await;
        let orders = orders.map_err(|error| self.failed(service, worker, seq, error))?;
        // What the speaker before has answered is in the status by now.
        let status = service.record(name, &worker.secret).await?.status;
        debug!(worker = %name, server = %service.name, seq, claims = self.tasks.len(), "speaks for a worker");
        (self.speaks, self.seq) = (true, seq);
        worker.describe(&record.spec, status);
        worker.shared().answers.clear();
        service.offers(worker);
        if !orders.is_empty() {
            for order in orders {
                worker.tell(Notice::Node(order));
            }
            service.wake(worker.clone());
        }
        Ok(())
    }

    /// Returns what an error of the store means for the worker.
    pub(super) fn failed(
        &mut self,
        service: &Arc<Service>,
        worker: &Worker,
        seq: u64,
        error: Error,
    ) -> WorkerError {
        let name = worker.lease.node.clone();
        self.forget(service);
        match error {
            Error::Fenced(_) => {
                worker.shared().is_over = true;
                WorkerError::Over(name)
            }
            Error::OtherSpeaker { seq: last, .. } => WorkerError::Stale {
                worker: name,
                seq,
                last,
            },
            error => WorkerError::Store(error),
        }
    }

    /// Drops every machine: this process no longer knows the state of the claims.
    pub(super) fn forget(&mut self, service: &Arc<Service>) {
        for id in self.tasks.keys() {
            service
                .dispatcher()
                .disowns(id, self.lease.id, service.moment());
        }
        if self.speaks {
            service.coordinator.detach(&self.lease);
        }
        let (seq, exchange) = (self.seq, self.exchange);
        *self = Self::new(self.lease.clone());
        (self.seq, self.exchange) = (seq, exchange);
    }

    /// Adds a claim that was read from the store.
    pub(super) fn hold(&mut self, service: &Arc<Service>, worker: &Arc<Worker>, claimed: Claimed) {
        let id = claimed.task.id.clone();
        service.dispatcher().owns(&id, claimed.order, worker);
        let entry = Entry::Unconfirmed(Box::new(claimed));
        self.tasks.insert(id, entry);
    }

    /// Gives a claim its machine, by what the worker says of it. `is_new`: this process has just made the claim.
    pub(super) fn start_machine(
        &mut self,
        service: &Arc<Service>,
        worker: &Arc<Worker>,
        id: &TaskId,
        held: Option<&Held>,
        is_new: bool,
    ) {
        let Some(entry @ Entry::Unconfirmed(_)) = self.tasks.get_mut(id) else {
            return;
        };
        let offer = worker.shared().offers.get(entry.kind()).cloned();
        let offer = offer.unwrap_or_else(|| Offer::new(0));
        // The task takes its place below.
        let Some(Entry::Unconfirmed(claimed)) = self.tasks.remove(id) else {
            return;
        };
        let limits = service.coordinator.limits();
        let (mut task, inputs) = RemoteTask::new(*claimed, &offer, limits, held, is_new);
        task.machine = task.machine.on_node(worker.lease.node.clone());
        self.tasks.insert(id.clone(), Entry::Live(Box::new(task)));
        for input in inputs {
            self.feed(service, id, input);
        }
    }

    /// Feeds an input to the machine of a task. Its write is kept until [`settle`](Self::settle).
    pub(super) fn feed(&mut self, service: &Arc<Service>, id: &TaskId, input: Input) {
        let Some(Entry::Live(task)) = self.tasks.get_mut(id) else {
            return;
        };
        let asked = task.feed(input, service.env());
        if let Some(result) = asked.checkpoint {
            self.answers.insert(id.clone(), result);
        }
        if let Some(mut write) = asked.write {
            let errors = &write.state.errors;
            if self.succeeding.contains(id)
                && errors.total() > task.state().errors.total()
                && let Some(why) = errors.last().map(|last| last.error.clone())
                && let Some(report) = &mut write.state.report
            {
                // Something else is stored than what the handler has returned: the report is answered with the reason.
                report.refused.get_or_insert(why);
            }
            let commit = Commit::new(task.claim.clone(), *write);
            self.writes.push((id.clone(), commit));
        }
        if asked.is_done {
            if task.is_unfinished() {
                self.fenced.insert((id.clone(), task.claim.fence));
            }
            let ended = Ended {
                order: task.order,
                runs_again: task.state().code() == StateKind::Runnable
                    && !task.is_over_limit()
                    && !task.machine.ends_for_next_attempt(),
                is_stopped: self.stops.contains_key(id),
                signalled: task.machine.holds_signals(),
            };
            self.tasks.remove(id);
            let now = service.moment();
            service.dispatcher().released(id, self.lease.id, ended, now);
            // It may be due before anything else is.
            service.work.notify_one();
            for command in self.stops.remove(id).into_iter().flatten() {
                service.acknowledge(&self.lease, command, "released");
            }
        }
    }

    /// Releases a claim that is not for this worker.
    pub(super) fn release(&mut self, claimed: Claimed) {
        let id = claimed.task.id.clone();
        let commit = Commit::new(claimed.claim, Write::releasing(claimed.state));
        self.writes.push((id, commit));
    }

    /// Sends the writes, and feeds the answers, until nothing is left to write.
    pub(super) async fn settle(&mut self, service: &Arc<Service>, worker: &Arc<Worker>) {
        let until = Instant::now() + TRIED_FOR;
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        while !self.writes.is_empty() {
            let batch = mem::take(&mut self.writes);
            let commits = batch.iter().map(|(_, commit)| commit.clone()).collect();
            let asked = Instant::now();
            let answers = service.coordinator.commit(commits).await;
            service.metrics.committed(asked.elapsed(), batch.len());
            let mut again = Vec::new();
            for ((id, commit), answer) in batch.into_iter().zip(answers) {
                match &answer {
                    Err(error) if error.is_retryable() => {
                        again.push((id, commit));
                        continue;
                    }
                    Ok(()) => {
                        if let Some(entry) = self.tasks.get(&id) {
                            service.metrics.moved(entry.kind(), &commit.write);
                        }
                        let state = &commit.write.state;
                        debug!(task = %id, fence = %commit.claim.fence, worker = %worker.lease.node, server = %service.name,
                            to = %state.code(), ends = commit.write.drop_claim, "transition");
                        let stored = (state.report.clone(), state.code());
                        self.written.insert(id.clone(), stored);
                    }
                    Err(Error::Superseded { .. }) => self.reload.push(id.clone()),
                    Err(error) => {
                        service.metrics.refused(error);
                        debug!(task = %id, %error, "a write of a remote worker was refused");
                    }
                }
                self.feed(service, &id, input_of(&id, answer));
            }
            if again.is_empty() {
                continue;
            }
            if Instant::now() >= until {
                warn!(worker = %worker.lease.node, writes = again.len(),
                    "the store does not respond: the state of the worker's tasks is read again with its next request");
                self.forget(service);
                break;
            }
            self.writes.extend(again);
            sleep(backoff.pause()).await;
        }
        self.read_again(service, worker).await;
        self.note(service, worker);
    }

    /// Reads the tasks again whose state another writer of the claim has changed.
    async fn read_again(&mut self, service: &Arc<Service>, worker: &Arc<Worker>) {
        let ids = mem::take(&mut self.reload);
        if ids.is_empty() {
            return;
        }
        match service.coordinator.held(&self.lease, Some(ids)).await {
            Ok(all) => {
                for claimed in all {
                    self.fenced
                        .remove(&(claimed.task.id.clone(), claimed.claim.fence));
                    self.hold(service, worker, claimed);
                }
            }
            Err(error) => {
                debug!(worker = %worker.lease.node, %error, "could not read claims again");
                self.forget(service);
            }
        }
    }

    /// Notes in the shared part what the worker has, and arms the next timer.
    fn note(&mut self, service: &Arc<Service>, worker: &Arc<Worker>) {
        let mut held: HashMap<Kind, u32> = HashMap::new();
        for entry in self.tasks.values() {
            *held.entry(entry.kind().clone()).or_default() += 1;
        }
        worker.shared().holds(held);
        if self.tasks.is_empty() {
            let drained = mem::take(&mut self.drains).into_iter();
            let drained = drained.map(|command| (command, "drained".to_owned()));
            worker.shared().answers.extend(drained);
        }
        let env = service.env();
        let timers = self.tasks.values().filter_map(|entry| match entry {
            Entry::Live(task) => task.next_timer(env),
            Entry::Unconfirmed(_) => None,
        });
        if let Some(wait) = timers.min() {
            service.arm(worker, wait);
        }
    }

    /// Stops every run.
    pub(super) fn stop_all(&mut self, service: &Arc<Service>, reason: StopReason) {
        let ids: Vec<TaskId> = self.tasks.keys().cloned().collect();
        for id in ids {
            self.feed(service, &id, Input::Stop(reason));
        }
    }
}
